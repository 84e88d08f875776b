"""LangGraph: a hook before the model, and the same for a node of one's own.

    from langgraph.prebuilt import create_react_agent
    from promptctx import Client
    from promptctx.adapters.langgraph import fit

    agent = create_react_agent(model, tools, pre_model_hook=fit(Client().session("s-1"), budget=8000))

The graph's state keeps every message; the model gets those that fit. Without `create_react_agent`, call the hook where
a node calls its model: `model.invoke(hook(state)["llm_input_messages"])`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from langchain_core.messages import BaseMessage, convert_to_messages, convert_to_openai_messages

from promptctx.adapters._mirror import Compile, Mirror
from promptctx.session import Session

Hook = Callable[[Mapping[str, Any]], dict[str, list[BaseMessage]]]


def fit(session: Session, **how: Unpack[Compile]) -> Hook:
    """A hook for the `messages` of a graph's state. `how` is as for `Session.compile`; one hook serves one session."""
    mirror = Mirror(session, "langgraph", how)

    def hook(state: Mapping[str, Any]) -> dict[str, list[BaseMessage]]:
        told: Any = convert_to_openai_messages(list(state["messages"]))
        return {"llm_input_messages": convert_to_messages(mirror.prompt(told).messages)}

    return hook
