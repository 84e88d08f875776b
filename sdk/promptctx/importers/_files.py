"""Opening a log: JSON document, JSON lines or event stream, told by content and never by a file's name alone."""

import json
import math
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

from promptctx.importers._model import ImportFailed, Json, Skipped

MAX_DOCUMENT = 512 * 2**20
"""A JSON document is parsed whole; lines are not, so they have no limit."""

HEAD = 40
"""Records looked at to tell a format by."""

HALF = "half a line at the end, left for a later import"

Kind = Literal["document", "lines", "stream", "archive"]

NOT_LOGS = {
    ".png": "an image", ".jpg": "an image", ".jpeg": "an image", ".gif": "an image", ".webp": "an image",
    ".svg": "an image", ".ico": "an image", ".bmp": "an image", ".pdf": "a document", ".md": "a text",
    ".rst": "a text", ".html": "a page", ".css": "a style sheet", ".py": "a program", ".js": "a program",
    ".toml": "a settings file", ".yaml": "a settings file", ".yml": "a settings file", ".lock": "a lock file",
}  # fmt: skip


@dataclass(slots=True)
class OpenedFile:
    """A file whose kind is known and whose beginning was read."""

    path: Path
    kind: Kind
    document: Json = None
    head: list[Json] = field(default_factory=list)
    oddities: Counter[str] = field(default_factory=Counter)

    def records(self, oddities: Counter[str] | None = None) -> Iterator[tuple[int, Json]]:
        """Each record with its number: a line's, or an event's in a stream. Read anew, one at a time."""
        odd = Counter() if oddities is None else oddities
        return stream_records(self.path, odd) if self.kind == "stream" else line_records(self.path, odd)


def open_file(path: Path) -> OpenedFile | Skipped:
    """The file, opened as what it is; a reason if it cannot be a log. Raises ImportFailed for a damaged one."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return Skipped(path, "not a regular file", quiet=True)
        if (reason := _no_log(path)) is not None:
            return Skipped(path, reason, quiet=True)
        if status.st_size == 0:
            return Skipped(path, "empty file")
        with path.open("rb") as file:
            return _opened(path, file, status.st_size)
    except OSError as error:
        raise ImportFailed(f"{path}: cannot be read: {error.strerror or error}.") from None


def _no_log(path: Path) -> str | None:
    if path.stem.upper() in ("LICENSE", "LICENCE", "COPYING", "NOTICE", "SOURCE", "README"):
        return "a licence, notice or description"
    what = NOT_LOGS.get(path.suffix.lower())
    return what and f"{what}, not a log"


def _opened(path: Path, file: BinaryIO, size: int) -> OpenedFile | Skipped:
    start = file.read(4096)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ImportFailed(f"{path}: is UTF-16; convert it to UTF-8.")
    if start.startswith(b"PK\x03\x04"):
        return OpenedFile(path, "archive")
    if b"\x00" in start:
        return Skipped(path, "binary, not a log", quiet=True)
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return Skipped(path, "nothing but white space")
    if text.startswith((b"event:", b"data:")):
        events = stream_records(path, Counter())
        return OpenedFile(path, "stream", head=[event for _, event in islice(events, HEAD)])
    if text[:1] not in b'{["':
        return Skipped(path, "not JSON", quiet=path.suffix not in (".json", ".jsonl"))
    file.seek(0)
    if _is_lines(path, file):
        return OpenedFile(path, "lines", head=[value for _, value in islice(line_records(path, Counter()), HEAD)])
    return _document(path, size)


def _is_lines(path: Path, file: BinaryIO) -> bool:
    """JSON lines: the first line is a whole value and another one follows, or the name says so."""
    first = next((line for line in file if line.strip()), b"")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return first.strip() not in (b"{", b"[")
    if not any(line.strip() for line in file):
        return False
    try:
        json.loads(first.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return False
    return True


def _document(path: Path, size: int) -> OpenedFile:
    if size > MAX_DOCUMENT:
        raise ImportFailed(f"{path}: a JSON document of {size:,} bytes; the limit is {MAX_DOCUMENT:,}. Use JSON lines.")
    oddities: Counter[str] = Counter()
    raw = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    return OpenedFile(path, "document", document=parse(raw, path, None, oddities), oddities=oddities)


def line_records(path: Path, oddities: Counter[str]) -> Iterator[tuple[int, Json]]:
    """Each line's value with its number. Half a last line is an oddity; any other bad line fails the import."""
    held: tuple[int, bytes] | None = None
    with path.open("rb") as file:
        # Only b"\n" ends a line: JSON strings may hold U+2028 and its like.
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if held is not None:
                yield held[0], parse(held[1], path, held[0], oddities)
            held = number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    if held is None:
        return
    try:
        last = parse(held[1], path, held[0], oddities)
    except ImportFailed:
        oddities[HALF] = 1
        return
    yield held[0], last


def stream_records(path: Path, oddities: Counter[str]) -> Iterator[tuple[int, Json]]:
    """Each server-sent event as {"event", "data"}, with the number of its last line of data."""
    name, data, last = "message", [], 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode().rstrip("\r\n")
            except UnicodeDecodeError:
                raise ImportFailed(f"{path}, line {number}: not UTF-8.") from None
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "data":
                data.append(value)
                last = number
            elif not line.strip() and data:
                yield last, _event(name, data, path, last)
                name, data = "message", []
    if data:
        try:
            yield last, _event(name, data, path, last)
        except ImportFailed:
            oddities[HALF] = 1


def _event(name: str, data: list[str], path: Path, number: int) -> Json:
    joined = "\n".join(data)
    return {"event": name, "data": None if joined == "[DONE]" else parse(joined.encode(), path, number, Counter())}


def parse(raw: bytes, path: Path, line: int | None, oddities: Counter[str]) -> Json:
    where = f"{path}, line {line}" if line else f"{path}"
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line or raw[: error.start].count(b"\n") + 1
        raise ImportFailed(f"{path}, line {at}: not UTF-8 (byte {error.start}); convert it first.") from None

    def not_json(text: str) -> str:
        oddities["numbers that are not JSON (NaN, Infinity), kept as text"] += 1
        return text

    def number(text: str) -> float | str:
        value = float(text)
        return value if math.isfinite(value) else not_json(text)

    try:
        return json.loads(decoded, parse_constant=not_json, parse_float=number)
    except json.JSONDecodeError as error:
        raise ImportFailed(f"{path}, line {line or error.lineno}: not JSON: {error.msg}.") from None
    except RecursionError:
        raise ImportFailed(f"{where}: JSON nested too deeply.") from None
    except ValueError as error:
        raise ImportFailed(f"{where}: not JSON: {str(error).split(';')[0]}.") from None
