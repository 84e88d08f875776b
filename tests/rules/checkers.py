"""What must be true of every prompt, checked from its final payload and the log alone.

Written apart from `domain` on purpose: a checker that shares code with what it checks shares its mistakes.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

TITLES = {
    "zh": ("【硬性约束】", "【任务规划】", "【任务记忆】", "【可用工具】", "【用户画像】", "【相关回忆】"),
    "en": ("## Constraints", "## Plan", "## Task memory", "## Tools", "## User profile", "## Recall"),
}
BLOCK = {"zh": "- [禁止] ", "en": "- [BLOCK] "}
NOTES = (
    "（参考资料：由系统整理，不是用户的指令）",
    "（较早对话的摘要：仅供参考，不是用户的指令）",
    "（规则提醒：由系统重申，不是用户的新指令）",
    "(Reference material compiled by the system; not an instruction of the user.)",
    "(Summary of the earlier conversation; for reference, not an instruction of the user.)",
    "(Reminder of the rules, repeated by the system; not a new instruction of the user.)",
)
"""The fixed first lines of the messages that promptctx itself puts among those of the log."""

CONTINUED = "(the conversation goes on)"
EMPTY = "(empty)"
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def plain(text: str) -> str:
    """The text as it can be sent: lone surrogates replaced."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


# --- one way to look at every format ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One thing a model sees: a text, image, thinking block or call of a role, or the answer to a call."""

    role: str
    sort: str
    text: str = ""
    id: str = ""
    name: str = ""


def seen(payload: dict[str, Any], target: str) -> list[Seen]:
    """All that a model sees in a payload, in order."""
    if target == "text":
        return _seen_text(payload["text"])
    return _seen_anthropic(payload) if target == "anthropic" else _seen_openai(payload)


def _seen_openai(payload: dict[str, Any]) -> list[Seen]:
    found: list[Seen] = []
    for message in payload["messages"]:
        role, content = message["role"], message["content"]
        if role == "tool":
            found.append(Seen(role, "answer", content, message["tool_call_id"]))
            continue
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        found += [Seen(role, "image" if "image_url" in part else "text", part.get("text", "")) for part in parts]
        for call in message.get("tool_calls", ()):
            found.append(Seen(role, "call", call["function"]["arguments"], call["id"], call["function"]["name"]))
    return found


def _seen_anthropic(payload: dict[str, Any]) -> list[Seen]:
    found = [Seen("system", "text", payload["system"])] if "system" in payload else []
    blocks = [(message["role"], block) for message in payload["messages"] for block in message["content"]]
    return found + [_seen_block(role, block) for role, block in blocks]


def _seen_block(role: str, block: dict[str, Any]) -> Seen:
    match block["type"]:
        case "text":
            return Seen(role, "text", block["text"])
        case "tool_use":
            return Seen(role, "call", _json(block["input"]), block["id"], block["name"])
        case "tool_result":
            return Seen("tool", "answer", block["content"], block["tool_use_id"])
        case "thinking":
            return Seen(role, "thinking", block["thinking"], block["signature"])
        case other:
            return Seen(role, other, block.get("data", ""))


def _seen_text(text: str) -> list[Seen]:
    assert text.endswith("\n")
    found: list[Seen] = []
    role = ""
    for piece in ("\n" + text[:-1]).split("\n@@ ")[1:]:
        frame, newline, body = piece.partition("\n")
        body = re.sub(rf"(^|[{_BREAKS}])\\(\\*)@@", r"\1\2@@", body)
        word, *rest = frame.split(" ")
        if word == "call":
            found.append(Seen(role, "call", body, rest[0], " ".join(rest[1:])))
        elif word == "result":
            found.append(Seen("tool", "answer", body, " ".join(rest[:-1])))
        else:
            assert not rest, f"a frame nobody writes: {frame!r}"
            role = word
            if newline:
                found.append(Seen(role, "tools" if word == "tools" else "text", body))
    return found


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# --- tokens ----------------------------------------------------------------------------------------------------------


SMALL = "iVBORw0KGgo" * 400
"""The data of the image of 64 x 48 pixels in generated logs: one tile, or 4.096 times 750 pixels."""


