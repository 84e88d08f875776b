"""One contract for every dispatcher on every store: what is asked for gets done once, in order, to the same bytes."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from store_histories import event, said
from worker_process import own_queues, working

from workers import assembly
from workers.engine import Engine
from workers.settings import load_settings
from workers.store import migrate, models, streams

Json = dict[str, Any]

DISPATCHERS = ("inline", "thread", "celery-redis", "celery-rabbitmq")
STORES = ("sqlite", "postgresql")
WAIT = 300.0
AS_OF = "2026-01-01T00:00:00Z"


@dataclass
class Cell:
    """One dispatcher on one store, running, and a tenant of the test's own in it."""

    engine: Engine
    tenant: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    def append(self, session: str, *events: Json) -> Json:
        return self.engine.append(self.tenant, session, list(events))

    def ask(self, session: str, **body: Any) -> str:
        return str(self.engine.request_prompt(self.tenant, session, {"budget": 2000, "as_of": AS_OF, **body})["id"])

    def answer(self, job: str) -> Json:
        return self.engine.wait_job(self.tenant, job, WAIT)

    def prompt(self, job: str) -> Json:
        done = self.answer(job)
        assert done["status"] == "done", done
        return self.engine.prompt(self.tenant, done["prompt"])

    def projected(self, session: str) -> int:
        with self.engine.deps.database.read(self.tenant) as unit:
            row = streams.get(unit, self.tenant, f"session/{session}")
            return models.checkpoint(unit, self.tenant, row.number).seq if row else 0

    def until(self, true: Callable[[], bool]) -> bool:
        """Looks again after each sign of progress, of this process or after a moment."""
        for _ in range(int(WAIT / 0.05)):
            mark = self.engine.deps.signals.mark()
            if true():
                return True
            self.engine.deps.signals.wait(mark, 0.05)
        return False

    def quiet(self) -> bool:
        return bool(self.engine.backlog(self.tenant)["open"] == 0)


def _cells() -> Iterator[Any]:
    """Those that start workers of their own are a suite apart: `make test-services`."""
    for dispatcher in DISPATCHERS:
        for store in STORES:
            marks = [pytest.mark.celery] if dispatcher.startswith("celery") else []
            yield pytest.param(f"{dispatcher}/{store}", marks=[pytest.mark.services, *marks])


@pytest.fixture(scope="module", params=list(_cells()))
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    dispatcher, store = request.param.split("/")
    told: Json = {"dispatcher": dispatcher.partition("-")[0]}
    if store == "sqlite":
        told["database_url"] = f"sqlite:///{tmp_path_factory.mktemp('matrix')}/promptctx.db"
    else:
        told["database_url"] = request.getfixturevalue("postgres_url")
    migrate.upgrade(told["database_url"])
    with ExitStack() as stack:
        if dispatcher.startswith("celery"):
            broker = "redis_server" if dispatcher.endswith("redis") else "rabbitmq_url"
            told["broker_url"] = request.getfixturevalue(broker)
            told["queue_prefix"] = stack.enter_context(own_queues(told["broker_url"]))
        settings = load_settings(**told)
        if dispatcher.startswith("celery"):
            stack.enter_context(working(settings))
        engine = assembly.build(settings)
        stack.callback(assembly.close, engine)
        yield engine


@pytest.fixture
def cell(running: Engine) -> Cell:
    return Cell(running)


def conversation() -> list[Json]:
    """Events with ids of their own names, so that every cell tells the same story."""
    turns = [
        event("instruction.set", role="You book flights."),
        event("constraint.set", id="c", level="block", text="不允许超过预算"),
    ]
    for turn in range(6):
        turns += [
            said(f"turn {turn}: 说中文 " * 20),
            event(
                "assistant.output",
                content=f"answer {turn}",
                tool_calls=[{"id": f"c{turn}", "name": "f", "arguments": {}}],
            ),
            event("tool.result", call_id=f"c{turn}", name="f", content=f"result {turn} " * 20),
        ]
    turns.append(event("profile.set", key="城市", value="北京"))
    return [{**one, "event_id": str(uuid.UUID(int=place + 1))} for place, one in enumerate(turns)]


def test_what_is_appended_is_projected_without_being_asked(cell: Cell) -> None:
    for number in range(5):
        cell.append("s", said(str(number)), event("profile.set", key="k", value=number))
    assert cell.until(lambda: cell.projected("s") == 5)
    assert cell.until(cell.quiet)
    assert cell.engine.verify(cell.tenant)["ok"]


