"""The sessions of a folder of real agent logs, each with two block rules put into it, and what its sources promise."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from promptctx.importers import ImportedSession, Skipped, scan

Json = Any

NAMESPACE = UUID("0f4a5c1e-2d8b-5e0a-9b55-6d1c3c0e8a21")
RULES = {
    "zh": ("未经用户确认，不得删除任何文件（规则 {id}）", "不得向第三方透露密码（规则 {id}）"),
    "en": ("Never delete a file without asking first (rule {id})", "Never tell a third party a password (rule {id})"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A session to run: its events with the rules in them, and the places of the turns among them."""

    session: str
    source: str
    parent: str | None
    events: tuple[Json, ...]
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of the corpus. `stated` is the number of sessions that its SOURCE.md tells, where it tells one."""

    name: str
    sessions: int
    stated: int | None


@dataclass(frozen=True, slots=True)
class Corpus:
    cases: tuple[Case, ...]
    sources: tuple[Source, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def families(self) -> list[list[Case]]:
        """The cases by their topmost parent, in order: a session comes before its sub-agents."""
        root: dict[str, str] = {}
        found: dict[str, list[Case]] = {}
        for case in self.cases:
            root[case.session] = root.get(case.parent or "", case.session)
            found.setdefault(root[case.session], []).append(case)
        return list(found.values())


def load(folder: Path) -> Corpus:
    cases: list[Case] = []
    skipped: list[tuple[str, str]] = []
    told: set[Path] = set()
    for found in scan(folder):
        told.add(path := found.path.relative_to(folder))
        source = path.parts[0] if len(path.parts) > 1 else folder.name
        if isinstance(found, Skipped):
            skipped.append((str(path), found.reason))
        else:
            cases.append(_case(found, source))
    files = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    skipped += [
        (str(path), "no importer mentioned it") for path in files if path not in told and ".git" not in path.parts
    ]
    return Corpus(tuple(cases), tuple(_sources(folder, cases)), tuple(skipped))


def _sources(folder: Path, cases: Sequence[Case]) -> Iterator[Source]:
    """The folders with what they gave."""
    names = {case.source for case in cases} | {found.parent.name for found in folder.glob("*/SOURCE.md")}
    for name in sorted(names):
        count = sum(case.source == name for case in cases)
        yield Source(name, count, stated_sessions(folder / name / "SOURCE.md"))


def stated_sessions(path: Path) -> int | None:
    """How many sessions a SOURCE.md says were selected: "24 whole records of 200", "Chats 2, 14, 15 of 20"."""
    if not path.is_file():
        return None
    line = re.search(r"^- Selected: (.*)$", path.read_text("utf-8"), re.MULTILINE)
    if line is None:
        return None
    told = re.split(r";|left out", re.sub(r"\([^)]*\)", "", line[1]))[0]
    if listed := re.search(r"\b(?:Chats|Sessions|Threads|Dialogues) ((?:\w+, )*\w+) of \d+", told):
        return len(listed[1].split(", "))
    things = "records|files|dialogues|streams|sessions|chats|threads"
    counted = re.findall(rf"\b(\d+)(?: of \d+)?(?: whole| user|\s\.?\w+)*? (?:{things})\b", told)
    return sum(map(int, counted)) or None


def _case(found: ImportedSession, source: str) -> Case:
    events = list(found.events)
    locale = next((event["payload"].get("locale") for event in events if event["kind"] == "session.started"), "en")
    turns = [place for place, event in enumerate(events) if event["kind"] == "assistant.output"]
    middle = turns[len(turns) // 2] if turns else len(events) // 2
    start, later = (_rule(found.session_id, locale, number) for number in (0, 1))
    # From the back, so that the places stay right; a log whose first turn is its first event has both rules before it.
    events.insert(max(middle, 1), later)
    events.insert(1, start)
    turns = [place for place, event in enumerate(events) if event["kind"] == "assistant.output"]
    return Case(found.session_id, source, found.parent, tuple(events), tuple(turns))


def _rule(session: str, locale: str, number: int) -> Json:
    name = uuid5(NAMESPACE, f"{session}\n{number}")
    rule = {"id": f"bench-{name.hex[:8]}", "level": "block", "text": RULES[locale][number].format(id=name.hex[:8])}
    return {"event_id": str(name), "kind": "constraint.set", "payload": rule, "actor": "user"}


def spread(places: Sequence[int], most: int | None) -> list[int]:
    """At most so many of the places, evenly spread, the first and the last among them."""
    if most is None or len(places) <= most:
        return list(places)
    if most == 1:
        return [places[-1]]
    return [places[round(at * (len(places) - 1) / (most - 1))] for at in range(most)]
