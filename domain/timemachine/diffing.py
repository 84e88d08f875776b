"""Diff of two prompts in levels: zones, segments, lines, words; each change with what caused it.

Flat, a diff by words takes seconds; in levels it looks at words only where one line stands for another.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from domain.timemachine.causes import Because
from domain.timemachine.segments import Line, Segment
from domain.timemachine.sides import Side

Json = dict[str, Any]

_WORDS = re.compile(r"\s+|[A-Za-z0-9_]+|.", re.DOTALL)
LONGEST = 2_000
"""Characters of a line up to which its words are compared."""

ALIKE = 0.3
"""How alike two lines must be for one to count as the other, changed."""


def diff(before: Side, after: Side, because: Because) -> Json:
    """What came, went, moved and changed, and why."""
    changes = list(_changes(before, after, because))
    return {
        "before": _named(before), "after": _named(after),
        "identical": not changes, "request": because.request(),
        "zones": zones(before, after), "changes": changes,
    }  # fmt: skip


def _named(side: Side) -> Json:
    told = {"prompt": side.name, "version": side.version, "tokens": side.report["tokens"]}
    return {**told, "budget": side.report["budget"], "mode": side.report["mode"], "heads": dict(side.heads)}


def zones(before: Side, after: Side) -> list[Json]:
    """Tokens by zone, of the zones that changed."""
    old, new = before.report["zones"], after.report["zones"]
    rows = [
        {"zone": zone, "before": old.get(zone, 0), "after": new.get(zone, 0)} for zone in dict.fromkeys((*old, *new))
    ]
    return [row for row in rows if row["before"] != row["after"]]


def _changes(before: Side, after: Side, because: Because) -> Iterator[Json]:
    moved = _moved([one.key for one in before.segments], [one.key for one in after.segments])
    for segment in _merged(before.segments, after.segments):
        old, new = before.by_key.get(segment.key), after.by_key.get(segment.key)
        if old is None and new is not None:
            yield {**_about("added", new), "lines": [_line("+", line) for line in new.lines], **because.added(new)}
        elif new is None and old is not None:
            yield {**_about("removed", old), "lines": [_line("-", line) for line in old.lines], **because.removed(old)}
        elif old is not None and new is not None and old.lines != new.lines and old.text != new.text:
            rows = list(lines(old, new, because))
            yield {**_about("changed", new), "lines": rows, **because.changed(old, new, rows)}
        elif segment.key in moved and new is not None:
            yield {**_about("moved", new), "lines": [], **because.moved(new)}


def changed_events(before: Side, after: Side) -> list[str]:
    """The events of all that is not the same in both: what the causes of the changes speak of."""
    found: dict[str, None] = {}
    for side, other in ((before, after), (after, before)):
        for segment in side.segments:
            same = other.by_key.get(segment.key)
            if same is None or same.lines != segment.lines:
                found.update((event, None) for line in segment.lines for event in line.events)
    return list(found)


def _about(change: str, segment: Segment) -> Json:
    return {"change": change, "segment": segment.key, "zone": segment.zone, "role": segment.role}


def _merged(before: Sequence[Segment], after: Sequence[Segment]) -> Iterator[Segment]:
    """All segments once, in reading order: what went stands where it stood."""
    old, new = [one.key for one in before], [one.key for one in after]
    present = set(new)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (one for one in before[i1:i2] if one.key not in present)
        yield from after[j1:j2]


def _moved(old: Sequence[str], new: Sequence[str]) -> set[str]:
    common = set(old) & set(new)
    left, right = [key for key in old if key in common], [key for key in new if key in common]
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    stayed = {key for block in blocks for key in left[block.a : block.a + block.size]}
    return common - stayed


def lines(old: Segment, new: Segment, because: Because) -> Iterator[Json]:
    """The lines that differ, those that became another one with their words."""
    left, right = [line.text for line in old.lines], [line.text for line in new.lines]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        gone, came = old.lines[i1:i2], new.lines[j1:j2]
        if tag == "replace" and len(gone) == len(came):
            for before, after in zip(gone, came, strict=True):
                yield from _replaced(before, after, old, new, because)
        else:
            yield from ({**_line("-", line), **because.line_removed(line, old, new)} for line in gone)
            yield from ({**_line("+", line), **because.line_added(line, new)} for line in came)


def _replaced(before: Line, after: Line, old: Segment, new: Segment, because: Because) -> Iterable[Json]:
    pieces = words(before.text, after.text)
    if pieces is None:
        removed = {**_line("-", before), **because.line_removed(before, old, new)}
        return [removed, {**_line("+", after), **because.line_added(after, new)}]
    row: Json = {"op": "~", "before": before.text, "text": after.text, "events": list(after.events), "words": pieces}
    return [{**row, **because.line_added(after, new)}]


def words(before: str, after: str) -> list[list[str]] | None:
    """Pairs of an operation (`=`, `-`, `+`) and a text; None when the lines have too little in common."""
    if max(len(before), len(after)) > LONGEST:
        return None
    left, right = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.quick_ratio() < ALIKE:
        return None
    found: list[list[str]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found.append(["=", "".join(left[i1:i2])])
            continue
        if i1 < i2:
            found.append(["-", "".join(left[i1:i2])])
        if j1 < j2:
            found.append(["+", "".join(right[j1:j2])])
    return found


def _line(op: str, line: Line) -> Json:
    return {"op": op, "text": line.text, "events": list(line.events)}
