"""Blame: each line of a prompt with the events that made it."""

from typing import Any

from domain.timemachine.sides import Chronicle, Side, Told

Json = dict[str, Any]


def blame(side: Side, chronicle: Chronicle, only: str | None = None) -> list[Json]:
    """The lines in order; `only` keeps those that hold a text. Lines that no event made are the compiler's own."""
    found: list[Json] = []
    number = 0
    for segment in side.segments:
        for line in segment.lines:
            number += 1
            if only is None or only in line.text:
                told = [one for event in line.events if (one := chronicle.get(event)) is not None]
                found.append(
                    {
                        "line": number, "segment": segment.key, "zone": segment.zone, "role": segment.role,
                        "message": segment.message,
                        "text": line.text, "by": _by(told), "events": [one.named() for one in told],
                    }
                )  # fmt: skip
    return found


def _by(told: list[Told]) -> str:
    """`seq kind` of the newest, as in `14 user.input +2`; `compiler` for headings and marks."""
    if not told:
        return "compiler"
    newest = max(told, key=lambda one: one.seq)
    place = "" if newest.stream == "session" else f"{newest.stream}:"
    more = f" +{len(told) - 1}" if len(told) > 1 else ""
    return f"{place}{newest.seq} {newest.kind}{more}"
