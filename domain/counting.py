"""Tokens of messages and payloads in one encoding and one format.

The text counter is passed in; it counts as `encode_ordinary` does, so that special-token text is ordinary text.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from domain import rendering
from domain.rendering.neutral import Neutral, from_message
from domain.requests import Format
from domain.rows import Message, Tool

COUNTING = 2
"""Version of the rules below: raised whenever a message may count otherwise, so that counts stored before go unused."""


class Counter:
    """Counts for one encoding and format. `stored` maps event ids to counts that were made before.

    `factor` is at least 1: above 1 the encoding stands in for a tokenizer that is not public, and a budget of n
    tokens holds n / factor of ours. `base` is what a payload costs before its first message.
    """

    def __init__(
        self,
        count_text: Callable[[str], int],
        encoding: str,
        target: Format,
        factor: float = 1.0,
        stored: Mapping[str, int] | None = None,
    ) -> None:
        self.text = count_text
        self.encoding = encoding
        self.format: Format = target
        self.factor = factor
        self._known: dict[str, int] = dict(stored or {})
        self._base = self._probe(1)
        self.base = 2 * self._base - self._probe(2)

    def _probe(self, times: int) -> int:
        return self.payload(rendering.render([_PROBE] * times, (), self.format))

    @property
    def key(self) -> str:
        """Under what the counts of this counter may be stored."""
        return f"{self.encoding}/{self.format}/{COUNTING}"

    def limit(self, budget: int) -> int:
        """How many tokens of this encoding a budget of the model's tokens holds."""
        return math.floor(round(budget / self.factor, 6))

    def scaled(self, tokens: int) -> int:
        """Tokens of this encoding as tokens of the model, rounded up."""
        return math.ceil(round(tokens * self.factor, 6))

    def message(self, message: Message) -> int:
        """What the message adds to a payload."""
        known = self._known.get(message.event_id)
        if known is None:
            known = self._known[message.event_id] = self.neutral([from_message(message, "window")])
        return known

    def neutral(self, messages: Sequence[Neutral]) -> int:
        """What these messages add to a payload that holds others."""
        return self.payload(rendering.render([_PROBE, *messages], (), self.format), messages) - self._base

    def payload(self, payload: dict[str, Any], messages: Sequence[Neutral] = ()) -> int:
        """All tokens of a payload that was rendered from these messages."""
        return rendering.count(payload, self.format, self.text, messages)

    def tools(self, tools: Sequence[Tool]) -> int:
        """What the tool schemas add to a payload."""
        return self.payload(rendering.render([_PROBE], tools, self.format)) - self._base


_PROBE = Neutral(role="user", zone="probe")
