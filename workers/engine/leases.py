"""What happens to a claim: the lease is let go, an error is recorded, or the row is parked for a person to see."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import structlog

from domain.errors import StoreUnavailable
from workers import telemetry
from workers.engine.deps import Deps
from workers.store import Unit, work
from workers.store.work import Claim

logger = structlog.get_logger(__name__)


class Fenced(Exception):
    """The lease was lost to another worker: nothing may be written, and nothing needs to be, for they do it."""


class Parked(Exception):
    """This stream cannot go on by itself. Others do."""

    def __init__(self, message: str, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


class StreamParked(StoreUnavailable):
    """What was asked for waits for a person: the stream's projection is parked."""


class Outcome(Enum):
    """How a claim ended."""

    IDLE = "nothing to do, or somebody else is at it"
    DONE = "all that was wanted is done"
    MORE = "yielded with work left"


def under(deps: Deps, claimed: Claim, body: Callable[[Deps, Claim], Outcome]) -> Outcome:
    """Run under a claim. Whatever goes wrong is recorded in the work row and comes back later, or never if parked."""
    try:
        if claimed.attempts > work.MAX_ATTEMPTS:
            raise Parked(f"gave up after {work.MAX_ATTEMPTS} attempts that did not end")
        return body(deps, claimed)
    except Fenced:
        logger.info("lease lost", stream=claimed.stream, kind=claimed.kind)
    except Parked as parked:
        logger.warning("parked", stream=claimed.stream, kind=claimed.kind, seq=parked.seq, reason=str(parked))
        _record(deps, claimed, {"message": str(parked), "seq": parked.seq}, park=True)
    except StoreUnavailable:
        # Nothing can be recorded now; the lease ends by itself.
        raise
    except Exception as error:
        logger.exception("work failed", stream=claimed.stream, kind=claimed.kind)
        _record(
            deps, claimed, {"message": telemetry.told(error), "seq": None}, park=claimed.attempts >= work.MAX_ATTEMPTS
        )
    return Outcome.IDLE


def micro(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1_000_000)


def settle(unit: Unit, claimed: Claim, done: int) -> Outcome:
    """Let the lease go, inside the unit that wrote what was done."""
    wanted = work.settle(unit, claimed, done)
    if wanted is None:
        raise Fenced
    return Outcome.MORE if wanted > done else Outcome.DONE


def keep(unit: Unit, claimed: Claim, done: int) -> Outcome:
    """Hold the lease on, inside the unit that wrote what was done so far."""
    if not work.keep(unit, claimed, done):
        raise Fenced
    return Outcome.MORE


def pause(deps: Deps, claimed: Claim, reason: str) -> None:
    """Come back later, after a pause that doubles: what this waits for is not here."""
    _record(deps, claimed, {"message": reason, "seq": None}, park=False)


def _record(deps: Deps, claimed: Claim, error: dict[str, Any], *, park: bool) -> None:
    with deps.database.write(claimed.tenant) as unit:
        work.fail(unit, claimed, error, park=park)
