"""What `promptctx.testing.FakeServer` needs besides its rules: answers, pages, prompts without a compiler."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import httpx2

Json: TypeAlias = dict[str, Any]
_AUDIT = ("context.compiled", "context.trim", "anchor.moved", "output.flagged", "snapshot.labelled")
_SUBJECT = ("profile.", "block.", "memory.")
_ROLES = {"instruction.set": "system", "user.input": "user", "assistant.output": "assistant", "tool.result": "tool"}


def answer(body: Any, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


def paged(request: httpx2.Request, key: str, rows: Sequence[Json]) -> httpx2.Response:
    after, limit = int(request.url.params.get("after", 0)), int(request.url.params.get("limit", 100))
    more = str(after + limit) if after + limit < len(rows) else None
    return answer({key: rows[after : after + limit], "next": more})


def digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def stream_of(draft: Json) -> str:
    """The stream an event belongs to when it is sent through a session."""
    if draft["kind"].startswith(_AUDIT):
        return "audit"
    if not draft["kind"].startswith(_SUBJECT):
        return "session"
    return str(draft["payload"].get("scope", "subject"))


def message(event: Json) -> Json | None:
    """A chat message for an event that makes one."""
    if event["kind"] not in _ROLES:
        return None
    told = event["payload"]
    made: Json = {"role": _ROLES[event["kind"]], "content": told.get("content") or told.get("role") or ""}
    if told.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in told["tool_calls"]]
    return {**made, "tool_call_id": told["call_id"]} if "call_id" in told else made


def _call(call: Json) -> Json:
    arguments = call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"])
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def render(history: Iterable[Json | None], form: str) -> Json:
    """The messages as the payload of a format; for Anthropic only the system text moves."""
    messages = [one for one in history if one]
    if form == "text":
        return {"text": "\n".join(f"{one['role']}: {one['content']}" for one in messages)}
    if form == "openai":
        return {"messages": messages}
    system = "\n".join(str(one["content"]) for one in messages if one["role"] == "system")
    return {"system": system, "messages": [one for one in messages if one["role"] != "system"]}


def marked(audit: Iterable[Json], prompts: Mapping[str, Json]) -> list[Json]:
    """The prompts that have flags or labels, by version. Of flags the newest counts."""
    found: dict[str, Json] = {}
    for event in audit:
        told = event["payload"]
        if event["kind"] not in ("output.flagged", "snapshot.labelled") or told["snapshot_id"] not in prompts:
            continue
        prompt = prompts[told["snapshot_id"]]
        row = found.setdefault(
            prompt["id"],
            {
                "prompt": prompt["id"], "session": prompt["session"], "version": prompt["version"], "labels": {},
                "verdict": None, "note": "", "flagged_at": None, "by": None,
            },
        )  # fmt: skip
        if event["kind"] == "snapshot.labelled":
            row["labels"][told["label"]] = told.get("note", "")
        else:
            row |= {"verdict": told["verdict"], "note": told.get("note", ""), "flagged_at": event["recorded_at"]}
    return sorted(found.values(), key=lambda row: int(row["version"]))


def stats(session: str | None, logs: Sequence[Sequence[Json]], prompts: Sequence[int]) -> Json:
    """Sizes by role; a token is four characters of JSON, and nothing is recommended."""
    said = [one for log in logs for one in map(message, log) if one]
    roles = {
        role: spread([len(json.dumps(one)) // 4 for one in said if one["role"] == role])
        for role in ("user", "assistant", "tool")
    }
    told = {**spread(prompts), "fill": 0, "trimmed": 0, "pairs": 0, "prefix_reuse": None, "stored": len(prompts)}
    return {
        "session": session, "encodings": ["fake"], "sessions": len(logs), "skipped": 0,
        "messages": sum(one["count"] for one in roles.values()), "roles": roles, "tools": [], "slots": {},
        "prompts": told, "zones": {}, "outputs": spread([]), "recommended": {"slots": {}},
        "model_calls": {"calls": 0, "tokens_in": 0, "tokens_out": 0, "failed": {}},
    }  # fmt: skip


def spread(sizes: Sequence[int]) -> Json:
    """Count, sum, mean, median, p95, peak and the long tail; the histogram is one step."""
    found, count, tokens = sorted(sizes), len(sizes), sum(sizes)
    if not found:
        return {"count": 0, "tokens": 0, "mean": 0, "median": 0, "p95": 0, "peak": 0, "long_tail": 0, "histogram": []}
    return {
        "count": count, "tokens": tokens, "mean": round(tokens / count, 2),
        "median": (found[(count - 1) // 2] + found[count // 2]) / 2, "p95": found[(count * 19 + 19) // 20 - 1],
        "peak": found[-1], "long_tail": round(sum(found[-((count + 19) // 20) :]) / max(1, tokens), 4),
        "histogram": [{"to": found[-1], "count": count}],
    }  # fmt: skip