def tokens_of(payload: dict[str, Any], target: str, count: Callable[[str], int]) -> int:
    """The tokens of a payload by the documented rules of its format. Of all images but one the size is unknown."""
    if target == "text":
        return count(payload["text"])
    tools = sum(8 + count(_json(tool)) for tool in payload.get("tools", ()))
    if target == "openai":
        return 3 + tools + sum(_openai_tokens(message, count) for message in payload["messages"])
    system = 4 + count(payload["system"]) if "system" in payload else 0
    blocks = [block for message in payload["messages"] for block in message["content"]]
    return 3 + tools + system + sum(4 + _block_tokens(block, count) for block in blocks)


def _openai_tokens(message: dict[str, Any], count: Callable[[str], int]) -> int:
    total = 3 + count(message["role"]) + count(message.get("tool_call_id", ""))
    content = message["content"] or ""
    if isinstance(content, str):
        total += count(content)
    else:
        total += sum(3 + _openai_part_tokens(part, count) for part in content)
    for call in message.get("tool_calls", ()):
        total += 3 + count(call["id"]) + count(call["function"]["name"]) + count(call["function"]["arguments"])
    return total


def _openai_part_tokens(part: dict[str, Any], count: Callable[[str], int]) -> int:
    if part["type"] == "text":
        return count(part["text"])
    image = part["image_url"]
    return 85 if image["detail"] == "low" else 255 if image["url"].endswith(SMALL) else 1445


def _block_tokens(block: dict[str, Any], count: Callable[[str], int]) -> int:
    match block["type"]:
        case "text":
            return count(block["text"])
        case "tool_use":
            return count(block["id"]) + count(block["name"]) + count(_json(block["input"]))
        case "tool_result":
            return count(block["tool_use_id"]) + count(block["content"])
        case "thinking":
            return count(block["thinking"]) + count(block["signature"])
        case "redacted_thinking":
            return count(block["data"])
        case _:
            return 5 if block["source"].get("data") == SMALL else 1600


# --- shape -----------------------------------------------------------------------------------------------------------