def test_prompts_are_made_in_the_order_they_were_asked_for(cell: Cell) -> None:
    asked = []
    for number in range(8):
        cell.append(f"s{number % 2}", said(f"turn {number}"))
        asked.append(cell.ask(f"s{number % 2}"))
    prompts = [cell.prompt(job) for job in asked]
    assert [prompt["version"] for prompt in prompts] == [1, 1, 2, 2, 3, 3, 4, 4]
    for number, prompt in enumerate(prompts):
        assert prompt["payload"]["messages"][-1]["content"] == f"turn {number}"


def test_an_agent_reads_its_own_writes(cell: Cell) -> None:
    for number in range(3):
        head = cell.append("s", said(f"turn {number}"))["head"]
        prompt = cell.prompt(cell.ask("s", min_seq=head))
        assert prompt["payload"]["messages"][-1]["content"] == f"turn {number}"


def test_every_cell_makes_the_same_bytes(cell: Cell) -> None:
    hashes = []
    for turn in conversation():
        cell.append("s", turn)
        hashes.append(cell.prompt(cell.ask("s", budget=700))["content_hash"])
    quiet = _quiet_hashes()
    assert hashes == quiet


_found: list[str] = []


def _quiet_hashes() -> list[str]:
    """What one process alone makes of the conversation, on a file of its own."""
    import tempfile

    if not _found:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/quiet.db"
            migrate.upgrade(url)
            engine = assembly.build(load_settings(database_url=url, dispatcher="inline"))
            alone = Cell(engine)
            for turn in conversation():
                alone.append("s", turn)
                _found.append(alone.prompt(alone.ask("s", budget=700))["content_hash"])
            assembly.close(engine)
    return _found


def test_f11_f13_doubled_rings_do_nothing_twice(cell: Cell) -> None:
    cell.append("s", said("a"))
    job = cell.ask("s")
    with cell.engine.deps.database.read(cell.tenant) as unit:
        row = streams.get(unit, cell.tenant, "session/s")
    assert row is not None
    for _ in range(5):
        cell.engine.deps.dispatcher.ring(cell.tenant, row.number, "project")
        cell.engine.deps.dispatcher.ring(cell.tenant, row.number, "compile")
    assert cell.prompt(job)["version"] == 1
    assert cell.until(cell.quiet)
    assert len(cell.engine.prompts(cell.tenant, "s")["prompts"]) == 1
    assert cell.engine.verify(cell.tenant)["ok"]


def test_f21_an_error_of_a_compile_is_its_jobs_and_holds_up_nothing(cell: Cell) -> None:
    cell.append("s", said("a " * 4000))
    failed, done = cell.ask("s", budget=300), cell.ask("s", budget=9000)
    assert cell.answer(failed)["error"]["code"] == "context_overflow"
    assert cell.answer(done)["status"] == "done"
    assert cell.until(cell.quiet)


def test_the_same_request_at_the_same_heads_is_the_same_prompt(cell: Cell) -> None:
    cell.append("s", said("a"))
    first, again = cell.ask("s"), cell.ask("s")
    assert cell.prompt(first)["id"] == cell.prompt(again)["id"]
    assert cell.prompt(cell.ask("s", fresh=True))["version"] == 2


def test_a_rollback_is_folded_beside_what_is_read_meanwhile(cell: Cell) -> None:
    cell.append("s", said("keep"))
    cell.append("s", said("forget"))
    assert "forget" in str(cell.prompt(cell.ask("s"))["payload"])
    cell.append("s", event("context.rolled_back", to_seq=1))
    assert "forget" not in str(cell.prompt(cell.ask("s"))["payload"])
    assert cell.until(cell.quiet)
    assert cell.engine.verify(cell.tenant)["ok"]


def test_b98_an_append_during_a_compile_is_neither_lost_nor_refused(cell: Cell) -> None:
    head, asked = 0, []
    for number in range(12):
        head = cell.append("s", said(f"turn {number}"))["head"]
        asked.append(cell.ask("s"))
        # The compile may be under way: it moves the audit stream, never the session.
        head = cell.engine.append(cell.tenant, "s", [said("and more")], expected_seq=head)["head"]
    assert all(cell.answer(job)["status"] == "done" for job in asked)
    assert head == 24
    assert [one["seq"] for one in cell.engine.events(cell.tenant, "s", limit=100)["events"]] == list(range(1, 25))


def test_every_prompt_is_compiled_again_to_the_byte(cell: Cell) -> None:
    for turn in conversation():
        cell.append("s", turn)
    asked = [cell.ask("s", budget=budget) for budget in (500, 900, 1500)]
    for job in asked:
        assert cell.engine.replay(cell.tenant, cell.prompt(job)["id"])["identical"]
