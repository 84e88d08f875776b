"""What a user laid down in words of their own, and whether a context still says it.

Sentences are found by the words that rules are made of, in English and Chinese: crude, but the same for everybody.
"""

import re
from collections.abc import Sequence

LONGEST = 300
"""Characters of a sentence that is looked at; what is longer is pasted material rather than a rule."""

TOLD = 0.6
"""The share of a rule's words that must stand in one line of a context for it to be told in other words."""

_RULE = re.compile(
    r"\b(?:must|never|always|only|do ?n[o']t|don[’']t|should ?n[o']t|can ?n[o']t|no need|make sure|ensure|avoid|"
    r"not allowed|at (?:most|least)|instead of|without)\b|"
    r"不要|不得|不能|不许|不可|必须|务必|只能|禁止|一定要|请勿|避免",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_WORD = re.compile(r"[^\W\d_]{4,}|[\u4e00-\u9fff]")


def laid_down(texts: Sequence[str]) -> list[str]:
    """The sentences of a user's messages that lay something down, each once, oldest first."""
    found = (" ".join(sentence.split()) for text in texts for sentence in _SENTENCE.split(text))
    return list(dict.fromkeys(one for one in found if 0 < len(one) <= LONGEST and _RULE.search(one)))


def verbatim(rule: str, texts: Sequence[str]) -> bool:
    """Whether the sentence stands in a context as it was said; spaces do not matter."""
    return any(rule in " ".join(text.split()) for text in texts)


def told(rule: str, texts: Sequence[str]) -> bool:
    """Whether one line of a context holds most words of the sentence, in whatever order."""
    wanted = {word.lower() for word in _WORD.findall(rule)}
    lines = (line for text in texts for line in text.split("\n"))
    need = max(1, TOLD * len(wanted))
    return verbatim(rule, texts) or any(
        len(wanted & {w.lower() for w in _WORD.findall(line)}) >= need for line in lines
    )
