"""Statements that users make about themselves, in English and Chinese: a name, a place, a liking, how to be answered.

A statement begins its clause. Questions, conditions, quotations and what is said of others are none.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from domain.memorising.deciding import Candidate

USER = "user"
LONGEST = 2_000
"""Characters of a message that may hold a statement: what is longer was pasted."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|[;\n]+")
_CLAUSE = re.compile(
    r"[,，、](?!\d)|\s+(?:and|but)\s+(?=(?:i|i'm|my|you can call me|call me|from now on|going forward)\b)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"[?？]\s*$|[吗呢么]\s*[。.!！]?$|^(?:do|does|did|what|where|who|how|why|is|are|can|could)\b", re.IGNORECASE
)
_SUPPOSES = re.compile(
    r"^\W*(?:if|suppose|imagine|assume|pretend|say|when|whenever)\b|如果|假如|假设|要是|比如", re.IGNORECASE
)
_OPENING = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|well|so|and|also|btw|by the way|actually|fyi|sorry|no|yes|anyway|please note that|"
    r"for the record|just so you know|in fact)\b[\s,!:]*"
    r"|(?:你好|您好|嗨|对了|另外|顺便说一下|其实|是的|那么|不过|但是|而且)[，,！!\s]*)+",
    re.IGNORECASE,
)
_ENDS = " \t.!。！~～…\"'”’)）"

