"""OpenAI Agents SDK: a `Session` whose history fits.

    from agents import Agent, Runner
    from promptctx import AsyncClient
    from promptctx.adapters.openai_agents import PromptctxSession

    session = PromptctxSession(AsyncClient().session("s-1"), budget=8000)
    await Runner.run(agent, "What is the weather in Beijing?", session=session)

The agent's own instructions and tools stay where they are and are not part of the prompt's budget.
"""

from collections.abc import Sequence
from typing import Any, Unpack

from promptctx.adapters._mirror import Compile, Told, given
from promptctx.adapters._responses import as_items, as_messages
from promptctx.errors import UnknownSession
from promptctx.session import AsyncSession

Json = dict[str, Any]


class PromptctxSession:
    """What the SDK calls a session: items are appended to the log, and what it gets back is the compiled prompt."""

    session_settings: Any = None

    def __init__(self, session: AsyncSession, **how: Unpack[Compile]) -> None:
        self.session = session
        self.session_id = session.id
        self._how = how
        self._told = Told(session._track, "openai_agents")
        self._items: list[Json] = []

    async def get_items(self, limit: int | None = None) -> list[Json]:
        """The history as it fits; the newest `limit` items of it."""
        if not self.session.seq and not await self._is_there():
            return []
        job = await self.session.compile(format="openai", **given(self._how))
        prompt = await job.result(30.0)
        items = as_items(prompt.messages)
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: Sequence[Json]) -> None:
        await self._tell([*self._items, *map(dict, items)])

    async def pop_item(self) -> Json | None:
        """Take back what was added last, as far as this object added it."""
        if not self._items:
            return None
        *rest, last = self._items
        await self._tell(rest)
        return last

    async def clear_session(self) -> None:
        await self._tell([])

    async def _tell(self, items: list[Json]) -> None:
        await self.session._sender.run(self._told.tell(as_messages(items), ()))
        self._items = items

    async def _is_there(self) -> bool:
        try:
            return await self.session.head() > 0
        except UnknownSession:
            return False
