"""Checkpoints of LangGraph: one put after each message, the state holding all messages so far.

Runs in an environment of its own. Order on stdin: {"store": "sqlite"|"postgres", "url": a path or a libpq URL,
"messages": […], "lengths": messages in the state, "puts": …}. Answer on stdout: {"rates": {length: puts per second},
"version": …}.
"""

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version

PLACES = {"sqlite": ("langgraph.checkpoint.sqlite", "SqliteSaver"),
          "postgres": ("langgraph.checkpoint.postgres", "PostgresSaver")}  # fmt: skip


def main() -> None:
    order = json.load(sys.stdin)
    base = import_module("langgraph.checkpoint.base")
    module, name = PLACES[order["store"]]
    rates = {}
    with getattr(import_module(module), name).from_conn_string(order["url"]) as saver:
        saver.setup()
        for length in order["lengths"]:
            config = {"configurable": {"thread_id": f"t-{length}", "checkpoint_ns": ""}}
            messages, taken = order["messages"][:length], 0.0
            for number in range(1, order["puts"] + 1):
                checkpoint = base.empty_checkpoint()
                checkpoint["channel_values"] = {"messages": messages}
                checkpoint["channel_versions"] = {"messages": number}
                begun = time.perf_counter()
                config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"messages": number})
                taken += time.perf_counter() - begun
            rates[str(length)] = order["puts"] / taken
    print(json.dumps({"rates": rates, "version": version(f"langgraph-checkpoint-{order['store']}")}))


if __name__ == "__main__":
    main()
