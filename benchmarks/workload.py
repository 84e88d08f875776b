"""The history that speed is measured on: turns of about 130 tokens a message, with a tool call each."""

import json
import random
from collections.abc import Iterator
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


def texts(seed: int, words: int = 105) -> Iterator[str]:
    """Texts of about 120 tokens, no two alike."""
    chance = random.Random(seed)
    while True:
        yield " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def history(seed: int = 1) -> Iterator[Json]:
    """Wire events without end: an instruction, then turns of user, reply with a call, result, reply."""
    chance, said = random.Random(seed), texts(seed)

    def event(kind: str, payload: Json, actor: str) -> Json:
        return {"event_id": str(UUID(int=chance.getrandbits(128), version=4)), "kind": kind, "payload": payload,
                "actor": actor}  # fmt: skip

    yield event("instruction.set", {"text": INSTRUCTION}, "user")
    turn = 0
    while True:
        turn += 1
        call = {"id": f"call-{turn}", "name": "look_up", "arguments": json.dumps({"order": turn, "deep": True})}
        yield event("user.input", {"content": next(said)}, "user")
        yield event("assistant.output", {"content": next(said), "tool_calls": [call]}, "agent")
        yield event("tool.result", {"call_id": call["id"], "content": next(said)}, "tool")
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
