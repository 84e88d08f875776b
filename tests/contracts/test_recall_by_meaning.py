"""Recall by meaning: what shares no word with the query is found, words alone decide until it is, and replay needs no
model."""

import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from store_histories import compiled, drain, event, said

from workers.assembly import meanings
from workers.embeddings import EmbeddingEndpoint, Local, Rows
from workers.engine import Engine
from workers.engine.meanings import Meanings, Vectors
from workers.engine.shelves import Shelves
from workers.llm import ModelFailed
from workers.settings import Settings

Json = dict[str, Any]

PETS = ("dog", "hound", "puppy", "beagle")
TEXTS = [*(f"The weather of day {at} was fine, nothing more." for at in range(20)), "Our beagle barks all night."]


class Pets:
    """Knows one thing: what is about dogs."""

    name, far, near = "pets", 0.1, 0.6

    def encode(self, texts: Sequence[str]) -> Rows:
        return np.array([[1, 0] if any(one in text for one in PETS) else [0, 1] for text in texts], dtype=np.float32)


class Broken(Pets):
    def encode(self, texts: Sequence[str]) -> Rows:
        raise ModelFailed("no answer")


def told(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "before", [event("session.started", locale="en", subject="ada"), *map(said, TEXTS)])
    engine.append(
        tenant, "now", [event("session.started", locale="en", subject="ada"), said("How is the puppy at home?")]
    )
    drain(engine)


def shown(engine: Engine, tenant: str, **body: Any) -> tuple[Json, str]:
    prompt = compiled(engine, tenant, "now", **{"mode": "rag", "fresh": True, **body})
    return prompt, json.dumps(prompt["payload"])


def settled(engine: Engine, tenant: str) -> None:
    for session in ("before", "now"):
        engine.index(tenant, session)
    shown(engine, tenant)
    assert engine.deps.meanings is not None
    assert engine.deps.meanings.settle(60)


def test_what_is_meant_is_found_without_a_word_in_common(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    assert "beagle" not in shown(engine, tenant)[1]
    engine.deps.shelves, engine.deps.meanings = Shelves(), Meanings(Pets())
    settled(engine, tenant)
    prompt, text = shown(engine, tenant)
    assert "beagle" in text
    first = prompt["report"]["slots"]["recall"]["items"][0]
    assert "beagle" in first["text"]
    assert 0 < first["score"] <= 1


def test_a_prompt_found_by_meaning_replays_without_the_model_and_without_any_index(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    settled(engine, tenant)
    prompt, text = shown(engine, tenant)
    assert "beagle" in text
    engine.deps.shelves, engine.deps.meanings = Shelves(), None
    assert engine.replay(tenant, prompt["id"])["identical"]
    engine.deps.meanings = Meanings(Broken())
    assert engine.replay(tenant, prompt["id"])["identical"]


def test_an_index_made_anew_finds_the_same_by_meaning(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    settled(engine, tenant)
    before, _ = shown(engine, tenant)
    engine.deps.shelves = Shelves()
    settled(engine, tenant)
    assert shown(engine, tenant)[0]["content_hash"] == before["content_hash"]


def test_a_model_that_fails_leaves_recall_to_words(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    before, _ = shown(engine, tenant)
    engine.deps.shelves, engine.deps.meanings = Shelves(), Meanings(Broken())
    settled(engine, tenant)
    assert shown(engine, tenant)[0]["content_hash"] == before["content_hash"]


LATE = "Something of the puppy, please"


class Stuck(Pets):
    """Knows what passages mean, and thinks about one query until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def encode(self, texts: Sequence[str]) -> Rows:
        if texts == [LATE]:
            self.go.wait(60)
        return super().encode(texts)


def test_a_query_whose_meaning_comes_too_late_is_found_by_words_and_the_report_says_so(
    engine: Engine, tenant: str
) -> None:
    stuck = Stuck()
    engine.deps.meanings = Meanings(stuck, patience=0.05)
    told(engine, tenant)
    settled(engine, tenant)
    prompt, text = shown(engine, tenant, query=LATE)
    assert "beagle" not in text
    assert any("by words alone: what the query means was not known within 0.05 s" in one for one in warnings(prompt))
    stuck.go.set()
    assert engine.replay(tenant, prompt["id"])["identical"]
    assert engine.deps.meanings.settle(60)
    prompt, text = shown(engine, tenant, query=f"{LATE}!")
    assert "beagle" in text
    assert not warnings(prompt)


def warnings(prompt: Json) -> list[str]:
    return list(prompt["report"]["warnings"])


def test_vectors_made_in_steps_are_alike_to_what_they_were_made_of() -> None:
    chance = np.random.default_rng(7)
    rows = chance.normal(size=(200, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = Vectors()
    vectors.add(rows[:3])
    vectors.skip(2)
    vectors.add(rows[5:])
    found = vectors.cosines(rows[50], 250)
    assert np.allclose(found[5:200], rows[5:] @ rows[50], atol=0.02)
    assert not found[3:5].any()
    assert not found[200:].any()


@pytest.mark.parametrize("text", ["", "a" * 100_000, "\ud800 broken", "\x00\x01", "🙂" * 500, "只有中文，没有别的。"])
def test_the_small_model_takes_any_text(text: str) -> None:
    rows = LOCAL.encode([text, "hello"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)


def test_the_small_model_knows_what_is_meant_alike_in_english_and_in_chinese() -> None:
    query, near, far, chinese = LOCAL.encode(
        ["When was the pottery lesson?", "I went to my ceramics class", "The bank is closed", "我去上了陶艺课"]
    )
    assert query @ near > query @ far
    assert query @ chinese > query @ far


LOCAL = Local()


class Answers(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = [{"index": at, "embedding": [at + 1.0, 0.0]} for at in range(len(asked["input"]))][::-1]
        body = self.body or json.dumps({"data": found}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *told: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    Answers.body = b""


def test_an_endpoint_answers_with_rows_of_length_one_in_the_order_asked(endpoint: str) -> None:
    assert EmbeddingEndpoint(endpoint, "m").encode(["a", "b"]).tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"data": []}', b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}', b'{"data": [1]}']
)
def test_an_answer_that_is_no_list_of_embeddings_is_a_failure(endpoint: str, body: bytes) -> None:
    Answers.body = body
    with pytest.raises(ModelFailed):
        EmbeddingEndpoint(endpoint, "m").encode(["a"])


def test_settings_choose_what_is_asked() -> None:
    assert meanings(Settings(embeddings="none")) is None
    assert meanings(Settings(embeddings="local")) is not None
    assert meanings(Settings(embeddings="http://127.0.0.1:1/v1", embeddings_model="m")) is not None
    with pytest.raises(Exception, match="PROMPTCTX_EMBEDDINGS_MODEL"):
        meanings(Settings(embeddings="http://127.0.0.1:1/v1"))
