"""The engine: load, ask the domain, save. Web and tasks call it; it knows neither."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workers.engine import (
    append,
    compile,
    documents,
    dumping,
    erasing,
    indexing,
    project,
    prompts,
    reading,
    rebuild,
    references,
    replay,
    requests,
    state,
    statistics,
    sweeping,
    verify,
)
from workers.engine.deps import Deps
from workers.engine.history import History
from workers.engine.leases import Outcome
from workers.engine.memories import Memories
from workers.engine.walking import Progress
from workers.store import acts, streams

__all__ = ["Deps", "Engine", "Outcome"]

Json = dict[str, Any]


class Engine:
    """Every method takes the tenant first and returns what the HTTP interface sends."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    # The log

    def append(
        self,
        tenant: str,
        session: str,
        events: Sequence[Any],
        expected_seq: int | None = None,
        may_loosen: bool = True,
        *,
        by: str = acts.OPERATOR,
    ) -> Json:
        """`by` answers for what loosens rules or erases."""
        events = references.filled(self.deps, tenant, session, events)
        return append.append(self.deps, tenant, session, events, expected_seq, may_loosen, by=by)

    def events(
        self, tenant: str, session: str, stream: str = "session", after: int = 0, limit: int = 200, *,
        reveal: bool = False,
    ) -> Json:  # fmt: skip
        """`reveal` shows secrets as the log has them."""
        return reading.events(self.deps, tenant, session, stream, after, limit, reveal=reveal)

    def note(self, tenant: str, by: str, act: str, **about: Any) -> None:
        """Keep account of what an administrator did."""
        with self.deps.database.write(tenant) as unit:
            acts.note(unit, tenant, self.deps.clock.now(), by, act, about)

    def sessions(self, tenant: str, limit: int = 50, after: str | None = None, *, q: str = "", mode: str = "") -> Json:
        """Newest first; those that hold the text `q` in what lists show of them, and are of this mode."""
        return reading.sessions(self.deps, tenant, limit, after, q, mode)

    def session(self, tenant: str, session: str) -> Json:
        """One session as lists show it. Raises UnknownSession."""
        return reading.session(self.deps, tenant, session)

    def state(self, tenant: str, session: str) -> Json:
        return state.state(self.deps, tenant, session)

    def stats(self, tenant: str, session: str | None = None) -> Json:
        """Sizes, and the settings that follow from them; of all sessions when none is named."""
        if session is None:
            return statistics.stats_of_all(self.deps, tenant)
        return statistics.stats(self.deps, tenant, session)

    # Prompts

    def request_prompt(self, tenant: str, session: str, body: Json, *, ring: bool = True) -> Json:
        """`ring=False` is for a caller that runs the job itself right away."""
        return requests.request_prompt(self.deps, tenant, session, body, ring=ring)

    def run_job(self, tenant: str, job_id: str, timeout: float = 30.0) -> Json:
        return compile.run_job(self.deps, tenant, job_id, timeout)

    def job(self, tenant: str, job_id: str) -> Json:
        return requests.job(self.deps, tenant, job_id)

    def wait_job(self, tenant: str, job_id: str, seconds: float) -> Json:
        return compile.wait_job(self.deps, tenant, job_id, seconds)

    def prompts(self, tenant: str, session: str, limit: int = 50, after: str | None = None) -> Json:
        return prompts.listing(self.deps, tenant, session, limit, after)

    def prompt(self, tenant: str, prompt_id: str, format: str | None = None) -> Json:
        return prompts.prompt(self.deps, tenant, prompt_id, format)

    def report(self, tenant: str, prompt_id: str) -> Json:
        return prompts.report(self.deps, tenant, prompt_id)

    def dump(self, tenant: str, prompt_id: str) -> Json:
        return dumping.dump(self.deps, tenant, prompt_id)

    def replay(self, tenant: str, prompt_id: str) -> Json:
        return replay.replay(self.deps, tenant, prompt_id)

    @property
    def history(self) -> History:
        """The time machine: what was, why it was so, and what would have been."""
        return History(self.deps)

    @property
    def memories(self) -> Memories:
        """What is remembered of a subject, and the care for it."""
        return Memories(self.deps)

    # Documents

    def put_document(
        self,
        tenant: str,
        session: str,
        document_id: str,
        body: Iterable[bytes],
        title: str | None = None,
        source: str | None = None,
        media_type: str | None = None,
    ) -> Json:
        return documents.put(self.deps, tenant, session, document_id, body, title, source, media_type)

    def get_document(self, tenant: str, session: str, document_id: str, start: int = 0, end: int | None = None) -> str:
        return documents.get(self.deps, tenant, session, document_id, start, end)

    def sweep_uploads(self) -> int:
        """Delete what uploads left behind that nobody finished within a day; how many those were."""
        return documents.sweep_uploads(self.deps)

    # Work

    def project(self, tenant: str, stream_id: str) -> Outcome:
        return self._at(tenant, stream_id, project.project)

    def compile(self, tenant: str, session: str) -> Outcome:
        return self._at(tenant, f"session/{session}", compile.compile_session)

    def index(self, tenant: str, session: str) -> Outcome:
        """Make what recall needs of a session now; workers do it some seconds after something was said."""
        return self._at(tenant, f"session/{session}", indexing.index_now)

    def sweep(self, limit: int = 100) -> int:
        """Run what is due, whether or not anyone rang for it; how many claims that were."""
        return sweeping.sweep(self.deps, limit)

    def health(self) -> Json:
        """Whether the store is ready, how much waits and for how long, how much is parked. Raises StoreUnavailable."""
        return sweeping.health(self.deps)

    def backlog(self, tenant: str, limit: int = 100) -> Json:
        """How much of a tenant's work waits, and what is parked with the error that stopped it."""
        return sweeping.backlog(self.deps, tenant, limit)

    def retry(self, tenant: str | None, session: str | None = None, *, by: str = acts.OPERATOR) -> int:
        """Take parked work up again, of all tenants when none is named; how much it was."""
        return sweeping.retry(self.deps, tenant, session, by)

    def verify(self, tenant: str | None = None, session: str | None = None, progress: Progress | None = None) -> Json:
        """Chains, read-models, prompts and erasures; every problem with what to do about it."""
        return verify.verify(self.deps, tenant, session, progress)

    def erase(
        self, tenant: str, subject: str, reason: str = "", progress: Progress | None = None, *, dry_run: bool = False
    ) -> Json:
        """Erase all that a subject's sessions, profile and memory ever said, and every prompt that showed it."""
        return erasing.erase(self.deps, tenant, subject, reason, progress, dry_run=dry_run)

    def erasures(self, tenant: str) -> list[Json]:
        return erasing.listing(self.deps, tenant)

    def rebuild(
        self, tenant: str | None = None, session: str | None = None, progress: Progress | None = None, *,
        only_old: bool = False,
    ) -> Json:  # fmt: skip
        """Fold the log into new read-models beside the live ones, then switch. Work goes on meanwhile."""
        return rebuild.rebuild(self.deps, tenant, session, progress, only_old=only_old)

    def _at(self, tenant: str, stream_id: str, handler: Callable[[Deps, str, int], Outcome]) -> Outcome:
        with self.deps.database.read(tenant) as unit:
            row = streams.get(unit, tenant, stream_id)
        return handler(self.deps, tenant, row.number) if row else Outcome.IDLE
