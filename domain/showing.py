"""A message of the history as a prompt shows it: as it came, but for secrets, reasoning that another model signed, and
a heading over material that came back on request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from domain.counting import Counter
from domain.events import ImagePart, Part, TextPart
from domain.masking import Masker, mask_keys, masked_call, masked_parts, masker
from domain.rendering.neutral import Neutral, from_message, may_reason, text_of
from domain.rows import Message, OpenCall
from domain.state import ContextState
from domain.text import harmless, inline
from domain.wording import WORDINGS

REMEMBERED = 4_096
"""Messages whose form is remembered, and tokens from which one is too large for it."""


class Showing:
    """How one compile shows messages, each with the tokens that it adds to the payload."""

    def __init__(self, state: ContextState, count: Counter, locale: str, model: str | None) -> None:
        self.open_calls: Mapping[str, OpenCall] = state.tables["open_calls"]
        self._count = count
        self._words = WORDINGS[locale]
        self._model = model
        self._session_model = info.model if (info := state.one("session")) else None
        self._mask = masker(state)

    def message(self, message: Message) -> tuple[Neutral, int]:
        tokens = self._count.message(message)
        shown = self._masked(message, tokens)
        if message.reasoning and not may_reason(message, self._session_model, self._model):
            shown = replace(shown, reasoning=())
        elif not shown.masked and not message.reference:
            return shown, tokens
        if message.reference:
            shown = replace(shown, parts=self._reference(shown.parts, message.name or ""))
        return shown, self._count.neutral([shown])

    def _masked(self, message: Message, tokens: int) -> Neutral:
        if self._mask is not mask_keys:
            return _masked(message, self._mask)
        small = tokens <= REMEMBERED and not any(isinstance(part, ImagePart) for part in message.parts)
        return _remembered(_Same(message)) if small else _masked(message, mask_keys)

    def _reference(self, parts: Sequence[Part], name: str) -> tuple[Part, ...]:
        heading: Part = TextPart(type="text", text=self._words.expanded.format(id=inline(name)))
        shown = (
            TextPart(type="text", text=harmless(text_of(one))) if isinstance(one, TextPart) else one for one in parts
        )
        return heading, *shown

    def missing_answer(self, call_id: str, message: Message) -> tuple[Neutral, int]:
        """What stands for the answer of a call that has none, so that no format ever sees an orphan."""
        call = self.open_calls.get(call_id)
        pending = call is not None and not call.dead
        text = self._words.pending if pending else self._words.no_result
        made = Neutral(
            "tool", "window", (TextPart(type="text", text=text),), answers=call_id, status="ok" if pending else "error",
            sources=(message.event_id,), unit=message.unit,
        )  # fmt: skip
        return made, self._count.neutral([made])


def _masked(message: Message, mask: Masker) -> Neutral:
    plain = from_message(message, "window")
    parts = masked_parts(message.parts, mask)
    calls = tuple([masked_call(call, mask) for call in message.calls])
    if parts is message.parts and calls == message.calls:
        return plain
    return replace(plain, parts=parts, calls=calls, masked=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A message as a key: the very same object, so that none need be compared."""

    message: Message

    def __hash__(self) -> int:
        return id(self.message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.message is other.message


@lru_cache(REMEMBERED)
def _remembered(key: _Same) -> Neutral:
    return _masked(key.message, mask_keys)
