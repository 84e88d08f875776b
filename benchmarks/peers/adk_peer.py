"""Appends with google-adk's DatabaseSessionService: one session, one event a call, the same texts.

Runs in an environment of its own. Order on stdin: {"url": an asynchronous SQLAlchemy URL, "texts": […]}.
Answer on stdout: {"rate": events per second, "version": …}.
"""

import asyncio
import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any


async def measure(order: Any) -> float:
    service = import_module("google.adk.sessions").DatabaseSessionService(db_url=order["url"])
    event = import_module("google.adk.events").Event
    types = import_module("google.genai.types")
    session = await service.create_session(app_name="bench", user_id="u-1", session_id="s-1")
    made = [
        event(
            author="user",
            invocation_id=f"i-{number}",
            content=types.Content(role="user", parts=[types.Part(text=text)]),
        )
        for number, text in enumerate(order["texts"])
    ]
    begun = time.perf_counter()
    for one in made:
        await service.append_event(session, one)
    return len(made) / (time.perf_counter() - begun)


def main() -> None:
    rate = asyncio.run(measure(json.load(sys.stdin)))
    print(json.dumps({"rate": rate, "version": version("google-adk")}))


if __name__ == "__main__":
    main()
