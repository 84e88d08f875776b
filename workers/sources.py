"""Sources that users register: asked at the same time, each within the time limit, each failing on its own account."""

import threading
import time
from collections.abc import Sequence

from domain.modes import SlotSpec
from domain.sources import ContextSource, SourceItem, SourceResult

TIME_LIMIT = 2.0


class SourceRegistry:
    """The registered sources by name."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self.time_limit = time_limit
        self._sources: dict[str, ContextSource] = {}

    def register(self, source: ContextSource) -> None:
        self._sources[source.name] = source

    def unregister(self, name: str) -> None:
        self._sources.pop(name, None)

    def fetch(self, query: str, slots: Sequence[SlotSpec]) -> tuple[SourceResult, ...]:
        """What every source has for every slot it supports, by name and slot: the order of registration is no input.

        One that fails or is late gives an error instead of items.
        """
        asked = [
            (source, spec, _Asking(source, query, spec))
            for _, source in sorted(self._sources.items())
            for spec in slots
            if _supports(source, spec)
        ]
        until = time.monotonic() + self.time_limit
        for _, _, asking in asked:
            asking.start()
        for _, _, asking in asked:
            asking.join(max(0.0, until - time.monotonic()))
        return tuple(self._result(source.name, spec, asking) for source, spec, asking in asked)

    def _result(self, name: str, spec: SlotSpec, asking: "_Asking") -> SourceResult:
        if asking.is_alive():
            return SourceResult(name, spec.slot, error=f"gave no answer within {self.time_limit:g} s")
        return SourceResult(name, spec.slot, asking.items, asking.error)


class _Asking(threading.Thread):
    """One question to one source. A thread of its own, for one that never answers must not keep others from asking."""

    def __init__(self, source: ContextSource, query: str, spec: SlotSpec) -> None:
        super().__init__(name=f"promptctx-source-{source.name}", daemon=True)
        self._source, self._query, self._spec = source, query, spec
        self.items: tuple[SourceItem, ...] = ()
        self.error: str | None = None

    def run(self) -> None:
        try:
            self.items = tuple(map(_checked, self._source.fetch(self._query, self._spec)))
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"


def _supports(source: ContextSource, spec: SlotSpec) -> bool:
    """A source that cannot even say is asked all the same: then the report tells what is wrong with it."""
    try:
        return source.supports(spec.slot)
    except Exception:
        return True


def _checked(item: object) -> SourceItem:
    if not isinstance(item, SourceItem):
        raise TypeError(f"gave a {type(item).__name__} where SourceItem is due")
    return item
