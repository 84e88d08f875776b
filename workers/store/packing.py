"""Packing of snapshots: compressed JSON that refers to what the store holds already.

Most of a prompt is said by events of its session: their ids and texts are named by seq. Any other long text is a row of
its own, by hash, once per session, for consecutive prompts say mostly the same. Other event ids, which no compression
makes smaller, are kept as their 16 bytes in front, where an erasure finds them.

What repeats pieces of such a text, as a layout does of the summary in its prompt, is compressed with that text as the
dictionary: the pieces cost two or three bytes each. The first of its hashes is that text's then.
"""

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workers.store.log import unpack_id

LONG = 160
"""Characters from which a text is not repeated."""

LEVEL = 6

_MARK = "\x01"
_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_HEADER = struct.Struct(">II")
_HASH = 16
_REACH = 32_768
"""Bytes that the compression looks back."""
_HAS_DICTIONARY = 0x20
"""In the second byte of what is compressed with one."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the log holds of a message: its place in the session, and the text of each of its content parts."""

    seq: int
    texts: Sequence[str | None] = ()


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_HASH]


def pack(value: Any, log: Mapping[str, Said], dictionary: str | None = None) -> tuple[bytes, dict[bytes, str]]:
    """The packed JSON value, and the texts by hash that it refers to. `log` holds events of the session by id;
    `dictionary` is a text that it repeats pieces of."""
    known = _references(log)
    texts: dict[bytes, tuple[int, str]] = {}
    if dictionary is not None:
        texts[text_hash(dictionary)] = 0, dictionary
    ids: dict[str, int] = {}

    def word(text: str) -> str:
        found = known.get(text)
        if found is None:
            if len(text) >= LONG:
                place, _ = texts.setdefault(text_hash(text), (len(texts), text))
                found = f"{_MARK}t{place}"
            elif len(text) == 36 and _UUID(text):
                found = known[text] = f"{_MARK}u{ids.setdefault(text, len(ids))}"
            else:
                found = f"{_MARK}s{text}" if text[:1] == _MARK else text
        return found

    body = _compressed(_spell(_mapped(value, word, known)).encode("utf-8", "surrogatepass"), dictionary)
    head = _HEADER.pack(len(texts), len(ids))
    named = b"".join(texts) + b"".join(bytes.fromhex(one.replace("-", "")) for one in ids)
    return head + named + body, {key: text for key, (_, text) in texts.items()}


def _compressed(data: bytes, dictionary: str | None) -> bytes:
    if dictionary is None:
        return zlib.compress(data, LEVEL)
    made = zlib.compressobj(LEVEL, zdict=_zdict(dictionary))
    return made.compress(data) + made.flush()


