"""Refining: a model is asked to put a query in other words, and which of the passages found answer it best.

Each is off unless it was asked for. A prompt waits so many seconds for both together and not longer; whatever fails,
the query and the order that words and meaning gave are good enough.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from domain.answers import Malformed
from domain.masking import masker
from domain.recall import refining
from domain.recall.refining import CANDIDATES
from domain.sources import SourceItem
from workers.engine import models
from workers.engine.contexts import Loaded, Pins
from workers.engine.deps import Deps
from workers.llm import ModelFailed, Prompt, Within
from workers.store import streams

Read = TypeVar("Read")

REWRITE, RERANK = "rewrite", "rerank"
LIMIT = 400
"""Tokens that an answer may have."""


class Refining:
    """What a model is asked for one prompt of a session. `notes` tell what the prompt went without."""

    def __init__(self, deps: Deps, pins: Pins, loaded: Loaded) -> None:
        self._deps, self._pins, self._loaded = deps, pins, loaded
        self._mask = masker(loaded.context.session)
        self._left = deps.recall_seconds
        self.notes: list[str] = []

    @property
    def candidates(self) -> int:
        """How many passages there should be to choose from."""
        return CANDIDATES if self._prompt(RERANK) else 0

    @property
    def model(self) -> str:
        """Who told the order: its name, and the prompt it was asked with."""
        prompt = self._prompt(RERANK)
        return f"{self._deps.model.name} {prompt.hash[:16]}" if self._deps.model and prompt else ""

    def queries(self) -> tuple[str, ...]:
        """What to look for besides the query."""
        context = self._loaded.context
        said = [message for unit in context.history.recent for message in unit.messages]
        text = refining.other_words(context.query, said, self._mask)
        return self._ask(REWRITE, text, refining.read_queries, "other words for the query") or ()

    def ordered(self, items: Sequence[SourceItem]) -> list[SourceItem] | None:
        """The items, those first that answer the query best; None where no model said so."""
        if len(items) < 2:
            return None
        text = refining.which(self._loaded.context.query, items, self._mask)
        order = self._ask(RERANK, text, lambda answer: refining.read_order(answer, items), "an order by the model")
        return refining.reordered(items, order) if order else None

    def _stream(self) -> int:
        with self._deps.database.read(self._pins.tenant) as unit:
            row = streams.get(unit, self._pins.tenant, self._pins.heads["session"]["stream"])
        return row.number if row else 0

    def _prompt(self, task: str) -> Prompt | None:
        return self._deps.prompts.get(task) if self._deps.model else None

    def _ask(self, task: str, text: str, read: Callable[[str], Read], what: str) -> Read | None:
        prompt, model = self._prompt(task), self._deps.model
        if prompt is None or model is None:
            return None
        if self._deps.rest.is_on:
            self.notes.append(f"without {what}: the model did not answer a moment ago")
            return None

        def heard(answer: str) -> Read:
            try:
                return read(answer)
            except Malformed:
                raise ModelFailed("the answer is not what was asked for") from None

        begun, hurried = time.monotonic(), Within(model, self._left)
        try:
            stream = self._stream()
            return models.ask(self._deps, hurried, self._pins.tenant, stream, task, prompt.text, text, LIMIT, heard)
        except ModelFailed as failed:
            if failed.away:
                self._deps.rest.begin()
            self.notes.append(f"without {what}: {failed.reason}")
            return None
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - begun))
