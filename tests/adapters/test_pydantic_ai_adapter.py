"""Pydantic AI with a capability that sends what fits."""

import asyncio
from collections.abc import Callable
from typing import Any

from conftest import BUDGET, FIRST, long_talk
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from promptctx import AsyncSession, Session
from promptctx.adapters.pydantic_ai import Fit


def history(turns: int) -> list[ModelMessage]:
    found: list[ModelMessage] = []
    for one in long_talk(turns):
        if one["role"] == "user":
            found.append(ModelRequest(parts=[UserPromptPart(content=one["content"])]))
        else:
            found.append(ModelResponse(parts=[TextPart(content=one["content"])]))
    return found


def test_the_model_gets_what_fits_while_the_run_keeps_everything(
    session: Session, async_session: AsyncSession, fits: Callable[..., None]
) -> None:
    given: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given.append(list(messages))
        if "22 degrees" in str(messages):
            return ModelResponse(parts=[TextPart(content="It is sunny.")])
        return ModelResponse(parts=[ToolCallPart(tool_name="weather", args={"city": "Beijing"}, tool_call_id="c1")])

    agent: Any = Agent(FunctionModel(answer), capabilities=[Fit(async_session, budget=BUDGET)])

    @agent.tool_plain
    def weather(city: str) -> str:
        """Looks it up."""
        return f"22 degrees in {city}"

    before = history(20)
    result = asyncio.run(agent.run("How is the weather?", message_history=before))
    assert result.output == "It is sunny."
    assert len(result.all_messages()) == len(before) + 4
    fits({"messages": given[-1]}, "How is the weather?", FIRST)
    kinds = [one.kind for one in session.events()]
    assert kinds.count("tool.result") == 1
    assert "context.rolled_back" not in kinds
