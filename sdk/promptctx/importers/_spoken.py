"""What a span says was sent to a model or came back, in whichever framework's words, as chat messages. Total."""

import json
from typing import Any

from promptctx.importers._content import call_of, text_of
from promptctx.importers._model import Json, items, record, text
from promptctx.importers.adk import either, result_text

Message = dict[str, Json]

ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system", "function": "tool"}
RESPONSE_ITEMS = ("function_call", "function_call_output", "reasoning")
REASONING = ("thinking", "reasoning", "redacted_thinking")


def parsed(value: Json) -> Json:
    """JSON in a string as what it is; any other string stays one."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def spoken(value: Json, role: str) -> list[Message]:
    """The messages of a prompt or a reply; `role` is whose they are if nothing says it."""
    value = parsed(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if isinstance(value, list):
        return _joined([one for part in value for one in spoken(part, role)])
    fields = record(value)
    for shape in (_request, _response, _item, _message):
        if (found := shape(fields, role)) is not None:
            return found
    return []


def tools_of(value: Json) -> list[Json]:
    """The schemas that a request or a response brings along."""
    fields = record(parsed(value))
    found = items(fields.get("tools")) or items(record(fields.get("config")).get("tools"))
    unpacked = [
        items(either(record(tool), "function_declarations", "functionDeclarations")) or [tool] for tool in found
    ]
    pseudo = [one.get("content") for one in map(record, items(parsed(value))) if _is_schema(one)]
    return [tool for group in unpacked for tool in group] + pseudo


def _is_schema(message: Message) -> bool:
    """Some exporters put the tools among the messages."""
    content = record(message.get("content"))
    return message.get("role") == "tool" and content.get("type") == "function" and "function" in content


def _request(fields: Message, role: str) -> list[Message] | None:
    """A whole request or response that has its messages inside."""
    if "contents" in fields:
        told = record(fields.get("config"))
        system = either(told, "system_instruction", "systemInstruction") or fields.get("system_instruction")
        first = [{"role": "system", "content": text_of(record(system).get("parts") or system)}] if system else []
        return [*first, *spoken(fields["contents"], role)]
    if isinstance(fields.get("messages"), list):
        system = text_of(fields.get("system"))
        return [*([{"role": "system", "content": system}] if system else []), *spoken(fields["messages"], role)]
    if isinstance(fields.get("choices"), list):
        return spoken(record((fields["choices"] or [None])[0]).get("message"), role)
    if text(fields.get("prompt")) and "role" not in fields:
        system = text_of(fields.get("system"))
        return [
            *([{"role": "system", "content": system}] if system else []),
            {"role": "user", "content": fields["prompt"]},
        ]
    return None


def _response(fields: Message, role: str) -> list[Message] | None:
    if isinstance(fields.get("output"), list) and fields.get("object") == "response":
        return spoken(fields["output"], role)
    if isinstance(record(fields.get("content")).get("parts"), list):
        return spoken(fields["content"], role)
    return None


def _item(fields: Message, role: str) -> list[Message] | None:
    """An item of the Responses API."""
    kind = fields.get("type")
    if kind not in RESPONSE_ITEMS or "role" in fields:
        return None
    if kind == "function_call":
        call = {"id": fields.get("call_id"), "name": fields.get("name"), "arguments": fields.get("arguments")}
        return [{"role": "assistant", "content": "", "tool_calls": [call], "joins": True}]
    if kind == "function_call_output":
        return [{"role": "tool", "tool_call_id": fields.get("call_id"), "content": fields.get("output")}]
    said = "\n".join(str(record(part).get("text")) for part in items(fields.get("summary")))
    return [{"role": "assistant", "content": "", "joins": True, "thinking_blocks": [{"thinking": said}]}]


def _joined(messages: list[Message]) -> list[Message]:
    """Items of one reply are one message."""
    made: list[Message] = []
    for message in messages:
        joins = message.get("joins") or (made and made[-1].get("joins") and message.get("role") == "assistant")
        if joins and made and made[-1]["role"] == "assistant" == message["role"]:
            last = made[-1]
            made[-1] = {
                **last, "content": last.get("content") or message.get("content"), "joins": message.get("joins"),
                **{key: [*items(last.get(key)), *items(message.get(key))] for key in ("tool_calls", "thinking_blocks")},
            }  # fmt: skip
        else:
            made.append(message)
    return made


def _message(fields: Message, role: str) -> list[Message] | None:
    said = fields.get("role") or fields.get("type")
    known = ROLES.get(str(said), str(said))
    if _is_schema(fields):
        return []
    if known not in ("system", "user", "assistant", "tool"):
        if role != "assistant" or "content" not in fields or "role" in fields:
            return []
        known = role
    blocks = fields.get("parts") if isinstance(fields.get("parts"), list) else fields.get("content")
    if not isinstance(blocks, list):
        return [_plain(fields, known)]
    return _of_blocks(
        fields,
        known,
        [record(parsed(one)) if not isinstance(one, str) else {"type": "text", "text": one} for one in blocks],
    )


def _plain(fields: Message, role: str) -> Message:
    more = record(fields.get("additional_kwargs"))
    calls = items(fields.get("tool_calls")) or items(more.get("tool_calls"))
    made: Message = {"role": role, "content": fields.get("content")}
    if role == "assistant":
        made["tool_calls"] = [{key: one[key] for key in one if key != "type"} for one in map(record, calls)]
        made |= {key: fields[key] for key in ("reasoning_content", "thinking_blocks") if key in fields}
    if role == "tool":
        made |= {"tool_call_id": fields.get("tool_call_id"), "name": fields.get("name")}
    return made


def _of_blocks(fields: Message, role: str, blocks: list[Message]) -> list[Message]:
    """A message of blocks: its text, its calls and thoughts; what answers a call is a message of its own."""
    answers = [found for block in blocks if (found := _answer(block))]
    shown, calls, thoughts = [], [], []
    for block in blocks:
        call = _call(block)
        if call is not None:
            calls.append(call)
        elif block.get("type") in REASONING or block.get("thought") is True:
            said = block.get("thinking") or block.get("content") or block.get("text")
            thoughts.append({"thinking": text_of(said), "signature": block.get("signature")})
        elif _answer(block) is None:
            shown.append(_shown(block))
    if not (shown or calls or thoughts):
        return answers
    if role == "tool" and shown:
        return [
            *answers,
            {"role": "tool", "content": shown, "tool_call_id": fields.get("tool_call_id"), "name": fields.get("name")},
        ]
    plain = shown[0]["text"] if len(shown) == 1 and shown[0].get("type") == "text" else shown
    made: Message = {"role": role, "content": plain or ""}
    if role == "assistant":
        more = [{key: one[key] for key in one if key != "type"} for one in map(record, items(fields.get("tool_calls")))]
        known = {one.get("id") for one in calls}
        made |= {"tool_calls": calls + [one for one in more if one.get("id") not in known], "thinking_blocks": thoughts}
    return [*answers, made]


def _shown(block: Message) -> dict[str, Any]:
    said = block.get("text") if isinstance(block.get("text"), str) else block.get("content")
    if block.get("type") in ("text", "input_text", "output_text", None) and isinstance(said, str):
        return {"type": "text", "text": said}
    return block


def _call(block: Message) -> Message | None:
    inner = either(block, "function_call", "functionCall")
    if isinstance(inner, dict):
        return {"id": inner.get("id"), "name": inner.get("name"), "arguments": inner.get("args")}
    if block.get("type") in ("tool_use", "tool_call"):
        made = call_of({key: value for key, value in block.items() if key != "function"})
        return {"id": made["id"], "name": made["name"], "arguments": made["arguments"]}
    return None


def _answer(block: Message) -> Message | None:
    inner = either(block, "function_response", "functionResponse")
    if isinstance(inner, dict):
        said = result_text(inner.get("response"))
        return {"role": "tool", "tool_call_id": inner.get("id"), "name": inner.get("name"), "content": said}
    if block.get("type") == "tool_result":
        failed = block.get("is_error") is True
        return {
            "role": "tool",
            "tool_call_id": block.get("tool_use_id"),
            "content": block.get("content"),
            "is_error": failed,
        }
    if block.get("type") == "tool_call_response":
        shown = _unwrapped(block.get("response", block.get("result")))
        return {"role": "tool", "tool_call_id": block.get("id"), "name": block.get("name"), "content": shown}
    return None


def _unwrapped(result: Json) -> str:
    """A tool's result as text, without the record that says that it is one."""
    wrapped = record(parsed(result))
    if wrapped.get("type") == "function_result" and "result" in wrapped:
        return _unwrapped(wrapped["result"])
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
