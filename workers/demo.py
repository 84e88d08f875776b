"""`python -m workers demo`: a real agent's log becomes prompts under a budget, told as it happens.

The agent's log lies in `examples/`. Everything goes through the client over HTTP to a server of the demo's own, on a
free port and a new SQLite file, which stays. The server's clock follows the log and not the day, so that the same
prompts, with the same hashes, come out on every machine and with every dispatcher.
"""

import argparse
import json
import logging
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import redis
import uvicorn
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from domain.errors import BrokerUnavailable, PromptctxError
from promptctx import Client, EventRecord, Job, Prompt, Session, errors
from promptctx.cli._screen import console, plain, prepare_streams, short, show_json, table
from promptctx.cli.log import gist
from promptctx.cli.report import show_report
from promptctx.importers import ImportedSession, read
from promptctx.prompt import escaped, transcript
from workers import telemetry
from workers.assembly import build, close, make_dispatcher
from workers.clock import SetClock
from workers.engine import Engine
from workers.settings import Settings, load_settings
from workers.store import migrate

ROOT = Path(__file__).resolve().parents[1]
LOG = Path("examples", "tau-bench", "gpt-4o-airline.json")
BUDGET = 2000
RULE = "未经用户明确同意，不得修改或取消预订"
PROMISE = "Economy ($109)"
"""What the agent offered, wrongly, on the flight below."""
EVIDENCE = '"flight_number": "HAT229"'
FACT = '"economy": 0'

BEGIN = 1_715_803_200_000_000
"""2024-05-15 15:00 EST, which the agent's instruction says is now, in microseconds."""
MINUTE = 60_000_000

