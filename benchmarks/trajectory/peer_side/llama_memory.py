"""llama-index: `Memory`, a queue of messages in its own SQLite store. The system message stands outside of it.

Without memory blocks there is nothing to share the limit with, so the queue may have all of it.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, count_text, serve, text_of, timed

memories: Any = import_module("llama_index.core.memory")
types: Any = import_module("llama_index.core.base.llms.types")


def tokenizer(text: str) -> range:
    """Only the length is asked for."""
    return range(count_text(text))


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    memory, put = lane.state or (None, 0)
    if memory is None or put > max(lane.kept, lane.system):  # an answer came late: the queue is filled anew
        memory, put = _memory(lane), lane.system
    new = [_message(place, message) for place, message in enumerate(lane.messages[put:], start=put)]

    def work() -> Any:
        if new:
            memory.put_messages(new)
        return memory.get()

    found, ms = timed(work)
    lane.state = memory, len(lane.messages)
    return [*range(lane.system), *(int(message.additional_kwargs["place"]) for message in found)], ms


def _memory(lane: Lane) -> Any:
    return memories.Memory.from_defaults(
        session_id="one", token_limit=max(1, lane.room), tokenizer_fn=tokenizer, chat_history_token_ratio=1.0,
        token_flush_size=0,
    )  # fmt: skip


def _message(place: int, message: Any) -> Any:
    kwargs: dict[str, Any] = {"place": place}
    kwargs |= {key: message[key] for key in ("tool_calls", "tool_call_id") if key in message}
    return types.ChatMessage(role=message["role"], content=text_of(message), additional_kwargs=kwargs)


if __name__ == "__main__":
    serve("llama-index-core", prompt)
