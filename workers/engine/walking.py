"""Going through all streams of the store, of a tenant, or of one session: for what looks after them."""

from collections.abc import Iterator
from typing import Protocol

from workers.engine.deps import Deps
from workers.engine.reading import PLACES, related, session_row
from workers.store import EVERY, streams
from workers.store.streams import StreamRow

PAGE = 100


class Progress(Protocol):
    """Told of work done, in events, and how many there are in all."""

    def __call__(self, done: int, total: int) -> None: ...


def rows(deps: Deps, tenant: str | None = None, session: str | None = None) -> Iterator[StreamRow]:
    """The streams in the order in which they began. Raises UnknownSession."""
    if tenant is not None and session is not None:
        yield from of_session(deps, tenant, session)
        return
    at = 0
    while True:
        with deps.database.read(EVERY) as unit:
            page = streams.every(unit, at, PAGE)
        if not page:
            return
        yield from (row for row in page if tenant in (None, row.tenant))
        at = page[-1].number


def of_session(deps: Deps, tenant: str, session: str) -> list[StreamRow]:
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        found = [related(unit, home, place) for place in PLACES]
    return [row for row in found if row is not None]


def size(deps: Deps, tenant: str | None = None, session: str | None = None) -> int:
    """How many events those streams hold."""
    if tenant is not None and session is not None:
        return sum(row.head for row in of_session(deps, tenant, session))
    with deps.database.read(tenant or EVERY) as unit:
        return streams.total(unit, tenant)[1]