Json = dict[str, Any]
Way = Literal["thread", "celery"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of the agent: what it had before it (up to `seq`), and what it then said or did."""

    number: int
    seq: int
    prompt: Prompt
    said: str

    @property
    def units(self) -> list[Json]:
        return list(self.prompt.report["units"])

    @property
    def messages(self) -> int:
        """Tokens of all messages so far."""
        return sum(unit["tokens"] for unit in self.units)

    @property
    def history(self) -> int:
        """Tokens of a prompt with the instruction and all messages, and nothing else."""
        floor = self.prompt.report["floor"]
        return int(floor["format"] + floor["anchor_system"] + floor["tools"] + self.messages)

    @property
    def cut(self) -> dict[str, int]:
        """Units by what became of them, if it is not all of them."""
        found = dict.fromkeys(("summarized", "referenced", "dropped"), 0)
        for unit in self.units:
            if unit["disposition"] in found:
                found[unit["disposition"]] += unit["units"]
        return {**found, "shortened": sum("shortened" in unit for unit in self.units)}

    @property
    def has_rule(self) -> bool:
        return RULE in self.prompt.text

    def plain(self) -> Json:
        prompt = self.prompt
        return {
            "turn": self.number, "seq": self.seq, "history": self.history, "messages": self.messages,
            "prompt": prompt.id, "version": prompt.version, "tokens": prompt.tokens,
            "content_hash": prompt.content_hash, "rule": self.has_rule, **self.cut,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Played:
    """The log as it went: the session, and its turns with their prompts."""

    session: Session
    events: int
    turns: list[Turn]

    @property
    def wrong(self) -> Turn:
        """The turn of the bad answer."""
        return next(turn for turn in self.turns if PROMISE in turn.said)

    def evidence(self) -> EventRecord:
        """The event that said otherwise."""
        found = (event for event in self.session.events() if event.kind == "tool.result")
        return next(event for event in found if EVIDENCE in _text(event.payload))


def _text(payload: Any) -> str:
    return " ".join(str(part.get("text")) for part in payload["content"])


# --- playing the log --------------------------------------------------------------------------------------------------


def play(client: Client, clock: SetClock, told: Progress) -> Played:
    """Append the log as it happened, a minute an event. Before each act of the agent, ask for a prompt, and go on."""
    imported = next(one for one in read(ROOT / LOG) if isinstance(one, ImportedSession))
    session = client.session(imported.session_id)
    asked: list[tuple[int, str, Job]] = []
    events = 1
    for event in told.track(list(imported.events), description="appending"):
        if event["kind"] == "assistant.output":
            said = json.dumps(event["payload"], ensure_ascii=False)
            asked.append((session.seq, said, session.compile(budget=BUDGET, model="gpt-4o", locale="zh")))
        clock.move(MINUTE)
        session.append([event])
        events += 1
        if event["kind"] == "instruction.set":
            session.constraint("ask-first", RULE, level="block")
    jobs = told.track(asked, description="compiling")
    turns = [Turn(number, seq, job.result(60), said) for number, (seq, said, job) in enumerate(jobs, 1)]
    return Played(session, events, turns)


def progress(out: Console) -> Progress:
    columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def why_of(played: Played) -> Json:
    """Where the evidence went in the prompt for the bad answer, as its report has it."""
    event, prompt = played.evidence(), played.wrong.prompt
    slots = [(name, item) for name, slot in prompt.report["slots"].items() for item in slot["items"]]
    return {
        "event": event.event_id,
        "seq": event.seq,
        "kind": event.kind,
        "says": short(gist(event.payload), 80),
        "unit": next(unit for unit in played.wrong.units if event.event_id in unit.get("events", ())),
        "items": [{"slot": name, **item} for name, item in slots if event.event_id in item["events"]],
        "fact_in_prompt": FACT in prompt.text,
        "dropped": _dropped(played),
    }


def _dropped(played: Played) -> Json | None:
    """The biggest unit that is in this prompt in no form at all."""
    gone = [unit for unit in played.wrong.units if unit["disposition"] == "dropped" and unit.get("events")]
    if not gone:
        return None
    unit = max(gone, key=lambda one: one["tokens"])
    event = next(event for event in played.session.events(unit["from_seq"] - 1))
    return {**unit, "kind": event.kind, "says": short(gist(event.payload), 80)}


def without_worker(session: Session) -> str:
    """What a caller hears when nobody compiles."""
    job = session.compile(budget=BUDGET, model="gpt-4o", locale="zh", fresh=True)
    try:
        job.result(timeout=0.5)
    except errors.Timeout as error:
        return str(error)
    return ""


# --- telling what came of it ------------------------------------------------------------------------------------------


class Teller:
    """Prints the chapters. Nothing that comes from the log can drive the terminal."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self._chapter = 0

    def chapter(self, title: str) -> None:
        self._chapter += 1
        self.out.print(Text(f"\n{self._chapter}. {title}", style="bold"))

    def line(self, *lines: str) -> None:
        for line in lines:
            self.out.print(Text(f"   {line}"), soft_wrap=True)

    def turns(self, turns: Sequence[Turn]) -> None:
        heads = ("#turn", "#events", "#history", "#prompt", "#version", "units of history that are not in it whole")
        rows = [
            (turn.number, turn.seq, f"{turn.history:,}", f"{turn.prompt.tokens:,}", turn.prompt.version, _cut(turn))
            for turn in turns
        ]
        self.out.print(table(heads, rows))

    def rule(self, turns: Sequence[Turn]) -> None:
        kept, late = sum(turn.has_rule for turn in turns), sum(turn.messages > BUDGET for turn in turns)
        self.line(
            f"[禁止] {RULE}",
            f"It was said once, in event 3, and is in {kept} of {len(turns)} prompts.",
            f"On {late} turns more than {BUDGET:,} tokens came after it: who keeps the newest {BUDGET:,} has lost it.",
        )

    def prompt(self, turn: Turn) -> None:
        for role, said in transcript(turn.prompt):
            self.out.print(Text(f"@@ {role}", style="bold"))
            self.out.print(Text(_abridged(escaped(said))), soft_wrap=True)
        self.out.print()
        show_report(self.out, turn.prompt)
        if "memory" in turn.prompt.report["trim"]["gave_way"]:
            self.line(
                "No room for memory: recalled memories and tool states have a share of what the floor leaves, set",
                "before history is cut, and none fitted into it. What is free at the end was left over by that cut.",
            )

    def why(self, why: Json) -> None:
        unit, dropped = why["unit"], why["dropped"]
        self.line(f"Event {why['seq']}, {why['kind']}: {why['says']}")
        self.line(f"  as a message: {unit['disposition']}, reason {unit['reason']} ({unit['tokens']:,} tokens)")
        # A long text is recalled in passages, which mostly fare alike.
        for fate in dict.fromkeys((item["slot"], item["disposition"], item["reason"]) for item in why["items"]):
            self.line("  in slot {}: {}, reason {}".format(*fate))
        if why["fact_in_prompt"]:
            self.line(f"Its {FACT} is in the prompt: a model that gets it can know.")
        else:
            self.line(f"Its {FACT} is not in the prompt: a model that gets it cannot know. (The log's agent could.)")
        if dropped and dropped["from_seq"] != unit["from_seq"]:
            told = f"{dropped['disposition']}, reason {dropped['reason']} ({dropped['tokens']:,} tokens)"
            self.line(f"Event {dropped['from_seq']}, {dropped['kind']}: {dropped['says']}", f"  {told}")

    def replay(self, replay: Json) -> None:
        if replay["identical"]:
            self.line(f"identical: sha256 {replay['replayed_hash']}")
        else:
            self.line(f"different: {replay['content_hash']} is now {replay['replayed_hash']}; {replay['cause']}")

    def where_next(self, found: Json) -> None:
        url, session, wrong = found["database_url"], found["session"], found["wrong"]["prompt"]
        self.out.print(Text("\nLook around in what the demo left behind:", style="bold"))
        self.line(
            f"PROMPTCTX_DATABASE_URL={shlex.quote(url)} make up    # API pages at http://127.0.0.1:8765/docs",
            f".venv/bin/promptctx events {session}",
            f".venv/bin/promptctx show {wrong}",
        )


def _cut(turn: Turn) -> str:
    return ", ".join(f"{count} {name}" for name, count in turn.cut.items() if count) or "–"


def _abridged(said: str, most: int = 16, width: int = 140) -> str:
    """A long message by its first and last lines."""
    lines = [line if len(line) <= width else line[: width - 1] + "…" for line in said.splitlines()]
    if len(lines) > most:
        head, tail = lines[: most // 4], lines[-(most - most // 4) :]
        lines = [*head, f"   [… {len(lines) - most} lines …]", *tail]
    return "\n".join(short(line, width) for line in lines)


# --- the stage: a server, and whoever does its work -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stage:
    url: str
    database_url: str
    clock: SetClock
    stop_workers: Callable[[], object]


@contextmanager
def stage(folder: Path, way: Way = "thread", broker: str | None = None) -> Iterator[Stage]:
    """A server in this process on a new store; its work is done by threads, or by a Celery worker process."""
    settings = load_settings(database_url=f"sqlite:///{folder / 'promptctx.db'}", dispatcher=way, broker_url=broker)
    migrate.upgrade(settings.database_url)
    clock, dispatcher = SetClock(BEGIN), make_dispatcher(settings)
    stop: Callable[[], object] = dispatcher.close
    if way == "celery":
        stop = partial(_stop, _start_worker(settings, folder / "worker.log"))
    engine = build(settings, dispatcher=dispatcher, clock=clock)
    try:
        with _serving(engine, settings) as url:
            yield Stage(url, settings.database_url, clock, stop)
    finally:
        stop()
        close(engine)


@contextmanager
def _serving(engine: Engine, settings: Settings) -> Iterator[str]:
    """The address of the web application, in a thread. Its socket listens before it runs: who comes early waits."""
    create_app = import_module("web.app").create_app  # the layer above: only those who start a server know it
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(create_app(engine, settings), log_config=None, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="promptctx-demo-web")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _start_worker(settings: Settings, log: Path) -> "subprocess.Popen[bytes]":
    """`celery -A workers.app worker` on this store. What is asked before it is up waits in the database."""
    told = {"DATABASE_URL": settings.database_url, "BROKER_URL": settings.broker_url, "DISPATCHER": "celery"}
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "--concurrency=2", "--loglevel=WARNING"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, f"--hostname=demo-{os.getpid()}@%h"],
            cwd=ROOT,
            env={**os.environ, **{f"PROMPTCTX_{name}": str(value) for name, value in told.items()}},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _broker(way: Way) -> Iterator[str | None]:
    """PROMPTCTX_BROKER_URL; else an empty database of the Redis on this machine, which is left as empty."""
    chosen = load_settings().broker_url
    if way == "thread" or (chosen and chosen.startswith("amqp")):
        yield chosen
        return
    try:
        url = _answering(chosen) if chosen else _empty()
    except redis.RedisError as error:
        raise BrokerUnavailable(f"Redis does not answer ({error}); start it or set PROMPTCTX_BROKER_URL.") from error
    try:
        yield url
    finally:
        if not chosen:
            with redis.Redis.from_url(url) as server:
                for key in server.scan_iter("promptctx:*"):
                    server.delete(key)


def _answering(url: str) -> str:
    with redis.Redis.from_url(url, socket_connect_timeout=3) as server:
        server.ping()
    return url


def _empty() -> str:
    for number in range(15, 0, -1):
        url = f"redis://127.0.0.1:6379/{number}"
        with redis.Redis.from_url(url, socket_connect_timeout=3) as server:
            if not server.dbsize():
                return url
    raise BrokerUnavailable("The Redis on this machine has no empty database; set PROMPTCTX_BROKER_URL.")


# --- the run ----------------------------------------------------------------------------------------------------------


def run(way: Way, teller: Teller) -> Json:
    """Everything, told as it comes; the same as data."""
    started = time.monotonic()
    teller.out.print(Text(f"promptctx demo: dispatcher {way}, {BUDGET:,} tokens a prompt", style="bold"))
    folder = Path(tempfile.mkdtemp(prefix="promptctx-demo-"))
    with _broker(way) as broker, stage(folder, way, broker) as on, Client(on.url) as client:
        teller.chapter("A real agent's log becomes events")
        teller.line(
            f"{LOG}: gpt-4o as an airline's agent, from tau-bench (MIT)",
            f"appended one by one over HTTP at {on.url}; each turn asks for a prompt and goes on without waiting",
        )
        with progress(teller.out) as told:
            played = play(client, on.clock, told)
        found = _tell(teller, played)
        on.stop_workers()
        teller.chapter("And without a worker?")
        found["timeout"] = without_worker(played.session)
        teller.line(f"job.result(timeout=0.5) raises Timeout: {found['timeout']}", "The job waits in the database.")
        found |= {"dispatcher": way, "database_url": on.database_url}
    if way == "celery":
        found["same_as_thread"] = _compare(teller, played)
    found["seconds"] = round(time.monotonic() - started, 1)
    teller.where_next(found)
    teller.line(f"({found['seconds']} s)")
    return found


def _tell(teller: Teller, played: Played) -> Json:
    turns, wrong = played.turns, played.wrong
    teller.line(f"{played.events} events, {len(turns)} turns, {len(turns)} prompts (tokens):")
    teller.turns(turns)
    teller.chapter("A rule survives")
    teller.rule(turns)
    teller.chapter(f"A bad answer: turn {wrong.number} promises “{PROMISE}” on a flight without economy seats")
    teller.line("The prompt for that turn, long messages abridged:")
    teller.prompt(wrong)
    teller.chapter("Why is something not there?")
    teller.why(why := why_of(played))
    teller.chapter("Replay: the log folded to the same events and compiled again")
    teller.replay(replay := plain(wrong.prompt.replay()))
    return {
        "session": played.session.id, "events": played.events, "budget": BUDGET, "rule": RULE,
        "turns": [turn.plain() for turn in turns], "wrong": wrong.plain(), "why": why, "replay": replay,
    }  # fmt: skip


def _compare(teller: Teller, played: Played) -> int:
    """Play it once more on threads; how many prompts have the same bytes."""
    teller.chapter("The same on threads")
    with (
        tempfile.TemporaryDirectory() as folder,
        stage(Path(folder)) as on,
        Client(on.url) as client,
        progress(teller.out) as told,
    ):
        again = play(client, on.clock, told)
    pairs = zip(played.turns, again.turns, strict=True)
    same = sum(one.prompt.content_hash == other.prompt.content_hash for one, other in pairs)
    teller.line(f"{same} of {len(played.turns)} prompts have the same content hash")
    return same


def main(argv: Sequence[str]) -> int:
    """0, or 1 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m workers demo", description="A real agent's log, end to end.")
    parser.add_argument("--dispatcher", choices=("thread", "celery"), default="thread", help="who does the work")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    asked = parser.parse_args(argv)
    prepare_streams()
    telemetry.configure("WARNING")
    # Each prompt's report has its warnings; the client's log of them would stand between the chapters.
    logging.getLogger("promptctx").setLevel(logging.ERROR)
    out = console()
    out.quiet = asked.json
    try:
        found = run(asked.dispatcher, Teller(out))
    except (PromptctxError, errors.PromptctxError, OSError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    if asked.json:
        show_json(found)
    return 0
