"""What the engine is given: nothing in it is made by the engine itself, so that tests pass in what they like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from domain.memorising.caring import LIFETIMES
from domain.modes import BUILTIN_MODES, ModeSpec
from workers.clock import Clock, SystemClock
from workers.dumps import Dumps
from workers.engine.meanings import Meanings
from workers.engine.shelves import Shelves
from workers.engine.signals import Signals
from workers.engine.states import FoldCache, StateCache
from workers.llm import Model, Prompt, Rest
from workers.sources import SourceRegistry
from workers.store import Database
from workers.store.work import LEASE
from workers.strategies import StrategyRegistry
from workers.tokens import Tokens


class Ringer(Protocol):
    """The doorbell: best effort, after the commit. A lost ring costs seconds, since the work row is the queue.

    `at_once` tells that the work is done when the ring returns.
    """

    at_once: bool

    def ring(self, tenant: str, stream: int, kind: str) -> None: ...


class Silence:
    """Rings nobody; whoever uses it drains or sweeps by hand."""

    at_once = False

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        pass


@dataclass(slots=True)
class Deps:
    database: Database
    dispatcher: Ringer = field(default_factory=Silence)
    clock: Clock = field(default_factory=SystemClock)
    tokens: Tokens = field(default_factory=Tokens)
    sources: SourceRegistry = field(default_factory=SourceRegistry)
    strategies: StrategyRegistry = field(default_factory=StrategyRegistry)
    signals: Signals = field(default_factory=Signals)
    states: StateCache = field(default_factory=StateCache)
    folds: FoldCache = field(default_factory=FoldCache)
    shelves: Shelves = field(default_factory=Shelves)
    meanings: Meanings | None = None
    modes: Mapping[str, ModeSpec] = field(default_factory=lambda: BUILTIN_MODES)
    lease: int = LEASE
    payload_limit: int = 1024 * 1024
    rule_limit: int = 20_000
    default_model: str = "gpt-4o"
    locale: str = "zh"
    memory_rules: frozenset[str] = frozenset({"remember", "profile"})
    care_after: int = 24 * 3_600_000_000
    """Microseconds after which what was written to a memory is cared for; 0 is never."""
    index_after: int = 0
    """Microseconds after which what was said is indexed for recall, so that what comes soon after is one piece of work
    with it; 0 is never."""
    lifetimes: Mapping[str, int] = field(default_factory=lambda: LIFETIMES)
    dumps: Dumps = field(default_factory=Dumps)
    model: Model | None = None
    rest: Rest = field(default_factory=Rest)
    recall_seconds: float = 3.0
    """How long a prompt waits for what the model says of its query and of what was found, both together."""
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
