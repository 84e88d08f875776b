"""The history that speed is measured on: turns of about 130 tokens a message, with a tool call each."""

import json
import random
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

Json = Any

WORDS = """
the of and to in is that for it as was with be by on not he this are or his from at which but have an had they
you were their one all we can her has there been if more when will would who so no said what up its about into
than them only other new some could time these two may then do first any my now such like our over man me even
most made after also did many before must through back years where much your way well down should because each
request database session window budget schema invoice customer order payment server error timeout retry token
context memory plan deploy release branch commit review failed passed result query index table column value
""".split()  # noqa: SIM905
INSTRUCTION = "You are a careful agent of a shop. Follow the rules, use the tools, answer briefly. " * 6


def texts(seed: int, words: int = 78) -> Iterator[str]:
    """Texts of about 120 tokens, no two alike, as hard for a tokenizer as what agents really say: sentences with names,
    numbers, dates, amounts and identifiers."""
    chance = random.Random(seed)
    while True:
        said, sentence = [], 0
        for _ in range(words):
            word = _odd(chance) if chance.random() < 0.12 else chance.choice(WORDS)
            said.append(word if sentence else word[:1].upper() + word[1:])
            sentence += 1
            if sentence > 6 and chance.random() < 0.15:
                said[-1] += chance.choice((".", ".", "?", ":", ".\n"))
                sentence = 0
            elif chance.random() < 0.08:
                said[-1] += ","
        yield " ".join(said) + "."


def _odd(chance: random.Random) -> str:
    """A name, a number, a date, an amount, an identifier."""
    name = "".join(chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(chance.randint(2, 4)))
    number = chance.randint(10, 99_999)
    return chance.choice(
        (name.capitalize(), f"{name}_{number % 100}", f"#{number}", f"${number / 100:,.2f}",
         f"2025-{number % 12 + 1:02}-17",
         f"`{name}.{chance.choice(WORDS)}()`")
    )  # fmt: skip


def records(seed: int) -> Iterator[str]:
    """Tool results: JSON of about 120 tokens."""
    chance = random.Random(seed)
    while True:
        rows = [
            {"id": f"ORD-{chance.randint(1000, 9999)}", "customer": _odd(chance), "status": chance.choice(WORDS),
             "total": chance.randint(100, 99_999) / 100, "items": [chance.choice(WORDS), _odd(chance)]}
            for _ in range(3)
        ]  # fmt: skip
        yield json.dumps({"orders": rows, "next": None})


def history(seed: int = 1) -> Iterator[Json]:
    """Wire events without end: an instruction, then turns of user, reply with a call, result, reply. Their ids are in
    the order of their times, as those that the client makes."""
    chance, said, found = random.Random(seed), texts(seed), records(seed)
    clock = count(1_750_000_000_000, 700)

    def event(kind: str, payload: Json, actor: str) -> Json:
        name = UUID(int=next(clock) << 80 | 7 << 76 | 2 << 62 | chance.getrandbits(62))
        return {"event_id": str(name), "kind": kind, "payload": payload, "actor": actor}

    yield event("instruction.set", {"text": INSTRUCTION}, "user")
    turn = 0
    while True:
        turn += 1
        call = {"id": f"call-{turn}", "name": "look_up", "arguments": json.dumps({"order": turn, "deep": True})}
        yield event("user.input", {"content": next(said)}, "user")
        yield event("assistant.output", {"content": next(said), "tool_calls": [call]}, "agent")
        yield event("tool.result", {"call_id": call["id"], "content": next(found)}, "tool")
        yield event("assistant.output", {"content": next(said)}, "agent")


def chat_messages(events: list[Json]) -> list[Json]:
    """The same history as chat messages, for those who know no events."""
    made: list[Json] = []
    for event in events:
        told = event["payload"]
        if event["kind"] == "instruction.set":
            made.append({"role": "system", "content": told["text"]})
        elif event["kind"] == "user.input":
            made.append({"role": "user", "content": told["content"]})
        elif event["kind"] == "tool.result":
            made.append({"role": "tool", "tool_call_id": told["call_id"], "content": told["content"]})
        else:
            calls = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for call in told.get("tool_calls", ())
            ]
            made.append({"role": "assistant", "content": told["content"], **({"tool_calls": calls} if calls else {})})
    return made
