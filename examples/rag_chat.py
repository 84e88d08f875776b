"""A chat about a document far larger than its prompts: they hold references, and the model expands what it needs.

    python examples/rag_chat.py

The search gives places, not texts. The model asks for a slice through MCP, which puts it into the next prompt's window.
The model is scripted, but honest: it only knows what its prompts say. No key is needed.
"""

import asyncio
import json
import re

import httpx2
from local_server import ROOT, serving
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from scripted_model import Json, Said, ask, model_server

from promptctx import Client, Session

BUDGET = 1500
MANUAL = ROOT / "docs" / "operations.md"
QUESTIONS = {
    "Which metric tells that nobody works, and from which value on?": ("nobody works", r"`(\w+)` \| (over \d+[^:|]*)"),
    "How do I look at what an erasure would take?": ("erase --dry-run", r"(python -m workers erase \w+ --dry-run)"),
}
"""Each with the words that the model searches for, and with what it looks for in the text it then gets."""
TOOLS = {
    "search": ("Places in the manual about something", {"query": {"type": "string"}}),
    "expand_reference": (
        "Bring a slice of what is only referred to back",
        {"reference_id": {"type": "string"}, "start": {"type": "integer"}, "end": {"type": "integer"}},
    ),
}


def answer(asked: Json) -> Said:
    """What the model says: it searches, expands the first place that it found, and quotes what it then reads."""
    question = next(question for question in reversed(QUESTIONS) if question in str(asked["messages"]))
    words, wanted = QUESTIONS[question]
    since = [str(message.get("content")) for message in asked["messages"]]
    since = since[max(at for at, text in enumerate(since) if question in text) :]
    if found := re.search(wanted, "\n".join(since[1:])):
        return Said(": ".join(found.groups()))
    if places := re.search(r'"reference_id": ?"(\w+)", ?"start": ?(\d+), ?"end": ?(\d+)', "\n".join(since)):
        name, start, end = places.groups()
        return Said("", [("expand_reference", {"reference_id": name, "start": int(start), "end": int(end)})])
    return Said("", [("search", {"query": words})])


def main() -> None:
    with serving() as url, Client(url) as client, model_server(answer) as model:
        s = client.session("rag", subject="lin", mode="rag", model="gpt-4o", locale="en")
        s.instructions(role="You answer from the manual.", rules=["Quote the manual."])
        for name, (description, properties) in TOOLS.items():
            s.tool(name, description, {"type": "object", "properties": properties}, required=list(properties))
        manual = s.document(MANUAL, document_id="manual", title="Operations")
        print(f"attached: {manual.document_id}, {manual.size} bytes, {manual.chunks} chunks; budget {BUDGET} tokens")
        for question in QUESTIONS:
            print(f"\nuser: {question}")
            s.user(question)
            while True:
                prompt = s.compile(budget=BUDGET).result(60)
                reply = ask(model, prompt.openai())
                s.record(reply)
                message = reply["choices"][0]["message"]
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    act(url, s, call)
            print(f"  model: {message['content']}    (prompt {prompt.tokens} tokens)")
        text = MANUAL.read_text(encoding="utf-8")
        print(f"\nof the manual's {held(text, text)} lines the last prompt held {held(text, prompt.text)}")


def act(url: str, s: Session, call: Json) -> None:
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    print(f"  {name}({json.dumps(arguments)})")
    if name == "search":
        s.tool_result(call["id"], json.dumps(search(s.document_text("manual"), arguments["query"])))
    else:
        brought = asyncio.run(expand(url, s.id, arguments))
        print(f"    {len(brought['text'])} characters are in the window, as event {brought['seq']} of the log")
        s.tool_result(call["id"], f"It is in the window: event {brought['seq']}.")


def search(text: str, query: str) -> list[Json]:
    """The chapter with most of the words, as a place: the text stays where it is."""
    starts = [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)]
    chapters = list(zip(starts, [*starts[1:], len(text)], strict=True))
    start, end = max(chapters, key=lambda at: sum(text[slice(*at)].count(word) for word in query.split()))
    return [{"reference_id": "manual", "start": start, "end": end, "heading": text[start:].split("\n")[0]}]


async def expand(url: str, session: str, arguments: Json) -> Json:
    """The server's own MCP tool, as any MCP host calls it."""
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60) as http,
        McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as host,
    ):
        result = await host.call_tool("expand_reference", {"session": session, **arguments})
        return dict(result.structured_content or {})


def held(text: str, prompt: str) -> int:
    return sum(bool(line.strip()) and line in prompt for line in text.splitlines())


if __name__ == "__main__":
    main()
