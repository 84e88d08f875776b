"""The terms of a text: what a query and a message must share for the one to find the other.

English words without the commonest, stemmed; identifiers, paths and numbers whole and in their parts; Chinese, Japanese
and Korean runs as pairs of characters, so that no dictionary decides what a word is; numbers with what they count.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

import snowballstemmer

_WORD = re.compile(r"[^\W_]+(?:[_./:#@'’+-]+[^\W_]+)*")
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_PART = re.compile(r"[^\W\d_]+|\d+")
_NUMBERED = re.compile("[0-9]+[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_PARTICLES = frozenset("的了吗呢吧啊么是很也")
_STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but by can
could did do does doing down during each few for from further had has have having he her here hers him his how i if in
into is it its itself just let like me more most my no nor not now of off on once only or other our out over own same
she should so some such than that the their them then there these they this those through to too under until up very
was we were what when where which while who whom whose why will with would you your yours
"""
STOP = frozenset(_STOP_WORDS.split())


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    # A stemmer of its own for each word: it holds the word that it is at, and threads would meet in it.
    return str(snowballstemmer.stemmer("english").stemWord(word))


def terms(text: str) -> list[str]:
    """All terms of a text in its order, repeated as often as they stand there."""
    return list(_terms(text))


def hashed(term: str) -> int:
    """A term as an index keeps it."""
    return crc32(term.encode("utf-8", "surrogatepass"))


def _terms(text: str) -> Iterator[str]:
    if not text.isascii():
        for run in CJK.findall(text):
            yield from _pairs(run)
        yield from _NUMBERED.findall(text)
        text = CJK.sub(" ", text)
    for word in _WORD.findall(text.lower()):
        yield from _of_word(word)


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        if run not in _PARTICLES:
            yield run
        return
    for at in range(len(run) - 1):
        if run[at] not in _PARTICLES and run[at + 1] not in _PARTICLES:
            yield run[at : at + 2]


@lru_cache(1 << 16)
def _of_word(word: str) -> tuple[str, ...]:
    plain = word.replace("’", "'").removesuffix("'s").replace("'", "")
    if plain in STOP or word.replace("’", "'") in STOP or not plain:
        return ()
    if plain.isalpha():
        return (_stem(plain),)
    parts = [_stem(part) for part in _PART.findall(plain) if part not in STOP and (len(part) > 1 or part.isdigit())]
    return (plain, *parts) if parts != [plain] else (plain,)
