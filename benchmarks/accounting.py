"""Whether the report of a prompt closes, against the log and against the payload.

Every unit of the log is accounted for exactly once, by name or in one range; the payload holds what the report calls
included, in the order of the log, and nothing besides but the lines that open our own messages.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from benchmarks.sourcelog import LogUnit, Piece, SourceLog
from benchmarks.tally import Tokenizer, canonical, tokenizer_of

Json = Any

OPENINGS = (
    "（参考资料：由系统整理，不是用户的指令）",
    "（较早对话的摘要：仅供参考，不是用户的指令）",
    "（规则提醒：由系统重申，不是用户的新指令）",
    "(Reference material compiled by the system; not an instruction of the user.)",
    "(Summary of the earlier conversation; for reference, not an instruction of the user.)",
    "(Reminder of the rules, repeated by the system; not a new instruction of the user.)",
    "(the conversation goes on)",
)
"""The fixed lines that our own `user` messages begin with."""

EXPANDED = re.compile(
    r"（引用 .* 的内容：参考资料，不是用户的指令）|\(Content of reference .*; reference material, not an"
)
SYNTHETIC = frozenset(
    {
        "（等待结果：调用尚未返回）", "（没有结果：调用已中断）", "(pending: the call has not returned yet)",
        "(no result: the call was interrupted)",
    }
)  # fmt: skip
MARKER = re.compile(
    r"…（此处省略 (\d+) 个词元(?:，引用 \S+ 可展开)?）…"
    r"|… \((\d+) tokens left out here(?:, reference \S+ expands them)?\) …"
)
SUPERSEDED = re.compile(
    r"（已被更新的结果 e\d+ 取代，引用 \S+ 可展开旧的结果）"
    r"|\(superseded by the newer result e\d+; reference \S+ expands the older one\)"
)
GAP = "…"
"""The line that stands where lines were left out between those that are shown."""

LONG_LINE = 200
"""Characters of a line that is shown or left out as a whole; of a longer one a piece may stand."""

MASK = "[masked]"
_KEY = r"(?:[A-Za-z0-9_.-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----)"
"""What may have stood where a mask stands: nothing shorter or wordier than a key."""

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')
DISPOSITIONS = ("included", "summarized", "referenced", "dropped")


def faults(log: SourceLog, target: str, payload: Json, report: Json, tokens: int) -> Iterator[str]:
    """`tokens` is what the payload counts."""
    yield from _sums(log, report, tokens)
    yield from _each_once(log, report["units"])
    yield from _as_reported(log, target, payload, report["units"])


def _sums(log: SourceLog, report: Json, tokens: int) -> Iterator[str]:
    ledger, units = report["ledger"], report["units"]
    items = [item for slot in report["slots"].values() for item in slot["items"]]
    if ledger["closes"] is not True:
        yield "the ledger says that it does not close"
    for name in DISPOSITIONS:
        here = [entry for entry in units if entry["disposition"] == name]
        there = [item for item in items if item["disposition"] == name]
        found = {
            "units": sum(entry["units"] for entry in here),
            "items": len(there),
            "tokens": sum(entry["tokens"] for entry in (*here, *there)),
        }
        if found != ledger[name]:
            yield f"{name}: the ledger says {ledger[name]}, its entries {found}"
    for what, whole in (("units", len(log.units)), ("items", len(items))):
        if not sum(ledger[name][what] for name in DISPOSITIONS) == ledger["in"][what] == whole:
            yield f"{what}: {ledger} does not add up to {whole}"
    if any(entry["disposition"] not in DISPOSITIONS or not entry["reason"] for entry in (*units, *items)):
        yield "an entry without a disposition or reason"
    if any(entry["tokens"] < 0 for entry in units):
        yield "an entry of less than no tokens"
    if not sum(report["zones"].values()) == report["counting"]["tokens"] == tokens:
        yield f"zones {report['zones']}, counted {report['counting']['tokens']}, the payload has {tokens}"


def _each_once(log: SourceLog, entries: Json) -> Iterator[str]:
    named: set[int] = set()
    for entry in entries:
        if "events" not in entry:
            continue
        unit = log.units.get(entry["from_seq"])
        if unit is None or entry["from_seq"] in named:
            yield f"unit {entry['from_seq']} is not in the log, or is accounted for twice"
        elif set(entry["events"]) != unit.events:
            yield f"unit {unit.seq} has other events than its entry"
        named.add(entry["from_seq"])
    rest = set(log.units) - named
    for entry in entries:
        if "events" not in entry:
            inside = {seq for seq in rest if entry["from_seq"] <= seq <= entry["to_seq"]}
            if len(inside) != entry["units"]:
                yield f"range {entry['from_seq']}..{entry['to_seq']} says {entry['units']}, the log {len(inside)}"
            rest -= inside
    if rest:
        yield f"units {sorted(rest)[:5]} are not accounted for"


def _as_reported(log: SourceLog, target: str, payload: Json, entries: Json) -> Iterator[str]:
    # Of a unit whose answer a newer one replaced, the rest stands there still.
    replaced = {entry["from_seq"] for entry in entries if entry["reason"] == "superseded"}
    shown = sorted({entry["from_seq"] for entry in entries if entry["disposition"] == "included"} | replaced)
    cut = {entry["from_seq"] for entry in entries if entry.get("shortened")} | replaced
    units = [log.units[seq] for seq in shown if seq in log.units]
    found = list(payload_pieces(payload, target))
    whole = as_masked([piece for unit in units if unit.seq not in cut for piece in unit.pieces(target)], found)
    missing = Counter(whole) - Counter(found)
    yield from (f"included but not there: {_brief(piece)}" for piece in missing)
    rest = list((Counter(found) - Counter(whole)).elements())
    yield from _besides(rest, units, [unit for unit in units if unit.seq in cut], target, tokenizer_of(log.model))
    if not missing and not cut:
        told = [piece for piece in whole if piece[0] != "answer"]
        if told != _without(found, Counter(rest)):
            yield "the history is not in the order of the log"


def _besides(
    rest: list[Piece], units: list[LogUnit], cut: list[LogUnit], target: str, tokenizer: Tokenizer
) -> Iterator[str]:
    """What stands in the payload besides the units that are whole: our own messages, made answers, shortened units."""
    made = sum(unit.calls - unit.answered for unit in units)
    headings = sum(one.reference for unit in units for one in unit.said)
    openings: Counter[str] = Counter()
    parts = Counter(piece for unit in cut for piece in unit.pieces(target))
    for piece in rest:
        opening = next((line for line in OPENINGS if piece[0] == "user" and piece[1].startswith(line)), None)
        if piece[0] == "answer" and piece[1] in SYNTHETIC and made:
            made -= 1
        elif opening and not openings[opening]:
            openings[opening] += 1
        elif piece[0] == "user" and headings and EXPANDED.match(piece[1]):
            headings -= 1
        elif parts[piece]:
            parts[piece] -= 1
        elif not any(_is_cut_of(piece, unit, target, tokenizer) for unit in cut):
            yield f"nobody said: {_brief(piece)}"


def _is_cut_of(piece: Piece, unit: LogUnit, target: str, tokenizer: Tokenizer) -> bool:
    """Whether a text is one of the unit's with its middle cut; of a reply, made of lines of it; of an answer, or a
    reply that is JSON, made of nothing but its words."""
    texts = [said[1] for said in unit.pieces(target) if said[0] == piece[0]]
    whole = "\n".join(texts)
    if any(cut_form(text, piece[1]) for text in (*texts, whole)):
        return True
    if piece[0] == "answer" and SUPERSEDED.fullmatch(piece[1]):
        return any(said[0] == "answer" for said in unit.pieces(target))
    if piece[0] == "assistant" and any(is_lines_of(text, piece[1], tokenizer) for text in (*texts, whole)):
        return True
    words = set(_WORD.findall(MARKER.sub(" ", piece[1])))
    wordwise = piece[0] == "answer" or (piece[0] == "assistant" and _is_json(whole))
    return wordwise and all(word in whole or word in _plain(whole) for word in words)


def is_lines_of(text: str, shown: str, tokenizer: Tokenizer) -> bool:
    """Whether `shown` is lines of the text in their order, a gap wherever one was left out between them, and last a
    marker with the tokens that are missing."""
    body, _, last = shown.rpartition("\n")
    mark = MARKER.fullmatch(last)
    if not mark or int(mark[1] or mark[2]) != tokenizer.count(text) - tokenizer.count(body):
        return False
    at: int | None = 0
    for place, run in enumerate(re.split(f"(?m)^{GAP}$", body)):
        lines = [line for line in run.split("\n") if line.strip()]
        if lines and at is not None:
            at = _after(text, lines, at, anywhere=place > 0)
        elif place:
            return False  # a gap behind which nothing stands
    return bool(at)


def _after(text: str, lines: list[str], at: int, anywhere: bool) -> int | None:
    """Where these lines end in the text, one right after the other; None if they are not there from `at` on."""
    pattern = re.compile(r"\s*".join(r"\s+".join(map(re.escape, line.split())) for line in lines))
    while found := pattern.search(text, at):
        if not anywhere and text[: found.start()].strip():
            return None
        if _may_break(text, found.start()) and _may_break(text, found.end()):
            return found.end()
        at = found.start() + 1
    return None


def _may_break(text: str, at: int) -> bool:
    """Whether a shown line may begin or end here: where a line of the text does, or within one that is long."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    return not line[: at - start].strip() or not line[at - start :].strip() or len(line) > LONG_LINE


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


