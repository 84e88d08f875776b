"""Documents: long texts around the payload limit, chunked by structure, read back by characters."""

import random
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_histories import drain

from domain.errors import InvalidRequest, PayloadTooLarge, UnknownDocument, UnknownSession
from workers.engine import Engine
from workers.engine import documents as documents_module
from workers.engine.chunking import chunks
from workers.store.documents import BLOCK
from workers.tokens import Tokens

count = Tokens().counter("o200k_base")


def test_a_document_is_stored_told_and_read_in_slices(engine: Engine, tenant: str) -> None:
    text = "# Trains\n\n" + "Ein Zug nach Bern fährt um vier. 火车四点开。\n" * 4000
    data = text.encode()
    parts = [data[at : at + 1001] for at in range(0, len(data), 1001)]
    done = engine.put_document(tenant, "s", "d", parts, "Trains", "shelf", "text/markdown; charset=utf-8")
    assert done["size"] == len(data)
    assert done["seq"] == 1
    assert engine.get_document(tenant, "s", "d") == text
    for start, end in ((0, 10), (BLOCK - 3, BLOCK + 3), (5, 5), (len(text) - 4, None), (len(text) + 5, None)):
        assert engine.get_document(tenant, "s", "d", start, end) == text[start:end]
    payload = engine.events(tenant, "s")["events"][0]["payload"]
    assert (payload["title"], payload["first_line"], payload["hash"]) == ("Trains", "# Trains", done["hash"])
    assert len(payload["chunks"]) == done["chunks"] > 1


def test_the_same_document_again_changes_nothing_and_an_older_text_may_come_back(engine: Engine, tenant: str) -> None:
    first = engine.put_document(tenant, "s", "d", [b"one"])
    assert engine.put_document(tenant, "s", "d", [b"o", b"ne"]) == first
    assert engine.put_document(tenant, "s", "d", [b"two"])["seq"] == 2
    assert engine.put_document(tenant, "s", "d", [b"one"])["seq"] == 3
    assert engine.get_document(tenant, "s", "d") == "one"
    drain(engine)
    assert engine.verify(tenant, "s")["ok"]


def test_an_empty_document_is_one(engine: Engine, tenant: str) -> None:
    assert engine.put_document(tenant, "s", "d", [])["chunks"] == 0
    assert engine.get_document(tenant, "s", "d") == ""


def test_bad_documents_are_refused_and_leave_no_trace(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "LIMIT", 1000)

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100

    with pytest.raises(PayloadTooLarge):
        engine.put_document(tenant, "s", "d", endless())
    for data in (b"\xff", "ü".encode()[:1], b"\xed\xa0\x80"):
        with pytest.raises(InvalidRequest, match="UTF-8"):
            engine.put_document(tenant, "s", "d", [data])
    with pytest.raises(InvalidRequest):
        engine.put_document(tenant, "s", "d", [b"x"], media_type="image/png")
    with pytest.raises(InvalidRequest):
        engine.put_document(tenant, "s", "../d", [b"x"])
    with pytest.raises(InvalidRequest):
        engine.put_document(tenant, "s", "d", [b"x"], title="t" * 1001)
    assert engine.sessions(tenant)["sessions"] == []


def test_what_is_not_there_is_said_so(engine: Engine, tenant: str) -> None:
    with pytest.raises(UnknownSession):
        engine.get_document(tenant, "s", "d")
    engine.put_document(tenant, "s", "d", [b"x"])
    with pytest.raises(UnknownDocument):
        engine.get_document(tenant, "s", "other")
    with pytest.raises(InvalidRequest):
        engine.get_document(tenant, "s", "d", 5, 2)


def test_uploads_at_the_same_time_end_with_one_of_them(engine: Engine, tenant: str) -> None:
    texts = [bytes([65 + number]) * 10 for number in range(3)]
    threads = [threading.Thread(target=engine.put_document, args=(tenant, "s", "d", [text])) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.get_document(tenant, "s", "d").encode() in texts


# --- chunks -----------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("ab #\n`。.火\t"), max_size=400), st.booleans(), st.integers(3, 40))
def test_chunks_cover_the_text_in_order_and_keep_the_limit(text: str, markdown: bool, limit: int) -> None:
    found = chunks(text, count, markdown=markdown, limit=limit)
    assert "".join(text[one.start : one.end] for one in found) == text
    assert [one.start for one in found] == [0, *(one.end for one in found)][: len(found)]
    for one in found:
        assert count(text[one.start : one.end]) <= limit


def test_chunks_end_where_headings_begin() -> None:
    text = "intro\n\n# A\n\ntext of a\n\n## A1\n\ntext of a1\n\n```\n# no heading\n```\n\n# B\ntext of b\n"
    found = chunks(text, count, markdown=True)
    assert [one.heading for one in found] == ["", "A", "A > A1", "B"]
    assert text[found[2].start : found[2].end].startswith("## A1")
    assert len(chunks(text, count, markdown=False)) == 1


def test_a_long_text_without_any_structure_is_cut_all_the_same() -> None:
    rng = random.Random(7)
    text = "".join(rng.choice("abcdefghij") for _ in range(50_000))
    found = chunks(text, count, markdown=False)
    assert all(count(text[one.start : one.end]) <= 400 for one in found)
