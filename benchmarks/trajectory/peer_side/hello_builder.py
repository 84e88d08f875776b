"""hello-agents: `ContextBuilder.build_messages`, with the history handed over as packets, a unit each.

What it is given as messages it never cuts, so only the system message and the newest directive are; its token counter
is replaced by the exact one, and everything may be chosen, by relevance to the directive. Its spread over unlike
packets (MMR) is off: it takes 20 seconds for a hundred messages.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, Wire, count_text, serve, text_of, timed

builder: Any = import_module("hello_agents.context.builder")
types: Any = import_module("hello_agents.context.types")
builder.count_tokens = types.count_tokens = count_text


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    given = list(lane.messages[: lane.system])
    if lane.instruction is not None:
        given.append(lane.messages[lane.instruction])
    given = [{"role": message["role"], "content": text_of(message)} for message in given]
    packets = [types.ContextPacket(content=text, metadata={"id": str(place)}) for place, text in _units(lane)]
    packets.reverse()  # of equals the first is taken: the newest
    config = builder.ContextConfig(
        max_tokens=lane.budget - lane.base, reserve_ratio=0.0, min_relevance=0.0, enable_mmr=False
    )
    found, ms = timed(lambda: builder.ContextBuilder(config).build_messages(given, additional_packets=packets))
    return list(found.messages), ms


def _units(lane: Lane) -> Iterator[tuple[int, str]]:
    """A message, or a message with its calls and their answers, as text."""
    unit: list[str] = []
    first = lane.system
    for place, message in enumerate(lane.messages[first:], start=first):
        if place == lane.instruction:
            continue
        if message["role"] != "tool" and unit:
            yield first, "\n".join(unit)
            unit, first = [], place
        unit.append(_told(message))
    if unit:
        yield first, "\n".join(unit)


def _told(message: Wire) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    told = [text_of(message), *(f"{call['name']}({call['arguments']})" for call in calls)]
    return f"[{message['role']}] " + "\n".join(part for part in told if part)


if __name__ == "__main__":
    serve("hello-agents", prompt)
