"""Sources that users register: asked at the same time, each within the time limit, each failing on its own account."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

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
            (name, spec)
            for name, source in sorted(self._sources.items())
            for spec in slots
            if source.supports(spec.slot)
        ]
        if not asked:
            return ()
        # Not a `with` block: leaving one would wait for the slow source after all.
        pool = ThreadPoolExecutor(len(asked), thread_name_prefix="promptctx-source")
        futures = [pool.submit(self._sources[name].fetch, query, spec) for name, spec in asked]
        wait(futures, self.time_limit)
        pool.shutdown(wait=False, cancel_futures=True)
        return tuple(self._result(name, spec, future) for (name, spec), future in zip(asked, futures, strict=True))

    def _result(self, name: str, spec: SlotSpec, future: "Future[Sequence[SourceItem]]") -> SourceResult:
        if not future.done():
            return SourceResult(name, spec.slot, error=f"gave no answer within {self.time_limit:g} s")
        if error := future.exception():
            return SourceResult(name, spec.slot, error=f"{type(error).__name__}: {error}")
        try:
            return SourceResult(name, spec.slot, tuple(_checked(item) for item in future.result()))
        except TypeError as error:
            return SourceResult(name, spec.slot, error=str(error))


def _checked(item: object) -> SourceItem:
    if not isinstance(item, SourceItem):
        raise TypeError(f"gave a {type(item).__name__} where SourceItem is due")
    return item
