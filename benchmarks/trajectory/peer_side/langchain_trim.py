"""langchain-core: `trim_messages`, strategy last, with the exact counter and the system message kept.

`start_on="human"`, as its documentation advises, wherever a human message is within reach; in a long loop of tools
there is none, and the prompt may then also begin with the assistant.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, serve, timed

utils: Any = import_module("langchain_core.messages.utils")


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    known: list[Any] = lane.state or []
    del known[lane.kept :]
    for place, message in enumerate(lane.messages[len(known) :], start=len(known)):
        made = utils.convert_to_messages([message])[0]
        made.id = str(place)
        known.append(made)
    lane.state = known

    def counted(messages: Sequence[Any]) -> int:
        return sum(lane.tokens[int(message.id)] for message in messages)

    def trimmed(start_on: Any) -> Any:
        return utils.trim_messages(
            known,
            max_tokens=lane.budget - lane.base,
            token_counter=counted,
            strategy="last",
            include_system=True,
            start_on=start_on,
        )

    def work() -> Any:
        found = trimmed("human")
        return found if len(found) > lane.system else trimmed(("human", "ai"))

    found, ms = timed(work)
    return [int(message.id) for message in found], ms


if __name__ == "__main__":
    serve("langchain-core", prompt)
