"""The judge: what is wrong with one compiled prompt, from its payload, its report and the source log alone.

It shares no code with what it judges: it counts with tiktoken itself, and reads the log, the formats and the promises
a second time. A finding names the counter that it raises and says what is wrong in one sentence.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from benchmarks import accounting, structure
from benchmarks.accounting import OPENINGS, as_masked, cut_form, payload_pieces
from benchmarks.sourcelog import SourceLog
from benchmarks.tally import Tokenizer, canonical, payload_tokens, tokenizer_of

Json = Any

COUNTERS = (
    "overflows_wrong", "over_budget", "orphans", "lost_anchors", "lost_constraints", "ledger_errors",
    "replay_mismatches",
)  # fmt: skip

SHORTEST_ANCHOR = 800
"""Tokens of a directive over the budget that stay verbatim, head and tail together, at the least."""

TITLES = {"zh": "【硬性约束】", "en": "## Constraints"}
BLOCK = {"zh": "[禁止]", "en": "[BLOCK]"}
FILLER = {"zh": OPENINGS[0], "en": OPENINGS[3]}
MARKS = {
    "zh": "…（此处省略 {tokens} 个词元，引用 e{seq} 可展开）…",
    "en": "… ({tokens} tokens left out here, reference e{seq} expands them) …",
}


class Finding(NamedTuple):
    counter: str
    what: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A prompt as the engine hands it out. `tokens` and `budget` are the model's."""

    payload: Json
    report: Json
    tokens: int
    content_hash: str


def check(log: SourceLog, target: str, budget: int, prompt: Compiled) -> Iterator[Finding]:
    """All that is wrong with a prompt for this point of the log."""
    tokenizer = tokenizer_of(log.model)
    tokens = payload_tokens(prompt.payload, target, tokenizer, log.image_sizes())
    if tokenizer.scaled(tokens) > budget:
        yield Finding("over_budget", f"{tokenizer.scaled(tokens)} tokens for a budget of {budget}")
    if prompt.tokens != tokenizer.scaled(tokens):
        yield Finding("ledger_errors", f"the prompt says {prompt.tokens} tokens, it has {tokenizer.scaled(tokens)}")
    yield from (Finding("orphans", what) for what in structure.faults(prompt.payload, target))
    yield from (Finding("lost_anchors", what) for what in _lost_anchors(log, target, budget, prompt, tokenizer))
    system = system_text(prompt.payload, target).split("\n")
    for rule in log.block_rules():
        if f"- {BLOCK[log.locale]} {rule.text}" not in system:
            yield Finding("lost_constraints", f"rule {rule.id} is missing")
    accounts = accounting.faults(log, target, prompt.payload, prompt.report, tokens)
    yield from (Finding("ledger_errors", what) for what in accounts)
    if sha256(canonical(prompt.payload).encode()).hexdigest() != prompt.content_hash:
        yield Finding("replay_mismatches", "the content hash is not that of the payload")


def check_overflow(log: SourceLog, target: str, budget: int) -> Iterator[Finding]:
    """Whether a refusal was wrong: the least prompt, with a directive over the budget in its cut form, would fit."""
    least = least_floor(log, target)
    if least <= budget:
        yield Finding("overflows_wrong", f"the floor is {least} and the budget {budget}")


