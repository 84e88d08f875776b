"""Whether two texts say the same: by their words in order, so that what differs in one word differs.

Words without those that carry nothing, stemmed; Chinese as pairs of characters. Negations, numbers and names count.
"""

import re
import unicodedata

from domain.recall.terms import terms
from domain.remembering import remembered

_WORD = re.compile(r"[^\W_]+(?:[_./:#@'’+-]+[^\W_]+)*")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_NOT = re.compile(r"n['’]t\b")
_EMPTY = frozenset("a an the is are am be been now currently just really very also please that so well".split())  # noqa: SIM905
_EMPTY_ZH = re.compile("现在|目前|其实|真的|非常|已经|[的了也就很呢吧啊]")


def normal(text: str) -> str:
    """The text as it is compared: one case, one width, one space between words, no punctuation at its end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).strip(" .,;:!?。，；：！？、\"'“”‘’")


@remembered(4_000_000)
def words(text: str) -> tuple[str, ...]:
    """What a text says, word by word in its order."""
    folded = _NOT.sub(" not", normal(text))
    found: list[str] = []
    at = 0
    for run in _CJK.finditer(folded):
        found += _plain(folded[at : run.start()])
        found += terms(_EMPTY_ZH.sub("", run[0]))
        at = run.end()
    return (*found, *_plain(folded[at:]))


def _plain(text: str) -> list[str]:
    return [term for word in _WORD.findall(text) if word not in _EMPTY for term in (terms(word) or [word])]


def covers(whole: str, part: str) -> bool:
    """Whether `whole` says all that `part` says, in the same words one after the other and with no negation more."""
    if normal(whole) == normal(part):
        return True
    held, wanted = words(whole), words(part)
    if not wanted or _negations(held) != _negations(wanted):
        return False
    return _run(wanted) in _run(held)


def _run(found: tuple[str, ...]) -> str:
    """Words as one text in which no word begins or ends inside another: a search in it takes as long as both are."""
    return "\0".join(("", *found, ""))


def alike(one: str, other: str) -> bool:
    """Whether both say the same."""
    return covers(one, other) and covers(other, one)


def likeness(one: str, other: str) -> float:
    """The share of their words that two texts have in common, 0..1; 1 only for texts that say the same."""
    if alike(one, other):
        return 1.0
    held, wanted = set(words(one)), set(words(other))
    return min(0.99, len(held & wanted) / len(held | wanted)) if held and wanted else 0.0


_NEGATIONS = frozenset("not no never nor without cannot".split())  # noqa: SIM905


def _negations(found: tuple[str, ...]) -> int:
    return sum(word in _NEGATIONS for word in found)
