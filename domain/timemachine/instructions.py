"""Versions of the system anchor: every instruction of a session, in force or not, and what each changed."""

from collections.abc import Iterable, Set
from difflib import unified_diff
from typing import Any

from domain.anchors import instruction_text
from domain.events import Event, InstructionSet
from domain.rows import Instruction
from domain.wording import Wording

Json = dict[str, Any]


def versions(events: Iterable[Event], in_force: Set[int], words: Wording) -> list[Json]:
    """In order. `version` counts those in force, as prompts do; one that a rollback hides or an erasure emptied has
    none, and is no step of the diffs."""
    found: list[Json] = []
    before, number = "", 0
    for event in events:
        row: Json = {"event_id": event.event_id, "seq": event.seq, "version": None, "recorded_at": event.recorded_at}
        told = event.payload
        if not isinstance(told, InstructionSet):
            found.append({**row, "state": "redacted", "diff": []})
        elif event.seq not in in_force:
            found.append({**row, "state": "rolled back", "diff": _diff(before, _text(event, told, 0, words))})
        else:
            number += 1
            text = _text(event, told, number, words)
            found.append({**row, "state": "in force", "version": number, "text": text, "diff": _diff(before, text)})
            before = text
    if in_force_rows := [row for row in found if row["state"] == "in force"]:
        in_force_rows[-1]["state"] = "current"
    return found


def _text(event: Event, told: InstructionSet, version: int, words: Wording) -> str:
    shots = tuple((one.user, one.assistant) for one in told.examples)
    row = Instruction(
        version, event.event_id, event.seq, told.role, told.rules, told.output_format, shots, told.text
    )  # fmt: skip
    asked = [f"{user}\n→ {assistant}" for user, assistant in shots]
    return "\n\n".join([instruction_text(row, words), *asked])


def _diff(before: str, after: str) -> list[str]:
    """Unified, without the two lines that name files."""
    return list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
