"""What breaks event logs, queues and their stores elsewhere, by its number in docs/failure-modes.md."""

import json
import re
import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Any

import kombu
import pytest
import sqlalchemy as sa
from private_servers import Missing, PrivateRedis
from required import unavailable
from store_histories import drain, event, said
from worker_process import own_queues, working

from domain.canonical import canonical_json
from domain.errors import ConcurrencyConflict, InvalidRequest
from workers import doctor
from workers.app import DELIVERIES, dead_letters, make_app, queues
from workers.clock import SetClock
from workers.engine import Deps, Engine
from workers.settings import load_settings
from workers.store import EVERY, Database, files, migrate, models, streams
from workers.store.tables import metadata

ROOT = Path(__file__).resolve().parents[2]
REDIS, RABBITMQ = "redis://127.0.0.1:6379/0", "amqp://guest:guest@127.0.0.1:5672//"

Json = dict[str, Any]


def number_of(database: Database, tenant: str, stream_id: str = "session/s") -> int:
    with database.read(tenant) as unit:
        row = streams.get(unit, tenant, stream_id)
    assert row is not None
    return row.number


# --- publishing -------------------------------------------------------------------------------------------------------


class Listener:
    """A doorbell that looks, in another thread, whether what it rings for is there."""

    at_once = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self.heads: list[int] = []

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        looking = threading.Thread(target=self._look, args=(tenant, stream))
        looking.start()
        looking.join()

    def _look(self, tenant: str, stream: int) -> None:
        with self._database.read(tenant) as unit:
            self.heads.append(streams.head(unit, tenant, stream))


def test_f01_a_ring_comes_after_the_commit_and_none_when_there_is_none(database: Database, tenant: str) -> None:
    listener = Listener(database)
    engine = Engine(Deps(database, listener))
    engine.append(tenant, "s", [said("a")])
    assert listener.heads == [1]
    with pytest.raises(ConcurrencyConflict):
        engine.append(tenant, "s", [said("b")], expected_seq=7)
    assert listener.heads == [1]


@pytest.mark.parametrize("broker", [REDIS, RABBITMQ])
def test_f06_f07_there_is_no_result_backend_to_be_down_or_to_wait_for(broker: str) -> None:
    conf = make_app(load_settings(broker_url=broker)).conf
    assert (conf.result_backend, conf.task_ignore_result) == (None, True)


def test_f14_f15_f22_f23_f31_f36_what_celery_does_badly_is_not_used() -> None:
    calls = r"\.retry\(|apply_async|\bchord\(|\bchain\(|\bgroup\(|\.revoke\("
    banned = rf"countdown\s*=|\beta\s*=|always_eager|pydantic\s*=\s*True|{calls}"
    for path in (ROOT / "workers").rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        if "celery" in code:
            assert not re.search(banned, code), path


@pytest.mark.parametrize("broker", [REDIS, RABBITMQ])
def test_f11_f16_f24_f32_messages_are_short_work_taken_one_at_a_time(broker: str) -> None:
    conf = make_app(load_settings(broker_url=broker)).conf
    assert conf.worker_prefetch_multiplier == 1
    assert conf.task_time_limit < conf.broker_transport_options.get("visibility_timeout", 120) < 1800
    assert conf.task_routes["promptctx.summarize"]["queue"] != conf.task_routes["promptctx.project"]["queue"]
    assert conf.broker_channel_error_retry


@pytest.mark.services
def test_f25_a_message_delivered_too_often_is_a_dead_letter_and_keeps_nobody_busy(rabbitmq_url: str) -> None:
    with own_queues(rabbitmq_url) as prefix:
        settings = load_settings(broker_url=rabbitmq_url, queue_prefix=prefix)
        with make_app(settings).connection_for_write() as connection:
            channel: Any = connection.default_channel
            queue = next(one for one in queues(settings, rabbitmq_url) if one.name.endswith("project"))(channel)
            dead: Any = dead_letters(settings)(channel)
            for one in (queue, dead):
                one.declare()
            kombu.Producer(channel).publish(["t", 1], exchange=queue.exchange, routing_key=queue.routing_key)
            deliveries = 0
            while dead.get(no_ack=True) is None:
                message = queue.get()
                if message is not None:
                    deliveries += 1
                    message.requeue()
                assert deliveries <= DELIVERIES + 1
    assert deliveries == DELIVERIES + 1


@pytest.mark.celery
def test_f18_a_worker_whose_broker_is_away_finds_work_all_the_same(sqlite_url: str, tenant: str) -> None:
    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url)))
    engine.append(tenant, "s", [said("hello")])
    job = engine.request_prompt(tenant, "s", {})
    settings = load_settings(database_url=sqlite_url, dispatcher="celery", broker_url="redis://127.0.0.1:1/0")
    with working(settings, "--concurrency=1"):
        assert engine.wait_job(tenant, job["id"], 240)["status"] == "done"


