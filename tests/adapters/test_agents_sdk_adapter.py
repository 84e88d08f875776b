"""OpenAI's Agents SDK with a session whose history fits."""

import asyncio
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner
from agents.memory import Session as SessionProtocol
from conftest import BUDGET, FIRST, RULE, long_talk
from model_server import ModelServer
from openai import AsyncOpenAI

from promptctx import AsyncSession, Session
from promptctx.adapters.openai_agents import PromptctxSession


def agent(model: ModelServer) -> Agent[Any]:
    client = AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0)
    chosen = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
    return Agent(name="planner", instructions="You plan trips.", model=chosen)


def test_a_run_gets_the_history_that_fits_and_its_turn_is_in_the_log(
    session: Session, async_session: AsyncSession, model: ModelServer
) -> None:
    kept = PromptctxSession(async_session, budget=BUDGET)
    assert isinstance(kept, SessionProtocol)

    async def run() -> Any:
        await kept.add_items(long_talk(20))
        return await Runner.run(agent(model), "And now?", session=kept)  # type: ignore[arg-type]

    assert asyncio.run(run()).final_output
    asked = str(model.asked[-1]["messages"])
    assert "And now?" in asked
    assert FIRST not in asked
    assert RULE in asked
    said = [one.payload.get("content") for one in session.events() if one.kind == "user.input"]
    assert "And now?" in str(said[-1])


def test_the_last_item_can_be_taken_back_and_all_of_them_cleared(session: Session, async_session: AsyncSession) -> None:
    kept = PromptctxSession(async_session, budget=BUDGET)

    async def run() -> None:
        await kept.add_items([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
        assert await kept.pop_item() == {"role": "user", "content": "two"}
        said = str(await kept.get_items())
        assert "one" in said
        assert "two" not in said
        await kept.clear_session()
        assert "'one'" not in str(await kept.get_items())

    asyncio.run(run())
