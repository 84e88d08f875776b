"""An assistant that is told something in one session and knows it in the next, until it is told otherwise.

    python examples/assistant_with_memory.py

The model is scripted: no key is needed. What it keeps, it keeps by a tool call, as models do.
"""

import json
from typing import Any

from local_server import serving
from scripted_model import ModelServer, Said, ask, model_server

from promptctx import Client, Prompt, Session

SUBJECT = "lin"
REMEMBER = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "predicate": {"type": "string"}, "object": {"type": "string"}},
}
SCRIPT = [
    Said("Noted.", [("remember", {"text": "Lin lives in Oslo", "predicate": "lives in", "object": "Oslo"})]),
    Said("I know now that you live in Oslo."),
    Said("Take the tram: from Oslo's centre it is twenty minutes."),
    Said("", [("remember", {"text": "Lin lives in Bergen", "predicate": "lives in", "object": "Bergen"})]),
    Said("Bergen, then."),
    Said("Pack an umbrella: it is Bergen."),
]


def main() -> None:
    said = iter(SCRIPT)
    with serving() as url, Client(url) as client, model_server(lambda asked: next(said)) as model:

        def talk(session: str, *questions: str) -> None:
            print(f"session {session}")
            s = client.session(session, subject=SUBJECT, mode="chat", model="gpt-4o", locale="en")
            s.instructions(role="You are Lin's assistant.", rules=["Keep what is worth keeping."])
            s.tool("remember", "Keep a fact", REMEMBER, required=["text"])
            for question in questions:
                s.user(question)
                print(f"  user:  {question}")
                prompt = s.compile(budget=2000).result(60)
                print(f"  its prompt knows of Lin: {'; '.join(known(prompt)) or 'nothing'}")
                while calls := answer(s, model, prompt):
                    for call in calls:
                        told = json.loads(call["function"]["arguments"])
                        s.remember(**told, subject=SUBJECT, category="identity")
                        s.tool_result(call["id"], "kept")
                    prompt = s.compile(budget=2000).result(60)
            print()

        talk("monday", "My flat is in Oslo, by the way.")
        talk("tuesday", "How do I get to the museum?", "Oslo is over: the new flat is in Bergen.")
        talk("wednesday", "What do I pack for a walk in town?")
        history(client)


def known(prompt: Prompt) -> list[str]:
    """What a prompt shows of the subject's profile."""
    return [item["text"] for item in (prompt.report["slots"].get("profile") or {}).get("items") or ()]


def answer(s: Session, model: ModelServer, prompt: Prompt) -> list[dict[str, Any]]:
    """Ask, record, and give the calls of tools that are to be done."""
    reply = ask(model, prompt.openai())
    s.record(reply)
    message = reply["choices"][0]["message"]
    if message["content"]:
        print(f"  model: {message['content']}")
    return list(message.get("tool_calls") or ())


def history(client: Client) -> None:
    """All that was ever kept: a newer fact ends an older one, and nothing is overwritten."""
    print("kept of Lin, the newest first")
    for one in client.memories(SUBJECT, closed=True)["memories"]:
        print(f"  {one['text']:20} {'true now' if one['current'] else 'was true, ended by event ' + one['closed_by']}")


if __name__ == "__main__":
    main()