# --- the doctor -------------------------------------------------------------------------------------------------------


def problems(**told: Any) -> str:
    return "\n".join(doctor.examine(load_settings(**told))["problems"])


@pytest.mark.parametrize("url", ["memory://", "sqla+sqlite:///b.db", "filesystem://", "sqs://", "db+sqlite:///b.db"])
def test_f29_f30_brokers_that_lose_messages_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"redis://.*amqp://"):
        load_settings(dispatcher="celery", broker_url=url)


def test_f27_the_doctor_warns_of_a_redis_that_evicts(sqlite_url: str, tmp_path: Path) -> None:
    migrate.upgrade(sqlite_url)
    try:
        server = PrivateRedis(tmp_path / "redis", "--maxmemory-policy", "allkeys-lru")
    except Missing as missing:
        unavailable(str(missing), "PATH")
    server.start()
    try:
        told = {"database_url": sqlite_url, "dispatcher": "celery", "broker_url": server.url}
        assert "Redis evicts (allkeys-lru)" in problems(**told)
        with server.client() as client:
            client.config_set("maxmemory-policy", "noeviction")
        assert "evicts" not in problems(**told)
    finally:
        server.stop()


@pytest.mark.services
@pytest.mark.parametrize("names", [["w@h", "w@h"], ["w@h", "v@h"]])
def test_f26_the_doctor_tells_of_two_workers_with_one_name(sqlite_url: str, redis_url: str, names: list[str]) -> None:
    migrate.upgrade(sqlite_url)
    app = make_app(load_settings(broker_url=redis_url))
    done = threading.Event()

    def answer(name: str, ready: threading.Event) -> None:
        """What a worker does when it is asked whether it is there."""
        with app.connection_for_read() as connection:
            node = app.control.mailbox.Node(name, handlers={"ping": lambda state, **told: {"ok": "pong"}})
            node.channel = connection.channel()
            consumer = node.listen(callback=node.handle_message)
            ready.set()
            while not done.is_set():
                try:
                    connection.drain_events(timeout=0.1)
                except TimeoutError:
                    continue
            consumer.cancel()

    begun = [threading.Event() for _ in names]
    threads = [threading.Thread(target=answer, args=told) for told in zip(names, begun, strict=True)]
    for thread in threads:
        thread.start()
    try:
        assert all(one.wait(60) for one in begun)
        found = problems(database_url=sqlite_url, dispatcher="celery", broker_url=redis_url)
        assert ("2 workers are called w@h" in found) is (names[0] == names[1])
    finally:
        done.set()
        for thread in threads:
            thread.join(60)


def test_f61_the_doctor_tells_of_a_log_that_a_reader_keeps_from_being_cleared(tmp_path: Path) -> None:
    with (tmp_path / "p.db-wal").open("wb") as log:
        log.truncate(doctor.WAL_LIMIT + 1)  # sparse: it takes no room
    assert "has grown to 512 MiB" in problems(database_url=f"sqlite:///{tmp_path}/p.db")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("server:/data /mnt/da\\040ta nfs4 rw 0 0", "nfs4"),
        ("//server/share /mnt/da\\040ta cifs rw 0 0", "cifs"),
        ("/dev/sdb1 /mnt/da\\040ta ext4 rw 0 0", None),
        ("server:/data /mnt/da nfs4 rw 0 0", None),
    ],
)
def test_f61_sqlite_on_a_network_file_system_is_recognised(tmp_path: Path, line: str, kind: str | None) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\n{line}\nproc /proc proc rw 0 0\n")
    assert files.network_file_system(Path("/mnt/da ta/promptctx.db"), mounts) == kind


TABLE = """\
sysfs /sys sysfs rw,nosuid 0 0
overlay / overlay rw,lowerdir=/a:/b 0 0
/dev/vdb1 /data ext4 rw 0 0
nas:/export /data/shared nfs4 rw,vers=4.2,addr=10.0.0.7 0 0
/dev/vdc1 /data/shared/own ext4 rw 0 0
nas:/export /data/gone nfs rw 0 0
tmpfs /data/gone tmpfs rw 0 0
//nas/s /mnt/b\303\274cher cifs rw 0 0
//nas/s /mnt/bücher cifs rw 0 0
//nas/s /mnt/back\\134slash cifs rw 0 0
host:/ /mnt/ssh fuse.sshfs rw 0 0
pool /mnt/pool zfs rw 0 0
short
"""


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/promptctx.db", None),
        ("/data/promptctx.db", None),
        ("/data/shared/promptctx.db", "nfs4"),
        ("/data/shared2/promptctx.db", None),
        ("/data/shared/own/promptctx.db", None),
        ("/data/gone/promptctx.db", None),
        ("/mnt/bücher/promptctx.db", "cifs"),
        ("/mnt/back\\slash/promptctx.db", "cifs"),
        ("/mnt/ssh/a/b/promptctx.db", "fuse.sshfs"),
        ("/mnt/pool/promptctx.db", None),
    ],
)
def test_f61_the_mount_that_counts_is_the_last_of_the_longest(file: str, kind: str | None) -> None:
    assert files.network_kind(file, TABLE) == kind
    assert files.network_kind(file, "") is None


