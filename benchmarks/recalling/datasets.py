"""Conversations with questions and the ids of the messages that answer them, in the three published formats."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

Json = Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `speaker` is empty where the role says it all; `at` is ISO 8601, or empty where nothing tells."""

    id: str
    role: str
    speaker: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is remembered beside the turns, and the turn that told it."""

    subject: str
    predicate: str
    object: str
    told_in: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions of turns in order, what is remembered of them, and what is asked about all of them."""

    name: str
    sessions: tuple[tuple[Turn, ...], ...]
    questions: tuple[Question, ...]
    locale: str = "en"
    facts: tuple[Fact, ...] = ()

    @property
    def turns(self) -> list[Turn]:
        return list(chain.from_iterable(self.sessions))


def _questions(found: Iterator[Question], turns: Mapping[str, Turn]) -> tuple[Question, ...]:
    """Those with evidence that is there: ids of no message are left out, and so are questions with no other."""
    known = (replace(one, gold=one.gold & turns.keys()) for one in found)
    return tuple(one for one in known if one.gold)


# BEAM -----------------------------------------------------------------------------------------------------------------


def beam(path: Path) -> Iterator[Conversation]:
    """A folder of folders, each with `chat.json` and `probing_questions.json`."""
    for chat in sorted(path.rglob("chat.json")):
        batches = json.loads(chat.read_text(encoding="utf-8"))
        sessions = tuple(_beam_turns(batch) for batch in batches)
        asked = json.loads((chat.parent / "probing_questions.json").read_text(encoding="utf-8"))
        questions = (
            Question(one["question"], category, frozenset(map(str, _leaves(one.get("source_chat_ids") or []))))
            for category, rows in sorted(asked.items())
            for one in rows
        )
        turns = {turn.id: turn for turn in chain.from_iterable(sessions)}
        yield Conversation(chat.parent.name, sessions, _questions(questions, turns))


def _beam_turns(batch: Json) -> tuple[Turn, ...]:
    """A turn without a time is of the time of the one before it."""
    found: list[Turn] = []
    for one in chain.from_iterable(batch["turns"]):
        at = _time(one.get("time_anchor"), "%B-%d-%Y") or (found[-1].at if found else "")
        found.append(Turn(str(one["id"]), one["role"], "", one["content"], at))
    return tuple(found)


def _leaves(value: Json) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    else:
        yield value


_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"


# LoCoMo ---------------------------------------------------------------------------------------------------------------


def locomo(path: Path) -> Iterator[Conversation]:
    """A JSON file with a list of conversations of two speakers, or a folder of such files. Ours may have `facts`."""
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        for place, one in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            told = one["conversation"]
            numbers = sorted(int(found[1]) for key in told if (found := re.fullmatch(r"session_(\d+)", key)))
            sessions = tuple(
                tuple(_locomo_turn(turn, told.get(f"session_{number}_date_time")) for turn in told[f"session_{number}"])
                for number in numbers
            )
            asked = (
                Question(row["question"], str(row["category"]), frozenset(_dialogue_ids(row.get("evidence") or [])))
                for row in one["qa"]
            )
            turns = {turn.id: turn for turn in chain.from_iterable(sessions)}
            facts = (
                Fact(row["subject"], row["predicate"], row["object"], row["evidence"]) for row in one.get("facts", ())
            )
            yield Conversation(str(one.get("sample_id", place)), sessions, _questions(asked, turns), facts=tuple(facts))


def _locomo_turn(one: Json, when: str | None) -> Turn:
    caption = one.get("blip_caption")
    text = f"{one['text']} [image: {caption}]" if caption else one["text"]
    return Turn("".join(_dialogue_ids(one["dia_id"])), "user", one["speaker"], text, _time(when, _LOCOMO_TIME))


def _dialogue_ids(evidence: Json) -> list[str]:
    """Some rows name several turns in one string, and some write `D:3:04` for `D3:4`."""
    found = (re.findall(r"D:?(\d+):(\d+)", one) for one in _leaves(evidence) if isinstance(one, str))
    return [f"D{int(session)}:{int(turn)}" for row in found for session, turn in row]


# MemDaily -------------------------------------------------------------------------------------------------------------


def memdaily(path: Path) -> Iterator[Conversation]:
    """A folder of JSON files, each a list of trajectories; all of a file are laid one after the other."""
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        said: list[Turn] = []
        asked: list[Question] = []
        for place, trajectory in enumerate(_trajectories(json.loads(file.read_text(encoding="utf-8")))):
            name = f"{place}/{trajectory.get('tid', '')}"
            said += [_memdaily_turn(one, name) for one in trajectory["message_list"]]
            for row in trajectory.get("question_list") or []:
                gold = frozenset(f"{name}/{mid}" for mid in _leaves(row.get("target_step_id") or []))
                asked.append(Question(row["question"], file.stem, gold))
        yield Conversation(file.stem, (tuple(said),), _questions(iter(asked), {one.id: one for one in said}), "zh")


def _trajectories(data: Json) -> list[Json]:
    """The lists of trajectories, however deep a file nests them by category."""
    if isinstance(data, dict) and "message_list" in data:
        return [data]
    rows = data.values() if isinstance(data, dict) else data if isinstance(data, list) else []
    return [one for row in rows for one in _trajectories(row)]


def _memdaily_turn(one: Json, trajectory: str) -> Turn:
    return Turn(f"{trajectory}/{one['mid']}", "user", "", one["message"], _chinese_time(one.get("time")))


def _chinese_time(text: Any) -> str:
    """`2024年03月15日 星期五 09:30`, or whatever of it is there."""
    found = re.search(r"(\d{4})\D{1,2}(\d{1,2})\D{1,2}(\d{1,2})(?:\D+?(\d{1,2}):(\d{2}))?", str(text or ""))
    if found is None:
        return ""
    year, month, day, hour, minute = (int(part or 0) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC).isoformat()
    except ValueError:
        return ""


def _time(text: str | None, pattern: str) -> str:
    try:
        return datetime.strptime((text or "").strip(), pattern).replace(tzinfo=UTC).isoformat()
    except ValueError:
        return ""


DATASETS: Mapping[str, Callable[[Path], Iterator[Conversation]]] = {
    "beam": beam,
    "locomo": locomo,
    "memdaily": memdaily,
}
