"""A model on loopback: it answers as it is told to, and keeps what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass
class Said:
    """One answer. `status` and `body` are sent as they are; `hangs` holds it back until the server ends."""

    text: str = ""
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
            choice = {"index": 0, "message": {"role": "assistant", "content": said.text}, "finish_reason": said.finish}
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
