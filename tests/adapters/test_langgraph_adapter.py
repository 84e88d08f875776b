"""LangGraph's agent with a hook before its model, and LangChain's callbacks."""

from collections.abc import Callable
from typing import Any

from conftest import BUDGET, FIRST, long_talk
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent
from pydantic import Field

from promptctx import Session
from promptctx.adapters.langchain import Recorder
from promptctx.adapters.langgraph import fit


@tool
def weather(city: str) -> str:
    """Looks it up."""
    return f"22 degrees in {city}"


class Scripted(BaseChatModel):
    """Calls the tool, then answers."""

    given: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **told: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *told: Any, **more: Any) -> ChatResult:
        self.given.append(messages)
        call = {"name": "weather", "args": {"city": "Beijing"}, "id": "c1"}
        asked = any(message.type == "tool" for message in messages)
        answer = AIMessage("It is sunny.") if asked else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def test_the_agents_model_gets_what_fits_while_its_state_keeps_everything(
    session: Session, fits: Callable[..., None]
) -> None:
    model = Scripted()
    agent = create_react_agent(model, [weather], pre_model_hook=fit(session, budget=BUDGET))
    history = convert_to_messages([*long_talk(20), {"role": "user", "content": "How is the weather?"}])
    state = agent.invoke({"messages": history})
    assert len(state["messages"]) == len(history) + 3
    assert state["messages"][-1].content == "It is sunny."
    last = model.given[-1]
    fits({"messages": [message.content for message in last]}, "How is the weather?", FIRST)
    assert last[-1].type == "tool"
    kinds = [one.kind for one in session.events()]
    assert kinds.count("tool.result") == 1


def test_a_callback_records_what_a_model_was_given_and_answered(session: Session) -> None:
    model = Scripted()
    config: Any = {"callbacks": [Recorder(session)]}
    question = {"role": "user", "content": "How is the weather?"}
    first = model.invoke([question], config=config)
    result = {"role": "tool", "tool_call_id": "c1", "content": "22 degrees"}
    model.invoke([*convert_to_messages([question]), first, *convert_to_messages([result])], config=config)
    kinds = [one.kind for one in session.events()][-4:]
    assert kinds == ["user.input", "assistant.output", "tool.result", "assistant.output"]
