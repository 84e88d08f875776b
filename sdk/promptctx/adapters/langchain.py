"""LangChain: a callback handler that records what models are given and answer, whatever chain they are part of.

    from promptctx import Client
    from promptctx.adapters.langchain import Recorder

    chain.invoke(question, config={"callbacks": [Recorder(Client().session("s-1"))]})

It records and cuts nothing. For prompts that fit see `promptctx.adapters.langgraph`.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, LLMResult

from promptctx.adapters._mirror import Mirror
from promptctx.session import Session


class Recorder(BaseCallbackHandler):
    """Follows the messages of one conversation."""

    def __init__(self, session: Session) -> None:
        self._mirror = Mirror(session, "langchain", {})
        self._runs: dict[UUID, list[Any]] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **told: Any
    ) -> None:
        given: Any = convert_to_openai_messages(messages[0]) if messages else []
        tools: Sequence[Any] = (told.get("invocation_params") or {}).get("tools") or ()
        self._mirror.tell(given, tools)
        self._runs[run_id] = list(given)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **told: Any) -> None:
        given = self._runs.pop(run_id, None)
        found = response.generations[0] if response.generations else []
        if given is not None and found and isinstance(found[0], ChatGeneration):
            answer: Any = convert_to_openai_messages([found[0].message])
            self._mirror.tell([*given, *answer])

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        self._runs.pop(run_id, None)