def _zdict(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")[-_REACH:]


def _references(log: Mapping[str, Said]) -> dict[str, str]:
    """What stands for the ids and the long texts of these events."""
    known = {name: f"{_MARK}e{one.seq}" for name, one in log.items()}
    for one in log.values():
        for place, text in enumerate(one.texts):
            if text is not None and len(text) >= LONG:
                known[text] = f"{_MARK}x{one.seq}.{place}"
    return known


class Unreadable(ValueError):
    """A packed value refers to something that can no longer be read."""


Place = bytes | tuple[int, int | None]
"""Where a text is stored: under its hash, or as a content part of an event of the session; None for the event's id."""


@dataclass(frozen=True)
class Packed:
    """A packed value opened: what it refers to, and the JSON text in which the references stand."""

    hashes: list[bytes]
    ids: list[str]
    text: str

    @cached_property
    def skeleton(self) -> Any:
        return json.loads(self.text)

    @cached_property
    def _pieces(self) -> list[str]:
        """The text cut around its references: every second piece is one."""
        return _REFERENCE.split(self.text)

    @cached_property
    def _named(self) -> set[str]:
        return set(self._pieces[1::2])

    def seqs(self) -> set[int]:
        """The events of the session that it names."""
        return {_number(one) for one in self._named if one[_KIND] in "ex"}

    def quoted(self) -> set[int]:
        """The events of the session whose texts it needs."""
        return {_number(one) for one in self._named if one[_KIND] == "x"}

    def places(self) -> set[int]:
        """Which of `ids` it names."""
        return {_number(one) for one in self._named if one[_KIND] == "u"}

    def place_of(self, text: str) -> str | Place:
        """What a text in the skeleton stands for, or where that is stored."""
        if text[:1] != _MARK:
            return text
        kind, rest = text[1], text[2:]
        if kind in "ex":
            seq, _, place = rest.partition(".")
            return int(seq), int(place) if place else None
        if kind == "u":
            return self.ids[int(rest)]
        return self.hashes[int(rest)] if kind == "t" else rest

    def part(self, name: str) -> "Packed":
        """One field of it."""
        return Packed(self.hashes, self.ids, _spell(self.skeleton[name]))

    def filled(self, texts: Mapping[bytes, str], log: Mapping[int, tuple[str, Sequence[str | None]]]) -> str:
        """The JSON text of the value that was packed. `log` has the id of each event that it names by seq, and the
        texts of those that it quotes. References are put in as text, for parsing it then is faster than a walk."""

        def said(one: str) -> str:
            kind, rest = one[_KIND], one[_KIND + 1 : -1]
            if kind == "e":
                return f'"{log[int(rest)][0]}"'
            if kind == "x":
                seq, _, place = rest.partition(".")
                texts_of = log[int(seq)][1]
                if int(place) >= len(texts_of):
                    raise Unreadable(f"what seq {seq} said is gone")
                return _spell(texts_of[int(place)] or "")
            if kind == "u":
                return f'"{self.ids[int(rest)]}"'
            return _spell(texts[self.hashes[int(rest)]]) if kind == "t" else f'"{rest}"'

        known = {one: said(one) for one in self._named}
        pieces = list(self._pieces)
        pieces[1::2] = map(known.__getitem__, pieces[1::2])
        return "".join(pieces)

    def value(self, texts: Mapping[bytes, str], log: Mapping[int, tuple[str, Sequence[str | None]]]) -> Any:
        """The value that was packed."""
        return json.loads(self.filled(texts, log))


# A quote before the mark opens a string, unless it is escaped: what follows a closing one is never a mark. A string
# before a colon is a key, and keys stay as they are.
_REFERENCE = re.compile(
    r"""((?<!\\)"\\u0001(?:[etu]\d+|x\d+\.\d+|s[^"\\]*(?:\\.[^"\\]*)*)"(?!:))""", re.DOTALL | re.ASCII
)
_KIND = len('"\\u0001')


def _number(reference: str) -> int:
    return int(reference[_KIND + 1 : -1].partition(".")[0])


def opened(packed: bytes, texts: Mapping[bytes, str] | None = None) -> Packed:
    """`texts` has the dictionary, if there is one. Raises Unreadable when it is not there."""
    hashes, count = reference_hashes(packed), _HEADER.unpack_from(packed)[1]
    start = _HEADER.size + len(hashes) * _HASH
    ids = [unpack_id(packed[start + at * 16 : start + (at + 1) * 16]) for at in range(count)]
    body, with_text = packed[start + count * 16 :], dictionary_hash(packed)
    if with_text is None:
        return Packed(hashes, ids, zlib.decompress(body).decode("utf-8", "surrogatepass"))
    if not texts or with_text not in texts:
        raise Unreadable("the text that it was compressed with is gone")
    found = zlib.decompressobj(zdict=_zdict(texts[with_text])).decompress(body)
    return Packed(hashes, ids, found.decode("utf-8", "surrogatepass"))


def dictionary_hash(packed: bytes) -> bytes | None:
    """The hash of the text that a value was compressed with, if it was with any."""
    texts, ids = _HEADER.unpack_from(packed)
    flags = packed[_HEADER.size + texts * _HASH + ids * 16 + 1]
    return packed[_HEADER.size : _HEADER.size + _HASH] if flags & _HAS_DICTIONARY else None


SAMPLES, TELLING = 16, 24
"""How many strings of a value are looked for in texts, and from how many characters on one tells anything."""


def repeated(value: Any, texts: Sequence[str]) -> str | None:
    """Which of these texts the value repeats pieces of, if any."""
    pieces = [one for one in strings(value) if len(one) >= TELLING and not _UUID(one)]
    pieces = pieces[:: len(pieces) // SAMPLES + 1]
    hits = [(sum(piece in text for piece in pieces), text) for text in texts]
    best, text = max(hits, default=(0, ""))
    return text if best else None


def strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value but its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def reference_hashes(packed: bytes) -> list[bytes]:
    """The hashes of the texts that a packed value refers to."""
    count, _ = _HEADER.unpack_from(packed)
    start = _HEADER.size
    return [packed[start + at * _HASH : start + (at + 1) * _HASH] for at in range(count)]


def squeeze(data: bytes) -> bytes:
    """Compressed if that makes it smaller, or if it begins as what is compressed does."""
    marked = data[:1] == b"x"
    if len(data) < LONG and not marked:
        return data
    small = zlib.compress(data, LEVEL)
    return small if marked or len(small) < len(data) else data


def unsqueeze(data: bytes) -> bytes:
    return zlib.decompress(data) if data[:1] == b"x" else data


_NOTHING: Mapping[str, str] = {}
_ATOMS = frozenset({int, float, bool, type(None)})
SHORT = 36
"""Characters of an id: a shorter text is never replaced, unless it begins as a replaced one does."""


def _mapped(value: Any, word: Callable[[str], str], known: Mapping[str, str] = _NOTHING) -> Any:
    """The value with every string that may matter passed through `word`; keys stay. `known` is what `word` has said."""
    kind = type(value)
    if kind is str:
        return word(value) if len(value) >= SHORT or value[:1] == _MARK else value
    if kind is dict:
        return {
            key: item if type(item) in _ATOMS or (type(item) is str and len(item) < SHORT and item[:1] != _MARK)
            else _mapped(item, word, known)
            for key, item in value.items()
        }  # fmt: skip
    if kind is list or kind is tuple:
        return [
            item if type(item) in _ATOMS
            else known.get(item) or _mapped(item, word, known) if type(item) is str
            else _mapped(item, word, known)
            for item in value
        ]  # fmt: skip
    return value
