"""The command stats: how large everything is, where room was short, and which settings follow from it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from promptctx import Stats
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, has_blocks, safe, show_json, table

_STEPS = " ▁▂▃▄▅▆▇█"
_PLAIN_STEPS = " .:-=+*%#"
_TOOLS = 12
_BAR = 40
_HEADS = ("#items", "#tokens", "#mean", "#median", "#p95", "#peak", "#long tail", "sizes")


@app.command()
def stats(
    ctx: typer.Context,
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="Id of the session.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Of all sessions.")] = False,
    as_json: Json = False,
) -> None:
    """Show token statistics and the settings that follow from them."""
    if (session is None) != every:
        raise typer.BadParameter("Name a session, or give --all.", param_hint="SESSION")
    cli: Cli = ctx.obj
    found = cli.client().stats(session)
    return show_json(found) if as_json else show_stats(console(), found)


def show_stats(out: Console, found: Stats) -> None:
    blocks = has_blocks(out)
    skipped = f" · {found.skipped} skipped" if found.skipped else ""
    sessions = f"session {found.session}" if found.session is not None else f"{found.sessions:,} sessions{skipped}"
    encodings = ", ".join(found.encodings) or "nothing"
    head = f"{sessions} · {found.messages:,} messages · tokens of {encodings}"
    out.print(Text(safe(head, one_line=True), style="bold"), soft_wrap=True)
    out.print(table(("messages", *_HEADS), _messages(found, blocks)))
    if found.prompts.get("count"):
        out.print()
        out.print(Text(_about_prompts(found.prompts)), soft_wrap=True)
        out.print(table(("prompts", *_HEADS), [("prompts", *_spread(found.prompts, blocks))]))
        out.print(table(("zone", "#share", "", "#p95", "#peak", "#short"), _zones(found.zones, blocks)))
        heads = ("slot", "#budget", "#wanted, p95", "#peak", "#over", "wishes")
        out.print(table(heads, _slots(found.slots, blocks)))
    out.print()
    out.print(table(("recommended", "#"), _recommended(found.recommended)))
    if found.model_calls.get("calls"):
        out.print()
        out.print(Text(_about_models(found.model_calls)), soft_wrap=True)


def sparkline(histogram: Sequence[Mapping[str, Any]], *, blocks: bool = True) -> str:
    """A histogram in one line, with the sizes that it goes from and to."""
    if not histogram or (len(histogram) == 1 and histogram[0]["to"] <= 1):
        return ""
    steps = _STEPS if blocks else _PLAIN_STEPS
    most = max(1, *(int(one["count"]) for one in histogram))
    # Whatever is there at all is seen: rounded up.
    line = "".join(steps[-(-int(one["count"]) * (len(steps) - 1) // most)] for one in histogram)
    return f"{line} ≤{histogram[0]['to']}…{histogram[-1]['to']}" if blocks else f"{line} <={histogram[-1]['to']}"


def _spread(one: Mapping[str, Any], blocks: bool) -> tuple[object, ...]:
    names = ("count", "tokens", "mean", "median", "p95", "peak")
    numbers = (_number(value if value is None else round(value)) for value in map(one.get, names))
    return (*numbers, _percent(one.get("long_tail")), sparkline(one.get("histogram") or (), blocks=blocks))


def _messages(found: Stats, blocks: bool) -> Iterator[tuple[object, ...]]:
    for role, one in found.roles.items():
        yield role, *_spread(one, blocks)
    for one in found.tools[:_TOOLS]:
        yield f"  {one.get('tool') or '(no name)'}", *_spread(one, blocks)
    if len(found.tools) > _TOOLS:
        yield (f"  … and {len(found.tools) - _TOOLS} more tools; --json shows all",)


def _about_prompts(one: Mapping[str, Any]) -> str:
    reused = one.get("prefix_reuse")
    told = [
        f"{_number(one.get('count'))} prompts looked at, of {_number(one.get('stored'))}",
        f"{_percent(one.get('fill'))} full",
        f"{_percent(one.get('trimmed'))} trimmed",
    ]
    return " · ".join(told if reused is None else [*told, f"{_percent(reused)} the same prefix as before"])


def _about_models(one: Mapping[str, Any]) -> str:
    failed = sum((one.get("failed") or {}).values())
    told = [f"models were asked {_number(one.get('calls'))} times", *([f"{failed:,} in vain"] if failed else [])]
    tokens = f"{_number(one.get('tokens_in'))} tokens in, {_number(one.get('tokens_out'))} out"
    return " · ".join((*told, tokens))


def _zones(zones: Mapping[str, Any], blocks: bool) -> Iterator[tuple[object, ...]]:
    for zone, one in sorted(zones.items(), key=lambda pair: -(pair[1].get("share") or 0)):
        bar = ("█" if blocks else "#") * round((one.get("share") or 0) * _BAR)
        yield zone, _percent(one.get("share")), bar, *(_number(one.get(name)) for name in ("p95", "peak", "over"))


def _slots(slots: Mapping[str, Any], blocks: bool) -> Iterator[tuple[object, ...]]:
    for slot, one in slots.items():
        wanted = one.get("wanted") or {}
        numbers = (_number(value) for value in (wanted.get("p95"), wanted.get("peak"), one.get("over")))
        yield slot, _number(one.get("budget")), *numbers, sparkline(wanted.get("histogram") or (), blocks=blocks)


def _recommended(settings: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}.token_budget", _number(told)) for inner, told in value.items())
        else:
            yield name, "too little seen" if value is None else _number(value)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else ""


def _percent(share: Any) -> str:
    return f"{share:.0%}" if isinstance(share, int | float) else ""
