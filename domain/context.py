"""All that a compile draws on."""

from dataclasses import dataclass

from domain.sources import SourceResult
from domain.state import ContextState
from domain.windows import History


@dataclass(frozen=True, slots=True)
class Context:
    """Each state at the seq that the request is pinned to; `as_of` in microseconds UTC."""

    session: ContextState
    history: History
    subject: ContextState
    tenant: ContextState
    parents: tuple[ContextState, ...] = ()
    sources: tuple[SourceResult, ...] = ()
    as_of: int = 0
    query: str = ""

    @property
    def states(self) -> tuple[ContextState, ...]:
        return (self.session, self.subject, self.tenant, *self.parents)