@pytest.mark.parametrize(("ahead", "told"), [(3600, "behind this"), (-3600, "ahead of this"), (0, None)])
def test_the_doctor_tells_of_clocks_that_differ(store_url: str, ahead: int, told: str | None) -> None:
    with Database(store_url).read(EVERY) as unit:
        clock = SetClock(unit.now() + ahead * 1_000_000)
    found = "\n".join(doctor.examine(load_settings(database_url=store_url), clock)["problems"])
    assert (told in found) if told else ("clock" not in found or "database's clock is 3 s" in found)


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [{"b": 1, "a": [1.0, 100.0, 1e300]}, {"__type__": "datetime", "__value__": "2026"}])
def test_f40_f80_a_payload_is_stored_as_canonical_bytes_and_runs_nothing(
    engine: Engine, database: Database, tenant: str, payload: Json
) -> None:
    engine.append(tenant, "s", [{"kind": "custom.any", "event_id": str(uuid.uuid4()), "payload": payload}])
    with database.read(tenant) as unit:
        row = unit.execute(sa.text("SELECT payload FROM events WHERE tenant = :tenant"), {"tenant": tenant}).one()
    assert bytes(row[0]) == canonical_json(payload)
    assert engine.events(tenant, "s")["events"][0]["payload"] == payload


def test_f41_f42_f45_a_slow_writer_hides_nothing_from_readers(database: Database, tenant: str) -> None:
    engine = Engine(Deps(database))
    for session in ("slow", "quick"):
        engine.append(tenant, session, [said("first")])
    if database.dialect == "postgresql":  # on SQLite nobody else can write meanwhile
        with database.write(tenant) as unit:
            streams.lock(unit, tenant, "session/slow", 1)
            other = threading.Thread(target=engine.append, args=(tenant, "quick", [said("second")]))
            other.start()
            other.join(60)
            assert not other.is_alive(), "streams do not wait for each other"
            drain(engine)
    engine.append(tenant, "slow", [said("second")])
    drain(engine)
    for session in ("slow", "quick"):
        head = engine.events(tenant, session)["head"]
        with database.read(tenant) as unit:
            number = streams.get(unit, tenant, f"session/{session}")
            assert number is not None
            assert models.checkpoint(unit, tenant, number.number).seq == head
    assert engine.verify(tenant)["ok"]


def test_f47_f57_order_is_seq_alone_and_times_come_back_as_the_instants_they_were(engine: Engine, tenant: str) -> None:
    times = ["2026-01-03T00:00:00Z", "2026-01-01T12:00:00+05:00", "2026-01-02T00:00:00.000001Z"]
    engine.append(tenant, "s", [said(time, occurred_at=time) for time in times])
    found = engine.events(tenant, "s")["events"]
    assert [one["payload"]["content"][0]["text"] for one in found] == times
    assert found[1]["occurred_at"] == "2026-01-01T07:00:00.000000Z"


