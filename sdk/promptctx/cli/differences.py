"""A diff of prompts on a terminal: zones, then each change with its cause, its lines and its words."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from promptctx.cli._screen import safe

_STYLES = {"+": "green", "-": "red", "=": "", "~": "yellow"}
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": "↕"}


def show_diff(out: Console, found: Mapping[str, Any], *, unified: bool = False, brief: bool = False) -> None:
    for line in unified_lines(found) if unified else readable(found, brief=brief):
        out.print(line, soft_wrap=True)


def readable(found: Mapping[str, Any], *, brief: bool = False) -> Iterator[Text]:
    """Coloured, with words; a brief one without lines."""
    for one in found.get("request", ()):
        yield Text(safe(f"{one['field']}: {one['before']} → {one['after']}", one_line=True), style="bold")
    for row in found.get("zones", ()):
        yield Text(f"{row['zone']:<16} {row['before']:>7} → {row['after']:>7} tokens", style="bright_black")
    for change in found["changes"]:
        sign = _SIGNS[change["change"]]
        title = f"{sign} {safe(change['segment'], one_line=True)} ({change['zone']})"
        yield Text(title, style="bold") + Text(f"  {cause_line(change['cause'])}", style="cyan")
        for line in () if brief else change["lines"]:
            yield _line(line)
            told = line.get("cause")
            if told and told != change["cause"] and told["by"] != "unknown":
                yield Text(f"      {cause_line(told)}", style="cyan")
    if not found["changes"]:
        yield Text("no difference")


def _line(line: Mapping[str, Any]) -> Text:
    if line["op"] != "~":
        return Text(f"  {line['op']} {safe(line['text'], one_line=True)}", style=_STYLES[line["op"]])
    made = Text("  ~ ", style=_STYLES["~"])
    for op, text in line["words"]:
        shown = safe(text, one_line=True)
        made += Text({"-": f"[-{shown}-]", "+": f"{{+{shown}+}}"}.get(op, shown), style=_STYLES[op])
    return made


def unified_lines(found: Mapping[str, Any]) -> Iterator[Text]:
    """As `diff -u` writes it, a hunk for each segment, its cause in the hunk's head."""
    before, after = found.get("before", {}), found.get("after", {})
    yield Text(f"--- {safe(before.get('prompt', 'a'), one_line=True)}")
    yield Text(f"+++ {safe(after.get('prompt', 'b'), one_line=True)}")
    for change in found["changes"]:
        gone = sum(line["op"] in "-~" for line in change["lines"])
        came = sum(line["op"] in "+~" for line in change["lines"])
        head = f"@@ -{gone} +{came} @@ {safe(change['segment'], one_line=True)}: {cause_line(change['cause'])}"
        yield Text(head, style="cyan")
        for line in change["lines"]:
            if line["op"] == "~":
                yield Text(f"-{safe(line['before'], one_line=True)}", style="red")
            sign = "+" if line["op"] == "~" else line["op"]
            yield Text(f"{sign}{safe(line['text'], one_line=True)}", style=_STYLES[sign])


def cause_line(cause: Mapping[str, Any] | None) -> str:
    """A cause as one line."""
    if cause is None:
        return "cause unknown"
    asked = ", ".join(f"{one['field']} {one['before']} → {one['after']}" for one in cause.get("request", ()))
    text = str(cause["text"])
    return safe(f"{text} ({asked})" if asked and cause["by"] == "rule" else text, one_line=True)
