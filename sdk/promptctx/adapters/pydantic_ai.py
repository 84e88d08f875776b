"""Pydantic AI: a capability that sends what fits.

    from pydantic_ai import Agent
    from promptctx import AsyncClient
    from promptctx.adapters.pydantic_ai import Fit

    agent = Agent("openai:gpt-4o", capabilities=[Fit(AsyncClient().session("s-1"), budget=8000)])

The run keeps every message; the model gets those that fit. The agent's instructions and tools stay where they are and
are not part of the prompt's budget.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from promptctx.adapters._mirror import AsyncMirror, Compile
from promptctx.session import AsyncSession

Json = dict[str, Any]


class Fit(AbstractCapability[Any]):
    """Puts the compiled prompt in the place of a request's messages. One serves one session."""

    def __init__(self, session: AsyncSession, **how: Unpack[Compile]) -> None:
        self._mirror = AsyncMirror(session, "pydantic_ai", how)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        given = list(request_context.messages)
        prompt = await self._mirror.prompt(as_messages(given))
        last = given[-1]
        request_context.messages = as_model_messages(prompt.messages, last if isinstance(last, ModelRequest) else None)
        return request_context


def as_messages(messages: Iterable[ModelMessage]) -> list[Json]:
    """Messages of Pydantic AI as chat messages."""
    found: list[Json] = []
    for message in messages:
        found += [_answer(message)] if isinstance(message, ModelResponse) else map(_asked, message.parts)
    return found


def _asked(part: ModelRequestPart) -> Json:
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, ToolReturnPart):
        content = part.model_response_str()
        return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}
    if isinstance(part, RetryPromptPart) and part.tool_name:
        told = {"tool_call_id": part.tool_call_id, "name": part.tool_name, "content": part.model_response()}
        return {"role": "tool", "is_error": True, **told}
    if isinstance(part, RetryPromptPart):
        return {"role": "user", "content": part.model_response()}
    said = part.content if isinstance(part, UserPromptPart) else ""
    return {"role": "user", "content": said if isinstance(said, str) else [_part(one) for one in said]}


def _part(one: Any) -> Json:
    if isinstance(one, str):
        return {"type": "text", "text": one}
    if isinstance(one, ImageUrl):
        return {"type": "image_url", "image_url": {"url": one.url}}
    if str(getattr(one, "media_type", "")).startswith("image/") and hasattr(one, "data_uri"):
        return {"type": "image_url", "image_url": {"url": one.data_uri}}
    return {"type": "text", "text": str(getattr(one, "content", one))}


def _answer(message: ModelResponse) -> Json:
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    thought = [part for part in message.parts if isinstance(part, ThinkingPart)]
    found: Json = {"role": "assistant", "content": text}
    if thought:
        blocks = [{"type": "thinking", "thinking": part.content, "signature": part.signature} for part in thought]
        found["thinking_blocks"] = blocks
    return found | {"tool_calls": calls} if calls else found


def as_model_messages(messages: Sequence[Mapping[str, Any]], last: ModelRequest | None = None) -> list[ModelMessage]:
    """Chat messages as those of Pydantic AI; instructions are those of the `last` request."""
    found: list[ModelMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            parts = list(_response_parts(message))
            names |= {part.tool_call_id: part.tool_name for part in parts if isinstance(part, ToolCallPart)}
            found.append(ModelResponse(parts=parts))
            continue
        part = _request_part(message, names)
        if found and isinstance(found[-1], ModelRequest):
            found[-1] = ModelRequest(parts=[*found[-1].parts, part])
        else:
            found.append(ModelRequest(parts=[part]))
    if found and last is not None and isinstance(found[-1], ModelRequest):
        found[-1] = ModelRequest(parts=found[-1].parts, instructions=last.instructions)
    return found


def _response_parts(message: Mapping[str, Any]) -> Iterator[ModelResponsePart]:
    if message.get("content"):
        yield TextPart(content=_text(message["content"]))
    for call in message.get("tool_calls") or ():
        told = call["function"]
        yield ToolCallPart(tool_name=told["name"], args=told["arguments"], tool_call_id=call["id"])


def _request_part(message: Mapping[str, Any], names: Mapping[str, str]) -> ModelRequestPart:
    if message["role"] == "system":
        return SystemPromptPart(content=_text(message["content"]))
    if message["role"] == "tool":
        call = message["tool_call_id"]
        return ToolReturnPart(tool_name=names.get(call, ""), content=_text(message["content"]), tool_call_id=call)
    content = message["content"]
    if isinstance(content, str):
        return UserPromptPart(content=content)
    return UserPromptPart(content=[_user_part(part) for part in content])


def _user_part(part: Mapping[str, Any]) -> Any:
    if part.get("type") == "image_url":
        return ImageUrl(url=part["image_url"]["url"])
    return part.get("text") or json.dumps(part, ensure_ascii=False)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