def test_f48_of_two_writers_that_saw_the_same_head_one_is_told(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    told, barrier = [], threading.Barrier(2)

    def write(name: str) -> None:
        barrier.wait()
        try:
            engine.append(tenant, "s", [said(name)], expected_seq=1)
            told.append("done")
        except ConcurrencyConflict as conflict:
            told.append(f"conflict at {conflict.details['head']}")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["conflict at 2", "done"]


def test_f51_a_call_whose_process_died_is_told_as_unanswered(engine: Engine, tenant: str) -> None:
    engine.append(
        tenant, "s",
        [said("a"), event("assistant.output", content="", tool_calls=[{"id": "c1", "name": "f", "arguments": {}}])],
    )  # fmt: skip
    engine.append(tenant, "s", [said("are you there?")])
    job = engine.request_prompt(tenant, "s", {}, ring=False)
    messages = engine.prompt(tenant, engine.run_job(tenant, job["id"])["prompt"])["payload"]["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    answers = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert calls == answers


def test_f53_a_replay_writes_nothing(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    job = engine.request_prompt(tenant, "s", {}, ring=False)
    prompt = engine.run_job(tenant, job["id"])["prompt"]
    before = _counted(database, tenant)
    assert engine.replay(tenant, prompt)["identical"]
    assert _counted(database, tenant) == before


def _counted(database: Database, tenant: str) -> list[int]:
    with database.read(tenant) as unit:
        tables = ("events", "jobs", "snapshots", "streams", "work")
        queries = (f"SELECT count(*) FROM {table} WHERE tenant = :tenant" for table in tables)
        return [int(unit.execute(sa.text(query), {"tenant": tenant}).scalar_one()) for query in queries]


def test_f54_what_is_stored_grows_with_what_is_appended_and_no_faster(sqlite_url: str, tenant: str) -> None:
    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    engine = Engine(Deps(database))
    sizes = []
    for part in range(2):
        for turn in range(100):
            engine.append(tenant, "s", [said(f"{part}/{turn} " + uuid.uuid4().hex * 60)])
            if turn % 10 == 0:
                job = engine.request_prompt(tenant, "s", {"budget": 4000}, ring=False)
                engine.run_job(tenant, job["id"])
        sizes.append(_pages(sqlite_url))
    grown, appended = (sizes[1] - sizes[0]) * 4096, 100 * 1920
    assert grown <= 3 * appended


def _pages(url: str) -> int:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_f55_the_checkpoint_never_passes_the_last_event(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    for _ in range(3):
        engine.project(tenant, "session/s")
    with database.read(tenant) as unit:
        assert models.checkpoint(unit, tenant, number_of(database, tenant)).seq == 1
    engine.append(tenant, "s", [said("b")])
    drain(engine)
    with database.read(tenant) as unit:
        assert models.checkpoint(unit, tenant, number_of(database, tenant)).seq == 2


# --- the stores -------------------------------------------------------------------------------------------------------


def test_f59_a_read_unit_sees_one_state_from_its_first_statement_to_its_last(
    engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [said("a")])
    number = number_of(database, tenant)
    with database.read(tenant) as unit:
        assert streams.head(unit, tenant, number) == 1
        other = threading.Thread(target=engine.append, args=(tenant, "s", [said("b")]))
        other.start()
        other.join(60)
        assert streams.head(unit, tenant, number) == 1
    with database.read(tenant) as unit:
        assert streams.head(unit, tenant, number) == 2


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_f60_a_store_that_only_one_thread_can_see_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="sqlite:///FILE"):
        Database(url)


@pytest.mark.parametrize(("mode", "pragma"), [("NORMAL", 1), ("FULL", 2)])
def test_f62_how_hard_a_commit_is_written_is_a_setting(sqlite_url: str, mode: str, pragma: int) -> None:
    with Database(sqlite_url, mode).write(EVERY) as unit:
        assert unit.driver.execute("PRAGMA synchronous").fetchone()[0] == pragma


def test_f63_no_row_is_deleted_because_another_table_changed() -> None:
    assert [table.name for table in metadata.tables.values() if table.foreign_keys] == []


def test_f69_every_unique_key_of_the_log_can_be_partitioned_by_tenant() -> None:
    for table in metadata.tables.values():
        keys = [table.primary_key.columns.keys(), *(index.columns.keys() for index in table.indexes if index.unique)]
        # Keys of callers are no part of the log: one is looked up before it says whose it is.
        if table.name not in ("streams", "api_keys"):
            assert all(names[0] == "tenant" for names in keys), table.name


def test_f77_a_prompt_says_which_compiler_and_which_tokenizer_made_it(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    job = engine.request_prompt(tenant, "s", {}, ring=False)
    inputs = engine.prompt(tenant, engine.run_job(tenant, job["id"])["prompt"])["inputs"]
    assert inputs["compiler"]
    assert inputs["tokenizer"]["encoding"]
    assert json.dumps(inputs)


def test_b129_two_tenants_that_ask_alike_each_get_their_own_prompt(engine: Engine, tenant: str) -> None:
    """Same session name, same instruction, same request: nothing that is kept of one is served to the other."""
    prompts = []
    for name in (tenant, f"{tenant}-other"):
        engine.append(name, "s", [event("instruction.set", role="You help."), said(f"I am {name}")])
        job = engine.request_prompt(name, "s", {"as_of": "2026-01-01T00:00:00Z"}, ring=False)
        prompts.append(engine.prompt(name, engine.run_job(name, job["id"])["prompt"]))
    assert prompts[0]["payload"]["messages"][-1]["content"] == f"I am {tenant}"
    assert prompts[1]["payload"]["messages"][-1]["content"] == f"I am {tenant}-other"
    assert prompts[0]["id"] != prompts[1]["id"]