_NAME = r"[^\W\d_][\w'’.-]{0,30}(?: [^\W\d_][\w'’.-]{0,30}){0,3}"
_NAME_ZH = r"[\u4e00-\u9fff·]{1,6}|[A-Za-z][\w .'-]{0,30}"
_NO_NAME = re.compile(r"(?i:a|an|the|not|when|if|back|later|tomorrow|tonight|again|crazy|on|at|in|by|whatever)\b")
_NO_NAME_ZH = re.compile("[了你他她它们着过]|外卖|什么|别|不")
_PLACE = r"(?:the )?[^\W\d_a-z][\w'’.-]*(?:,? (?:of |de |la |am |an der |upon )?[^\W\d_a-z][\w'’.-]*){0,4}"
_PLACE_ENDS = re.compile(
    r"\s+(?:now|since|with|for|because|last|this|but|where|so|at|on|near|again)\b.*$", re.IGNORECASE
)
_THING = r"\S.{0,80}?"
_NO_THING = re.compile(
    r"(?:that|this|these|those|it|them|him|her|you|your|the|what|how|when|to (?:know|see|ask|book|get|have|return)|one"
    r"|both|all|neither|option)\b|[这那你您它他她哪什谁]",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\s+(?:over|to|rather than|instead of|more than|because|since|so|when|but|any ?more)\b.*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Pattern:
    told: re.Pattern[str]
    made: Callable[[re.Match[str]], Candidate | None]


def _of_name(found: re.Match[str]) -> Candidate | None:
    name = found["name"].strip(_ENDS)
    if not name or _NO_NAME.match(name):
        return None
    return _fact(f"The user's name is {name}", "name", name, "identity", 0.9)


def _of_name_zh(found: re.Match[str]) -> Candidate | None:
    name = found["name"].strip(_ENDS)
    if not name or _NO_NAME_ZH.search(name):
        return None
    return _fact(f"用户叫{name}", "name", name, "identity", 0.9)


def _of_place(found: re.Match[str]) -> Candidate | None:
    place = _PLACE_ENDS.sub("", found["place"]).strip(_ENDS)
    return _fact(f"The user lives in {place}", "lives in", place, "identity", 0.8)


def _of_place_zh(found: re.Match[str]) -> Candidate | None:
    place = found["place"].removesuffix("了").strip(_ENDS)
    if not place or _NO_THING.match(place):
        return None
    return _fact(f"用户住在{place}", "lives in", place, "identity", 0.8)


def _of_liking(found: re.Match[str]) -> Candidate | None:
    thing = _MORE.sub("", found["thing"]).strip(_ENDS)
    if not thing or _NO_THING.match(thing):
        return None
    likes = _likes(found, ("hate", "dislike", "can't stand", "cannot stand"))
    if likes is None:
        return None
    verb = "likes" if likes else "does not like"
    return _fact(f"The user {verb} {thing}", f"prefers: {thing.lower()}", _OPINION[likes], "preference", 0.7)


_OPINION = {True: "likes", False: "dislikes"}


def _likes(found: re.Match[str], against: Sequence[str]) -> bool | None:
    """None for who does not hate something, and need not like it."""
    hates = found["verb"].lower() in against
    return None if hates and found["not"] else not hates and not found["not"]


def _of_liking_zh(found: re.Match[str]) -> Candidate | None:
    thing = found["thing"].removesuffix("了").strip(_ENDS)
    if not thing or _NO_THING.match(thing):
        return None
    likes = _likes(found, ("讨厌",))
    if likes is None:
        return None
    verb = "喜欢" if likes else "不喜欢"
    return _fact(f"用户{verb}{thing}", f"prefers: {thing.lower()}", _OPINION[likes], "preference", 0.7)


def _of_language(found: re.Match[str]) -> Candidate | None:
    language = found["language"].strip(_ENDS)
    return _fact(found.string.strip(), "answer language", language, "preference", 0.8)


def _fact(text: str, predicate: str, told: str, category: str, importance: float) -> Candidate:
    return Candidate(text, category=category, importance=importance, subject=USER, predicate=predicate, object=told)


_LANGUAGES = "English|Chinese|German|French|Spanish|Japanese|Korean|Portuguese|Italian|Russian|Arabic|Dutch|Norwegian"
_PATTERNS = (
    _Pattern(re.compile(rf"(?i:my name is|my name's|i am called|i'm called) (?P<name>{_NAME})$"), _of_name),
    _Pattern(re.compile(rf"(?i:(?:please |you can |just )*call me) (?P<name>(?=[A-Z]){_NAME})(?: please)?$"), _of_name),
    _Pattern(
        re.compile(rf"(?:我叫|我的名字[叫是]|(?:请|可以|就)*叫我)(?P<name>{_NAME_ZH}?)(?:就好|就行|吧|即可)?$"),
        _of_name_zh,
    ),
    _Pattern(
        re.compile(
            rf"(?i:i(?:'m| am)?(?: now| currently| still)? (?:live|living|based) in"
            rf"|i(?:'ve| have)?(?: just| recently| now)? (?:moved|relocated) to) (?P<place>{_PLACE})(?i:\s+.*)?$"
        ),
        _of_place,
    ),
    _Pattern(
        re.compile(r"我(?:现在|目前|一直|还)?(?:住在|(?:已经|刚|刚刚)?(?:搬到|搬去|搬家到)了?)(?P<place>\S{1,20})$"),
        _of_place_zh,
    ),
    _Pattern(
        re.compile(
            r"(?i:i(?: really| also| still)*(?P<not> no longer| don't| do not| don’t)?(?: really)? (?P<verb>love|like|"
            rf"prefer|enjoy|hate|dislike|can't stand|cannot stand)) (?P<thing>{_THING})$"
        ),
        _of_liking,
    ),
    _Pattern(
        re.compile(
            r"我(?:现在|一直|真的|也|还是|其实)*(?P<not>不再|不太|不|没那么)?(?:更|最|很|非常|特别|比较|挺)?"
            r"(?P<verb>喜欢|偏爱|偏好|讨厌|爱(?=[吃喝看听玩]))(?P<thing>\S{1,20})$"
        ),
        _of_liking_zh,
    ),
    _Pattern(
        re.compile(
            r"(?i:please )?(?i:answer|reply|respond|write)(?i: to me| me)?(?i: only| always)? in "
            rf"(?P<language>(?i:{_LANGUAGES}))$"
        ),
        _of_language,
    ),
    _Pattern(
        re.compile(
            r"(?:请|都|要)*用(?P<language>[中英德法日韩俄][文语])(?:来)?(?:回答|回复|答复|说|写)(?:我|我的问题)?$"
        ),
        _of_language,
    ),
)  # fmt: skip


def sentences(text: str) -> Iterator[str]:
    """The sentences that may hold a statement: no questions, no suppositions, nothing quoted."""
    if len(text) > LONGEST:
        return
    for one in _SENTENCE.split(text):
        told = one.strip()
        if told and not _ASKS.search(told) and not _SUPPOSES.search(told) and told[0] not in ">\"'“‘「`|#":
            yield opened(told)


def opened(told: str) -> str:
    """Without the words that only lead to it."""
    return _OPENING.sub("", told.strip()).strip()


def statements(sentence: str) -> Iterator[Candidate]:
    """What a sentence states of who says it."""
    for clause in _CLAUSE.split(sentence):
        if (found := stated(clause)) is not None:
            yield found


def seams(sentence: str) -> list[tuple[int, int]]:
    """Where one clause ends and the next one begins, the first of them included."""
    return [(0, 0), *(found.span() for found in _CLAUSE.finditer(sentence))]


def first_clause(sentence: str) -> tuple[str, str]:
    """The first clause, and the others."""
    first, *others = _CLAUSE.split(sentence, maxsplit=1)
    return first, "".join(others)


def stated(clause: str) -> Candidate | None:
    told = opened(clause).strip(_ENDS)
    for pattern in _PATTERNS:
        found = pattern.told.match(told)
        if found is not None and (made := pattern.made(found)) is not None:
            return made
    return None


_LIVING = re.compile(r"where i live|my (?:address|city|home)\b|我住(?:在)?哪里?|我的(?:地址|城市)", re.IGNORECASE)
_NAMED = re.compile(r"my name|what i am called|我的名字|我叫什么", re.IGNORECASE)


def withdrawn(told: str) -> Candidate:
    """What is to be forgotten: the statement that it names, else whatever says the same."""
    found = stated(told)
    if found is not None:
        return replace(found, withdrawn=True)
    for pattern, predicate in ((_LIVING, "lives in"), (_NAMED, "name")):
        if pattern.match(told):
            return Candidate(told, subject=USER, predicate=predicate, withdrawn=True)
    return Candidate(told, withdrawn=True)
