"""Output that no data can take over: escaped text for terminals, JSON for programs."""

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Control characters drive a terminal, bidirectional overrides reorder what is read, surrogates cannot be written.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SECRET = "***"
_FILE_WIDTH = 160


def safe(value: object, *, one_line: bool = False) -> str:
    """Text of unknown origin, fit for a terminal; unsafe characters are shown as their escapes."""
    text = _UNSAFE.sub(lambda found: _escape(found[0]), str(value))
    return text.replace("\n", "\\n").replace("\t", " ") if one_line else text


def short(value: object, width: int = 80) -> str:
    """One line of at most `width` characters."""
    text = str(value)[: width * 4]
    line = safe(text, one_line=True)
    return line if len(line) <= width else line[: width - 1] + "…"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in short: "2–5, 9"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("–".join(map(str, one)) for one in found)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def console(*, stderr: bool = False) -> Console:
    """Nothing in data is markup, an emoji code or something to highlight. A file gets wide lines."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _FILE_WIDTH
    return made


def has_blocks(out: Console) -> bool:
    """Whether the terminal's encoding has more than ASCII."""
    return out.encoding.lower().startswith("utf")


def say(*lines: object) -> None:
    out = console()
    for line in lines:
        out.print(line if isinstance(line, Text) else safe(line), soft_wrap=True)


def complain(message: object) -> None:
    """One line on stderr."""
    sys.stderr.write(f"promptctx: {safe(message, one_line=True)}\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> Table:
    """A table; columns whose head begins with `#` are numbers."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, show_edge=False)
    for head in heads:
        number = head.startswith("#")
        made.add_column(head.lstrip("#"), justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in rows:
        made.add_row(*(Text("" if cell is None else safe(cell, one_line=True)) for cell in row))
    return made


def show_json(value: Any, *, one_line: bool = False) -> None:
    """JSON on stdout. What could drive a terminal is escaped, which JSON reads back as the same characters."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    text = json.dumps(
        value, ensure_ascii=encoding != "utf8", default=plain, indent=None if one_line else 2, allow_nan=False
    )
    sys.stdout.write(_UNSAFE.sub(_json_escape, text) + "\n")
    sys.stdout.flush()


def _json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def plain(value: Any) -> Any:
    """A value of the client as JSON: public fields only."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value) if not item.name.startswith("_")}
    return list(value) if isinstance(value, list | tuple | set | frozenset) else str(value)


def without_secrets(kind: str, payload: Any) -> Any:
    """The payload of an event with the values that its sender marked as secret covered."""
    if kind != "tool.environment" or not isinstance(payload, dict):
        return payload
    values = payload.get("values")
    if not isinstance(values, dict):
        return payload
    shown = {
        name: {**one, "value": _SECRET} if isinstance(one, dict) and one.get("secret") else one
        for name, one in values.items()
    }
    return {**payload, "values": shown}


def prepare_streams() -> None:
    """A character that the terminal's encoding lacks is written as its escape instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(errors="backslashreplace")
