"""Strategies that users register for the trim policies of their modes: pure functions, each within a time limit."""

import re
import threading
from collections.abc import Mapping

from domain.errors import InvalidRequest
from domain.policies import STRATEGY_NAME, SUPERSEDED, TEXT_STRATEGIES, UNIT_STRATEGIES, Shrink

TIME_LIMIT = 2.0


class StrategyRegistry:
    """The registered strategies by name."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self.time_limit = time_limit
        self._strategies: dict[str, Shrink] = {}

    def register(self, name: str, shrink: Shrink) -> None:
        """From now on rules may say `use = name`. Raises InvalidRequest for a name that is taken or is none."""
        if not re.fullmatch(STRATEGY_NAME, name):
            raise InvalidRequest(f"{name!r} can't name a strategy: use small letters, digits, - and _.", name=name)
        if name in (*TEXT_STRATEGIES, *UNIT_STRATEGIES, SUPERSEDED):
            raise InvalidRequest(f"The strategy {name!r} is built in; choose another name.", name=name)
        self._strategies[name] = shrink

    def unregister(self, name: str) -> None:
        self._strategies.pop(name, None)

    def registered(self) -> Mapping[str, Shrink]:
        """The strategies as a compile may call them: one that never ends raises TimeoutError."""
        return {name: self._limited(shrink) for name, shrink in self._strategies.items()}

    def _limited(self, shrink: Shrink) -> Shrink:
        def within(text: str, limit: int) -> str:
            call = _Call(shrink, text, limit)
            call.start()
            call.join(self.time_limit)
            if call.is_alive():
                raise TimeoutError(f"gave no answer within {self.time_limit:g} s")
            if call.error is not None:
                raise call.error
            return call.found

        return within


class _Call(threading.Thread):
    """One call of one strategy, in a thread of its own: one that never ends must not keep the compile."""

    def __init__(self, shrink: Shrink, text: str, limit: int) -> None:
        super().__init__(name="promptctx-strategy", daemon=True)
        self._shrink, self._text, self._limit = shrink, text, limit
        self.found = ""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.found = self._shrink(self._text, self._limit)
        except Exception as error:
            self.error = error