def system_text(payload: Json, target: str) -> str:
    if target == "anthropic":
        return str(payload.get("system", ""))
    first = payload["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


def _lost_anchors(log: SourceLog, target: str, budget: int, prompt: Compiled, tokenizer: Tokenizer) -> Iterator[str]:
    if not system_text(prompt.payload, target).startswith(log.instruction_text()):
        yield "the system prompt is not there word for word"
    if log.directive is None:
        return
    units = prompt.report["units"]
    if not any(log.directive_id in entry.get("events", ()) and entry["disposition"] == "included" for entry in units):
        yield "the newest directive is not accounted for as included"
    found = list(payload_pieces(prompt.payload, target))
    missing = Counter(as_masked(log.directive_pieces(target), found)) - Counter(found)
    if not missing:
        return
    if floor(log, target) <= budget:
        yield "the newest directive is not there word for word, though the floor fits"
    else:
        yield from _wrong_cut(log, target, prompt, tokenizer, [piece[1] for piece in missing])


def _wrong_cut(
    log: SourceLog, target: str, prompt: Compiled, tokenizer: Tokenizer, missing: list[str]
) -> Iterator[str]:
    text = missing[0]
    shown = (piece[1] for piece in payload_pieces(prompt.payload, target) if piece[0] == "user")
    cut = next((parts for one in shown if (parts := cut_form(text, one))), None)
    if len(missing) != 1 or cut is None:
        yield "the newest directive is neither there word for word nor in its cut form"
        return
    head, tail, said = cut
    kept = tokenizer.count(head) + tokenizer.count(tail)
    if kept < SHORTEST_ANCHOR:
        yield f"only {kept} tokens are left of the newest directive"
    if said != tokenizer.count(text) - kept:
        yield f"the marker counts {said} tokens, {tokenizer.count(text) - kept} were left out"


# --- the floor --------------------------------------------------------------------------------------------------------


def floor(log: SourceLog, target: str) -> int:
    """Tokens of the least prompt: instruction, block rules, tools, few-shot, and the newest directive as it is."""
    tokenizer = tokenizer_of(log.model)
    return tokenizer.scaled(payload_tokens(floor_payload(log, target), target, tokenizer, log.image_sizes()))


def least_floor(log: SourceLog, target: str) -> int:
    """The floor with the newest directive in its cut form, where that is smaller."""
    tokenizer = tokenizer_of(log.model)
    whole = payload_tokens(floor_payload(log, target), target, tokenizer, log.image_sizes())
    longest = max((tokenizer.count(piece[1]) for piece in log.directive_pieces(target)), default=0)
    cut = SHORTEST_ANCHOR + tokenizer.count(MARKS[log.locale].format(tokens=longest, seq=log.directive_seq))
    return tokenizer.scaled(whole - max(0, longest - cut))


def history_tokens(log: SourceLog, target: str) -> int:
    """About what a prompt with all of the history would count: the measure that shares of it are taken from."""
    tokenizer = tokenizer_of(log.model)
    floor = payload_tokens(floor_payload(log, target), target, tokenizer, log.image_sizes())
    pieces = (piece for unit in log.units.values() for piece in unit.pieces(target))
    said = sum(4 + sum(map(tokenizer.count, piece[1:])) for piece in pieces)
    return tokenizer.scaled(floor + said)


def floor_payload(log: SourceLog, target: str) -> Json:
    rules = [f"- {BLOCK[log.locale]} {rule.text}" for rule in log.block_rules()]
    section = "\n".join([TITLES[log.locale], *rules]) if rules else ""
    system = "\n\n".join(text for text in (log.instruction_text(), section) if text)
    examples = (log.instruction or {}).get("examples", ())
    said: Json = [(role, [("user", one[role])]) for one in examples for role in ("user", "assistant")]
    said.append(("user", log.directive_pieces(target) if log.directive else [("user", FILLER[log.locale])]))
    made = _openai_floor(system, said) if target == "openai" else _anthropic_floor(system, said)
    if log.tools:
        made["tools"] = [_tool(tool, target) for _, tool in sorted(log.tools.items())]
    return made


def _openai_floor(system: str, said: Json) -> Json:
    messages: Json = [{"role": "system", "content": system}] if system else []
    for role, pieces in said:
        if len(pieces) == 1 and pieces[0][0] == "user":
            messages.append({"role": role, "content": pieces[0][1]})
            continue
        parts = [
            {"type": "image_url", "image_url": {"url": text}} if kind == "image" else {"type": "text", "text": text}
            for kind, text in pieces
        ]
        messages.append({"role": role, "content": parts})
    return {"messages": messages}


def _anthropic_floor(system: str, said: Json) -> Json:
    messages = [
        {
            "role": role,
            "content": [
                {"type": "image", "source": {"url": text}} if kind == "image" else {"type": "text", "text": text}
                for kind, text in parts
            ],
        }
        for role, parts in said
    ]
    return {"messages": messages, **({"system": system} if system else {})}


def _tool(tool: Json, target: str) -> Json:
    about = {"name": tool["name"], "description": tool.get("description", "")}
    parameters = tool.get("parameters") or {}
    if target == "openai":
        return {"type": "function", "function": {**about, "parameters": parameters}}
    return {**about, "input_schema": parameters or {"type": "object", "properties": {}}}
