"""What was used last, kept in memory within bounds."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """At most `count` values, whose sizes together stay within `size`; what was not used for longest goes first. For
    values that are never changed. Thread-safe."""

    def __init__(self, count: int, size: int = 0) -> None:
        self._count, self._size = count, size
        self._lock = threading.Lock()
        self._found: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._used = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            if (found := self._found.get(key)) is None:
                return None
            self._found.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int = 0) -> None:
        if size > self._size // 2:
            return
        with self._lock:
            self._used += size - self._found.pop(key, (None, 0))[1]
            self._found[key] = value, size
            while len(self._found) > self._count or self._used > self._size:
                self._used -= self._found.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._used = 0