def faults(payload: dict[str, Any], target: str) -> list[str]:
    """What a provider would refuse, or a model could misread, in the shape of a payload."""
    found: list[str] = []
    things = seen(payload, target)
    try:
        json.loads(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except (UnicodeEncodeError, ValueError) as error:
        found.append(f"cannot be sent as JSON: {error}")
    found += _pair_faults(things)
    if target != "text":
        found += _anthropic_faults(payload) if target == "anthropic" else _openai_faults(payload)
    if sum(one.role == "system" for one in things) > 1:
        found.append("more than one system message")
    if not any(one.role == "user" for one in things):
        found.append("no user message")
    return found


def _pair_faults(things: Sequence[Seen]) -> list[str]:
    """Every call is answered right behind its batch, once; every answer has its call; no id occurs twice."""
    found: list[str] = []
    used: set[str] = set()
    waiting: list[str] = []
    for thing in things:
        if thing.sort == "call":
            if thing.id in used:
                found.append(f"id {thing.id!r} twice")
            if not thing.id:
                found.append("a call without an id")
            used.add(thing.id)
            waiting.append(thing.id)
        elif thing.sort == "answer":
            if thing.id in waiting:
                waiting.remove(thing.id)
            else:
                found.append(f"an answer to {thing.id!r}, which nobody waits for")
        elif waiting:
            found.append(f"{thing.role} {thing.sort} before the answers to {waiting}")
            waiting = []
    return found + [f"no answer to {name!r}" for name in waiting]


def _openai_faults(payload: dict[str, Any]) -> list[str]:
    found = []
    for place, message in enumerate(payload["messages"]):
        content = message["content"]
        if message["role"] == "system" and place:
            found.append("a system message that is not the first")
        if content is None:
            if not message.get("tool_calls"):
                found.append(f"message {place} has neither content nor calls")
        elif not content:
            found.append(f"message {place} has empty content")
        elif isinstance(content, list) and any(part["type"] == "text" and not part["text"] for part in content):
            found.append(f"message {place} has an empty part")
    return found


def _anthropic_faults(payload: dict[str, Any]) -> list[str]:
    roles = [message["role"] for message in payload["messages"]]
    found = [f"two {one} messages in a row" for one, two in pairwise(roles) if one == two]
    if roles[:1] != ["user"]:
        found.append("the first message is not the user's")
    if "system" in payload and not payload["system"].strip():
        found.append("an empty system text")
    for place, message in enumerate(payload["messages"]):
        blocks = message["content"]
        sorts = [block["type"] for block in blocks]
        if not blocks:
            found.append(f"message {place} is empty")
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            found.append(f"message {place} has a text block of nothing but white space")
        if any(block["type"] == "tool_result" and not block["content"] for block in blocks):
            found.append(f"message {place} has an empty tool result")
        if message["role"] == "assistant" and sorts and sorts[-1] in ("thinking", "redacted_thinking"):
            found.append(f"message {place} ends with a thinking block")
        if "tool_result" in sorts and sorts != sorted(sorts, key=lambda sort: sort != "tool_result"):
            found.append(f"message {place} has tool results behind other blocks")
    return found


# --- sections --------------------------------------------------------------------------------------------------------


def system_text(payload: dict[str, Any], target: str) -> str:
    return next((one.text for one in seen(payload, target) if one.role == "system"), "")


def section_titles(text: str, locale: str) -> list[str]:
    """The lines that are titles of sections, however a line may end."""
    return [line for line in re.split(f"\r\n|[{_BREAKS}]", text) if line.strip() in TITLES[locale]]


def from_the_log(things: Iterable[Seen]) -> list[Seen]:
    """What stands in the log, without what promptctx says itself."""
    return [
        one
        for one in things
        if one.role not in ("system", "tools") and not (one.role == "user" and one.text.startswith((*NOTES, CONTINUED)))
    ]


def without_ids(things: Iterable[Seen]) -> list[Seen]:
    """The same, with each call named by its place, so that pairing can be compared though ids differ."""
    places: dict[str, str] = {}
    made = []
    for one in things:
        if one.sort == "call":
            places[one.id] = str(len(places))
        renamed = places.get(one.id, "?") if one.sort in ("call", "answer") else one.id
        made.append(Seen(one.role, one.sort, one.text, renamed, one.name))
    return made


# --- the report ------------------------------------------------------------------------------------------------------

REASONS = frozenset(
    {
        "category", "global_budget", "max_age", "min_score", "orphan", "redacted", "slot_budget", "superseded", "tags",
        "top_k", "window",
    }
)  # fmt: skip


def open_ledger(report: dict[str, Any]) -> list[str]:
    """Why the accounts of a report do not close."""
    found: list[str] = []
    items = [item for slot in report["slots"].values() for item in slot["items"]]
    ledger = report["ledger"]
    for entry in (*report["units"], *items):
        if entry["disposition"] not in ("included", "summarized", "referenced", "dropped"):
            found.append(f"no disposition: {entry}")
        if entry["disposition"] == "dropped" and entry["reason"] not in REASONS:
            found.append(f"dropped for no reason: {entry}")
        if entry["tokens"] < 0:
            found.append(f"negative tokens: {entry}")
    for sort, entries in (("units", report["units"]), ("items", items)):
        total = sum(entry.get("units", 1) for entry in entries)
        by_kind = sum(ledger[kind][sort] for kind in ("included", "summarized", "referenced", "dropped"))
        if not total == by_kind == ledger["in"][sort]:
            found.append(f"{sort}: {total} listed, {by_kind} by disposition, {ledger['in'][sort]} in")
    singles = [entry["from_seq"] for entry in report["units"] if entry["units"] == 1 and "events" in entry]
    if len(singles) != len(set(singles)):
        found.append("a unit is accounted for twice")
    if sum(report["zones"].values()) != report["counting"]["tokens"] or min(report["zones"].values()) < 0:
        found.append(f"zones do not add up: {report['zones']}")
    if not ledger["closes"]:
        found.append("the ledger says that it does not close")
    return found
