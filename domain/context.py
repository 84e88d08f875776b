"""All that a compile draws on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.policies import Made, Shrink
from domain.sources import SourceResult
from domain.state import ContextState
from domain.windows import History


@dataclass(frozen=True, slots=True)
class Context:
    """Each state at the seq that the request is pinned to; `as_of` in microseconds UTC. `made` is what strategies gave
    when this very prompt was compiled before, if it was."""

    session: ContextState
    history: History
    subject: ContextState
    tenant: ContextState
    parents: tuple[ContextState, ...] = ()
    sources: tuple[SourceResult, ...] = ()
    as_of: int = 0
    query: str = ""
    strategies: Mapping[str, Shrink] = field(default_factory=dict)
    made: tuple[Made, ...] = ()

    @property
    def states(self) -> tuple[ContextState, ...]:
        return (self.session, self.subject, self.tenant, *self.parents)
