"""What the fake server tells of an event on its way in, as a server does: refusals and warnings."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from promptctx import errors
from promptctx._fake import Json

_AMBIGUOUS = re.compile(r"@[0-9]+\Z").search
_OPPOSITES = {"constraint.set": "constraint.removed", "tool.registered": "tool.removed"}
_NAMES = {"constraint.removed": ("rule", "id", "set"), "tool.removed": ("tool", "name", "registered")}
_INSTRUCTION = ("role", "output_format", "text")


def refuse_name(session: str) -> None:
    """Raises InvalidRequest for an id that no new session may have."""
    if session in (".", ".."):
        raise errors.InvalidRequest(
            f"session: a session cannot be called {session!r}: in an address that is a folder; choose another id.",
            path="session",
        )
    if _AMBIGUOUS(session):
        raise errors.InvalidRequest(
            f"session: {session!r} ends as SESSION@VERSION does, which names a prompt; choose an id that does not end"
            " in '@' and a number.",
            path="session",
        )


def refuse_empty(draft: Json) -> None:
    """Raises InvalidEvent for an instruction or a rule without a word in it."""
    kind, told = draft["kind"], draft["payload"]
    if kind == "instruction.set" and not told.get("examples"):
        texts = [told.get(name) or "" for name in _INSTRUCTION] + [rule["text"] for rule in told.get("rules") or ()]
        if not any(text.strip() for text in texts):
            raise errors.InvalidEvent(
                "instruction.set: payload: an instruction says at least one of role, rules, output_format, examples"
                " and text; it replaces the one before whole.",
                path="payload",
                kind=kind,
            )
    if kind == "constraint.set" and not str(told.get("text") or "").strip():
        raise errors.InvalidEvent(
            "constraint.set: payload.text: a rule needs a text; take a rule back with constraint.removed.",
            path="payload.text",
            kind=kind,
        )


def refuse_request(asked: Json) -> None:
    """Raises InvalidRequest for a budget or a window that is no whole number."""
    for name in ("budget", "window"):
        if (value := asked.get(name)) is not None and type(value) is not int:
            raise errors.InvalidRequest(f"{name}: Input should be a valid integer.", path=name)


def judged(kind: str) -> bool:
    """Whether there may be a warning about an event of this kind."""
    return kind in ("user.input", "instruction.set", "message.pinned", "message.unpinned", *_NAMES)


def warnings(force: Sequence[Json], draft: Json) -> Iterator[str]:
    """What the caller should know of an event that was taken all the same; `force` is what counts before it."""
    kind, told = draft["kind"], draft["payload"]
    if kind == "user.input" and _is_blank(told.get("content")):
        yield "the user's message is empty: prompts show it as (empty)"
    if kind in _NAMES:
        what, key, how = _NAMES[kind]
        if told[key] not in _held(force, kind, key):
            yield f"no {what} {told[key]!r} is {how} in this session: nothing was removed"
    if kind == "message.pinned" and told["event_id"] not in {one["event_id"] for one in force}:
        yield f"no message {told['event_id']!r} is in this session: nothing was pinned"
    if kind == "message.unpinned" and told["event_id"] not in _pinned(force):
        yield f"no message {told['event_id']!r} is pinned in this session: nothing was unpinned"
    if kind == "instruction.set":
        yield from _dropped([one["payload"] for one in force if one["kind"] == kind], told)


def _is_blank(content: Any) -> bool:
    if isinstance(content, list):
        return all(part.get("type") == "text" and not part["text"].strip() for part in content)
    return not str(content or "").strip()


def _held(force: Sequence[Json], removed: str, key: str) -> set[str]:
    held: set[str] = set()
    for one in force:
        if one["kind"] == removed:
            held.discard(one["payload"][key])
        elif _OPPOSITES.get(one["kind"]) == removed:
            held.add(one["payload"][key])
    return held


def _pinned(force: Sequence[Json]) -> set[str]:
    held: set[str] = set()
    for one in force:
        if one["kind"] == "message.pinned":
            held.add(one["payload"]["event_id"])
        elif one["kind"] == "message.unpinned":
            held.discard(one["payload"]["event_id"])
    return held


def _dropped(before: Sequence[Json], told: Json) -> Iterator[str]:
    if not before:
        return
    core = [sum(bool(rule.get("core")) for rule in one.get("rules") or ()) for one in (before[-1], told)]
    gone = ["the role"] if before[-1].get("role") and not told.get("role") else []
    gone += [f"{core[0] - core[1]} core rule{'s' * (core[0] - core[1] > 1)}"] if core[0] > core[1] else []
    if gone:
        yield f"an instruction replaces the one before whole: {' and '.join(gone)} of that one no longer hold"
