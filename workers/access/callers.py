"""Callers: who a key makes of whoever shows it, and how often they may call."""

import hashlib
import hmac
from dataclasses import dataclass, field

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from domain.errors import Forbidden, InvalidRequest, TooManyRequests, Unauthorized
from workers.access import keys
from workers.access.scopes import SCOPES, Scope
from workers.clock import Clock, SystemClock
from workers.settings import Settings
from workers.store import EVERY, Database, acts
from workers.store import keys as stored
from workers.store.kept import Kept
from workers.store.keys import KeyRow

REMEMBERED = 5_000_000
"""Microseconds for which a process takes a key for what it was: a revoked one may live so long."""

_MOST_REMEMBERED = 2000

_HOW_TO_MAKE = "`python -m workers keys create --name NAME --scopes emit,compile,read`"


@dataclass(frozen=True, slots=True)
class Caller:
    """An event whose actor is an agent or a tool never has `policy`, whoever sends it."""

    tenant: str = "default"
    scopes: frozenset[str] = frozenset(SCOPES)
    key: str | None = None

    @property
    def by(self) -> str:
        """Who answers for what is done."""
        return self.key or acts.OPERATOR

    @property
    def may_loosen(self) -> bool:
        return "policy" in self.scopes

    def require(self, *scopes: Scope) -> None:
        """Raises Forbidden unless the caller has one of the scopes."""
        if not self.scopes.intersection(scopes):
            wanted = " or ".join(f"`{scope}`" for scope in scopes)
            held = ", ".join(f"`{scope}`" for scope in SCOPES if scope in self.scopes)
            raise Forbidden(f"This needs a key with the scope {wanted}; this one has {held}.", scopes=list(scopes))


@dataclass(slots=True)
class Access:
    """Admits callers. Without keys, on this machine alone, everyone is its user: one tenant, all scopes."""

    database: Database
    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    _known: Kept[bytes, tuple[KeyRow, int]] = field(default_factory=lambda: Kept(_MOST_REMEMBERED))
    _rates: SlidingWindowCounterRateLimiter = field(
        default_factory=lambda: SlidingWindowCounterRateLimiter(MemoryStorage())
    )

    def remembered(self, token: str | None) -> Caller | None:
        """The caller if that can be told without a look at the store."""
        if not self.settings.keys_required:
            return Caller()
        if token and (root := self._root(token)):
            return root
        found = self._known.get(_digest(token or ""))
        now = self.clock.now()
        return _caller(found[0]) if found and found[1] > now and found[0].in_force(now) else None

    def admit(self, token: str | None) -> Caller:
        """Raises Unauthorized without a key that is in force."""
        if (caller := self.remembered(token)) is not None:
            return caller
        if not token:
            raise Unauthorized(f"Send an API key as `Authorization: Bearer …`; {_HOW_TO_MAKE} makes one.")
        row, now = keys.find(self.database, token), self.clock.now()
        if row is None or not row.in_force(now):
            # Whether it is wrong, revoked or expired is for those who may list keys.
            raise Unauthorized("This API key is not in force.")
        self._known.put(_digest(token), (row, now + REMEMBERED))
        return _caller(row)

    def count(self, caller: Caller) -> None:
        """Raises TooManyRequests when the caller's key has made its calls of the minute."""
        limit = self.settings.rate_limit
        if not limit or caller.key is None:
            return
        item = RateLimitItemPerMinute(limit)
        if not self._rates.hit(item, caller.key):
            until = self._rates.get_window_stats(item, caller.key).reset_time - self.clock.now() / 1_000_000
            wait = max(1, min(60, round(until)))
            raise TooManyRequests(
                f"This key may make {limit} calls a minute; come back in {wait} s, or send events in batches.",
                limit=limit, retry_after=wait,
            )  # fmt: skip

    def _root(self, token: str) -> Caller | None:
        root = self.settings.root_key
        if root is None or not hmac.compare_digest(root.get_secret_value().encode(), token.encode()):
            return None
        return Caller(key="root")


def refuse_open_door(database: Database, settings: Settings, clock: Clock) -> None:
    """Raises InvalidRequest if others could reach the server and no key would let anyone in."""
    if not settings.keys_required or settings.root_key is not None:
        return
    with database.read(EVERY) as unit:
        if stored.any_in_force(unit, clock.now()):
            return
    why = f"{settings.host} can be reached from other machines" if settings.is_public else "Keys are required"
    raise InvalidRequest(
        f"{why} and there is no API key yet: make one with {_HOW_TO_MAKE}, set PROMPTCTX_ROOT_KEY, or bind to"
        " 127.0.0.1.",
        setting="host",
    )


def _caller(row: KeyRow) -> Caller:
    return Caller(row.tenant, frozenset(row.scopes), row.id)


def _digest(token: str) -> bytes:
    """What is remembered in place of the key."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
