"""A coding agent of 60 turns: its history outgrows every window, its prompts stay under 4,000 tokens.

    python examples/coding_agent.py

It reads the files of this repository one by one and looks for the longest function. The model is scripted: no key.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local_server import ROOT, serving
from scripted_model import Said, ask, model_server

from promptctx import Client, Prompt, Session

BUDGET = 4000
TURNS = 60
LINES = 80
"""Of a file at a time, as such tools have it."""
GOAL = "Find the longest function under domain/ and tell its file, name and lines."
RULE = "Read only: never change a file."
FILES = sorted((ROOT / "domain").rglob("*.py"))[: TURNS - 1]


def script() -> Iterator[Said]:
    """The model asks for one file after the other, and answers from what was noted on the way."""
    for path in FILES:
        yield Said("", [("read_file", {"path": str(path.relative_to(ROOT))})])
    yield Said(f"The longest function is {longest(FILES)}.")


def main() -> None:
    said = script()
    with serving() as url, Client(url) as client, model_server(lambda asked: next(said)) as model:
        s = client.session("coding", mode="react", model="gpt-4o", locale="en")
        s.instructions(role="You are a coding agent.", rules=["Note what you find."], output_format="One sentence.")
        s.constraint("read-only", RULE, level="block")
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
        s.tool(
            "read_file", f"The first {LINES} lines of a file and its longest function", parameters, required=["path"]
        )
        s.user(GOAL)
        s.start_run(GOAL)
        print(f"{GOAL}\n\n turn  history  prompt  kept from the prompt before")
        sizes, shared, kept, before = [], [], 0, ""
        for turn in range(1, TURNS + 1):
            prompt = s.compile(budget=BUDGET).result(60)
            reply = ask(model, prompt.openai())
            s.record(reply)
            message = reply["choices"][0]["message"]
            sizes.append(prompt.tokens)
            kept += GOAL in prompt.text and RULE in prompt.text
            now = json.dumps([prompt.tools, prompt.messages], ensure_ascii=False)
            shared.append(same(before, now) if before else 0.0)
            before = now
            if turn in (1, 2, 5) or turn % 10 == 0:
                history = sum(unit["tokens"] for unit in prompt.report["units"])
                print(f"{turn:>5} {history:>8} {prompt.tokens:>7}  {shared[-1]:>5.0%}")
            for call in message.get("tool_calls") or ():
                act(s, call)
        print(f"\nanswer: {message['content']}")
        print(f"prompts: {len(sizes)}, largest {max(sizes)} of {BUDGET} tokens; goal and rule in {kept} of them")
        print(f"sent: {sum(sizes)} tokens; {history_sent(prompt, sizes)}")
        reuse = client.stats("coding").prompts["prefix_reuse"]
        print(f"prefix reuse over all prompts: {reuse:.0%} (what a provider's cache need not read again)")


def act(s: Session, call: dict[str, Any]) -> None:
    """Read the file, and note the finding in a line: notes stay when the file has left the window."""
    path = ROOT / json.loads(call["function"]["arguments"])["path"]
    s.tool_result(call["id"], "\n".join(path.read_text(encoding="utf-8").splitlines()[:LINES]))
    s.observe(f"{path.name}: longest function {longest([path])}", tool="read_file")


def longest(paths: list[Path]) -> str:
    found = [
        (node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}: {node.name}")
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    ]
    lines, name = max(found, default=(0, "none"))
    return f"{name}, {lines} lines"


def same(one: str, other: str) -> float:
    """The share of `other` that begins as `one` does."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return length / len(other)


def history_sent(prompt: Prompt, sizes: list[int]) -> str:
    """What sending the whole history at each turn would have taken."""
    grown, total = 0, 0
    steps = [unit["tokens"] for unit in prompt.report["units"]]
    for tokens in steps:
        grown += tokens
        total += grown
    return f"whole histories would have been {total}, {total / sum(sizes):.0f} times as many"


if __name__ == "__main__":
    main()
