"""`trim_messages` of langchain-core with an exact counter, on the same history. Runs in its own environment.

Order on stdin: {"messages": […], "budget": …, "runs": …}. Answer on stdout: {"milliseconds": […], "version": …}.
"""

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version


def main() -> None:
    order = json.load(sys.stdin)
    encode = import_module("tiktoken").get_encoding("o200k_base").encode_ordinary
    messages_module = import_module("langchain_core.messages")
    messages = messages_module.convert_to_messages(order["messages"])

    def count(many):  # type: ignore[no-untyped-def]
        total = 3
        for message in many:
            total += 4 + len(encode(message.content))
            for call in getattr(message, "tool_calls", ()):
                total += 3 + sum(len(encode(text)) for text in (call["id"], call["name"], json.dumps(call["args"])))
        return total

    taken = []
    for _ in range(order["runs"]):
        begun = time.perf_counter()
        messages_module.trim_messages(
            messages, max_tokens=order["budget"], strategy="last", token_counter=count, include_system=True,
            start_on="human",
        )  # fmt: skip
        taken.append((time.perf_counter() - begun) * 1000)
    print(json.dumps({"milliseconds": taken, "version": version("langchain-core")}))


if __name__ == "__main__":
    main()