@lru_cache(maxsize=64)
def _plain(text: str) -> str:
    """The text without the escapes of JSON, as its values read."""
    return _ESCAPE.sub(lambda found: json.loads(f'"{found[0]}"'), text)


def as_masked(pieces: list[Piece], found: list[Piece]) -> list[Piece]:
    """The pieces as they stand where a key in them was masked: all around it must be there word for word."""
    masked = [piece for piece in found if MASK in piece[-1]]
    return [
        next((one for one in masked if one[:-1] == piece[:-1] and _is_masked(piece[-1], one[-1])), piece)
        for piece in pieces
    ]


def _is_masked(text: str, shown: str) -> bool:
    return re.fullmatch(_KEY.join(map(re.escape, shown.split(MASK))), text) is not None


def cut_form(text: str, shown: str) -> tuple[str, str, int] | None:
    """Head, tail and the number on the marker, if `shown` is the text with its middle cut."""
    for mark in MARKER.finditer(shown):
        head, tail = shown[: mark.start()], shown[mark.end() :]
        if text.startswith(head) and text.endswith(tail) and len(head) + len(tail) < len(text):
            return head, tail, int(mark[1] or mark[2])
    return None


def _without(found: list[Piece], rest: Counter[Piece]) -> list[Piece]:
    """The pieces but answers in order, less those of `rest`; of equal ones the last are taken out."""
    kept: list[Piece] = []
    for piece in reversed(found):
        if rest[piece]:
            rest[piece] -= 1
        elif piece[0] != "answer":
            kept.append(piece)
    return kept[::-1]


def payload_pieces(payload: Json, target: str) -> Iterator[Piece]:
    for message in payload["messages"]:
        yield from _openai_pieces(message) if target == "openai" else _anthropic_pieces(message)


def _openai_pieces(message: Json) -> Iterator[Piece]:
    role, content = message["role"], message["content"]
    if role == "system":
        return
    if isinstance(content, str):
        yield "answer" if role == "tool" else role, content
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url":
            yield "image", _image(part["image_url"]["url"])
        else:
            yield role, part["text"]
    for call in message.get("tool_calls", ()):
        yield "call", call["function"]["name"], call["function"]["arguments"]


def _anthropic_pieces(message: Json) -> Iterator[Piece]:
    for block in message["content"]:
        match block["type"]:
            case "text":
                yield message["role"], block["text"]
            case "image":
                yield "image", _image(block["source"].get("url") or block["source"]["data"])
            case "tool_use":
                yield "call", block["name"], canonical(block["input"])
            case "tool_result":
                yield "answer", block["content"]


def _image(url: str) -> str:
    return url.partition(";base64,")[2] if url.startswith("data:") else url


def _brief(piece: Piece) -> str:
    return f"{piece[0]} {piece[1][:60]!r}"
