"""Terms are found by many threads at once: those of a text are its own, whoever else looks meanwhile."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from domain.recall.terms import _of_word, _stem, terms


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads that give way to each other at every chance."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def forget() -> None:
    _stem.cache_clear()
    _of_word.cache_clear()


def test_threads_that_look_for_terms_at_once_find_what_one_alone_finds(hurried: None) -> None:
    endings = ("ations", "fulness", "ingly", "ements", "iveness", "ically", "izer", "ousli", "ies", "ed")
    texts = [f"{a}{b}{c}{ending}" for a in "bcdfglm" for b in "aeio" for c in "nrst" for ending in endings]
    forget()
    alone = [terms(text) for text in texts]
    forget()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(terms, texts)) == alone
