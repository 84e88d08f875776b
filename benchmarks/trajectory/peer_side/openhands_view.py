"""openhands-sdk: its `View` over its own events, with a rolling condenser that asks no model.

The condenser does what the one that comes with it does (system prompt and first message stay, what is older than half
of the budget is forgotten, cuts only at the view's manipulation indices, everything forgotten when that does not do),
but for the summary, and counts exactly.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, Wire, serve, text_of, timed

os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

base: Any = import_module("openhands.sdk.context.condenser.base")
views: Any = import_module("openhands.sdk.context.view")
events: Any = import_module("openhands.sdk.event")
llm: Any = import_module("openhands.sdk.llm")
schema: Any = import_module("openhands.sdk.tool.schema")
Condensation: Any = import_module("openhands.sdk.event.condenser").Condensation

KEEP_FIRST = 2
"""Events at the beginning that are never forgotten, as by default."""


class PlainObservation(schema.Observation):  # type: ignore[misc]
    """A tool result as text."""


class Forgetting(base.RollingCondenser):  # type: ignore[misc]
    """Forgets the oldest events when the view is over `most` tokens, down to half of it."""

    most: int
    tokens: dict[str, int]

    def _total(self, found: Sequence[Any]) -> int:
        return sum(self.tokens[event.id] for event in found)

    def condensation_requirement(self, view: Any, agent_llm: Any = None) -> Any:
        return base.CondensationRequirement.HARD if self._total(view.events) > self.most else None

    def get_condensation(self, view: Any, agent_llm: Any = None) -> Any:
        excess = self._total(view.events) - self.most // 2
        end = KEEP_FIRST
        while end < len(view) and excess > 0:
            excess -= self.tokens[view.events[end].id]
            end += 1
        indices = view.manipulation_indices
        start = indices.find_next(min(KEEP_FIRST, len(view)))
        forgotten = view[start : indices.find_next(end)]
        if not forgotten:
            raise base.NoCondensationAvailableException("nothing can be forgotten")
        return _forgotten(forgotten)

    def hard_context_reset(self, view: Any, agent_llm: Any = None) -> Any:
        system = int(bool(view.events) and isinstance(view.events[0], events.SystemPromptEvent))
        return _forgotten(view.events[system:]) if len(view.events) > system else None


def _forgotten(found: Sequence[Any]) -> Any:
    return Condensation(forgotten_event_ids={event.id for event in found}, llm_response_id="none")


@dataclass(slots=True)
class Log:
    """The events of each message of the history, their tokens, and after how many messages each condensation came."""

    made: list[list[Any]] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    condensed: list[tuple[int, Any]] = field(default_factory=list)


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    log = lane.state = lane.state or Log()
    made, tokens = log.made, log.tokens
    if lane.kept < len(made):  # an answer came late: the log is read anew from there
        del made[lane.kept :]
        log.condensed = [one for one in log.condensed if one[0] <= lane.kept]
    for place, message in enumerate(lane.messages[len(made) :], start=len(made)):
        found = _events(place, message, lane.messages)
        made.append(found)
        # A message with calls is an event per call; its tokens are with the first.
        tokens |= {event.id: 0 for event in found}
        tokens[found[0].id] = lane.tokens[place]
    condenser = Forgetting(most=lane.budget - lane.base, tokens=tokens)

    def work() -> Any:
        told: list[Any] = []
        for place, found in enumerate(made, start=1):
            told += found
            told += [one for at, one in log.condensed if at == place]
        view = views.View.from_events(told)
        # A condensation is an event like any other: the agent takes its next step with the view after it.
        while isinstance(condensed := condenser.condense(view), Condensation):
            log.condensed.append((len(made), condensed))
            told.append(condensed)
            view = views.View.from_events(told)
        events.LLMConvertibleEvent.events_to_messages(view.events)
        return view

    view, ms = timed(work)
    return sorted({int(event.id.split("-")[0]) for event in view.events}), ms


def _events(place: int, message: Wire, history: Sequence[Wire]) -> list[Any]:
    text = [llm.TextContent(text=text_of(message))]
    match message["role"]:
        case "system":
            return [events.SystemPromptEvent(id=f"{place}-0", system_prompt=text[0], tools=[])]
        case "tool":
            return [
                events.ObservationEvent(
                    id=f"{place}-0", tool_name="tool", tool_call_id=message["tool_call_id"],
                    action_id=_action(message["tool_call_id"], history[:place]),
                    observation=PlainObservation(content=text),
                )
            ]  # fmt: skip
        case "assistant" if message.get("tool_calls"):
            return [
                _call(f"{place}-{index}", call, text if not index else [], f"reply-{place}")
                for index, call in enumerate(message["tool_calls"])
            ]
        case role:
            source = "user" if role == "user" else "agent"
            return [
                events.MessageEvent(id=f"{place}-0", source=source, llm_message=llm.Message(role=role, content=text))
            ]


def _call(name: str, call: Wire, thought: Sequence[Any], reply: str) -> Any:
    told = llm.MessageToolCall(
        id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"], origin="completion"
    )
    return events.ActionEvent(
        id=name, thought=thought, tool_name=told.name, tool_call_id=told.id, tool_call=told, llm_response_id=reply
    )


def _action(call_id: str, history: Sequence[Wire]) -> str:
    for place in range(len(history) - 1, -1, -1):
        for index, call in enumerate(history[place].get("tool_calls") or ()):
            if call["id"] == call_id:
                return f"{place}-{index}"
    return "none"


if __name__ == "__main__":
    serve("openhands-sdk", prompt)
