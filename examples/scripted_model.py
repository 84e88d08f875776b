"""A model on loopback: it answers as it is told to, and keeps what it was asked, so that nobody needs a key.

It speaks OpenAI's chat completions: `openai.OpenAI(base_url=model.url, api_key="none")` talks to it as well.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

Json = dict[str, Any]


@dataclass
class Said:
    """One answer: a text, or `calls` of tools with their arguments by name. `status` and `body` are sent as they are;
    `hangs` holds it back until the server ends."""

    text: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    status: int = 200
    body: bytes | None = None
    finish: str = "stop"
    hangs: bool = False


@dataclass
class ModelServer:
    """`answers` gives the answer to a request body; `asked` holds the bodies so far."""

    url: str
    answers: Callable[[Json], Said]
    asked: list[Json] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


@contextmanager
def model_server(answers: Callable[[Json], Said]) -> Iterator[ModelServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.asked.append({"path": self.path, "authorization": self.headers.get("Authorization"), **body})
            said = served.answers(body)
            if said.hangs:
                served.ended.wait(60)
                return
            self._send(said)

        def _send(self, said: Said) -> None:
            message: Json = {"role": "assistant", "content": said.text}
            if said.calls:
                message["tool_calls"] = [_call(len(served.asked), at, *call) for at, call in enumerate(said.calls)]
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.calls else said.finish}
            usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
            made = {"id": "c", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
            body = json.dumps(made).encode() if said.body is None else said.body
            self.send_response(said.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = ModelServer(f"http://127.0.0.1:{server.server_port}/v1", answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        served.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def ask(model: ModelServer, request: Json) -> Json:
    """The model's answer to the keyword arguments of `chat.completions.create`."""
    return dict(httpx2.post(f"{model.url}/chat/completions", json=request, trust_env=False, timeout=60).json())


def _call(turn: int, at: int, name: str, arguments: Json) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call_{turn}_{at}", "type": "function", "function": function}
