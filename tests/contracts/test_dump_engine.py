"""Dumps on the server: which sessions, what stands in the files, and what happens when writing fails."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from store_histories import compiled, event, said

from domain.errors import SnapshotRedacted, UnknownSnapshot
from workers.dumps import LONGEST, Dumps, safe_name
from workers.engine import Deps, Engine
from workers.settings import load_settings
from workers.store import Database, migrate

pytest_plugins = ["api_server"]

Json = dict[str, Any]
HOSTILE = [
    "..",
    ".",
    ".hidden",
    "a b",
    "城市",
    "a\\b",
    "%2e%2e",
    "C:",
    "x" * 200,
    "城" * 200,
    "\ud800",
    "a~b",
    "\u202e",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


def dumping(database: Database, folder: Path | None, *sessions: str) -> Engine:
    return Engine(Deps(database, dumps=Dumps(folder, sessions or ("*",))))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_dump_is_all_that_is_stored_of_a_prompt(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [event("tool.registered", name="find"), said("hello \ud800")])
    prompt = compiled(engine, tenant)
    told = engine.dump(tenant, prompt["id"])
    assert {name: told[name] for name in prompt} == prompt
    assert told["layout"]["cut"] == 0
    assert [one["role"] for one in told["messages"]] == [one["role"] for one in prompt["provenance"]]
    assert [one["name"] for one in told["tools"]] == ["find"]
    with pytest.raises(UnknownSnapshot):
        engine.dump(tenant, "nothing")


def test_every_prompt_becomes_a_file(database: Database, tenant: str, folder: Path) -> None:
    engine = dumping(database, folder)
    prompts = []
    for number in range(3):
        engine.append(tenant, "s", [said(f"hello {number}")])
        prompts.append(compiled(engine, tenant))
    assert files(folder) == [f"{tenant}/s/v000{number}.json" for number in (1, 2, 3)]
    for number, prompt in enumerate(prompts, 1):
        text = (folder / tenant / "s" / f"v000{number}.json").read_text(encoding="utf-8")
        assert json.loads(text) == engine.dump(tenant, prompt["id"])


def test_the_same_prompt_again_is_the_same_file(database: Database, tenant: str, folder: Path) -> None:
    engine = dumping(database, folder)
    engine.append(tenant, "s", [said("hello")])
    assert compiled(engine, tenant)["id"] == compiled(engine, tenant)["id"]
    assert files(folder) == [f"{tenant}/s/v0001.json"]


def test_nothing_is_dumped_unless_asked_for(database: Database, tenant: str, folder: Path) -> None:
    for engine in (dumping(database, None), dumping(database, folder, "x-*", "other")):
        engine.append(tenant, "s", [said("hello")])
        compiled(engine, tenant, fresh=True)
    assert not folder.exists()


def test_sessions_are_chosen_by_patterns(database: Database, tenant: str, folder: Path) -> None:
    engine = dumping(database, folder, "x-*", "one")
    for name in ("x-1", "x-2", "one", "one-more"):
        engine.append(tenant, name, [said("hello")])
        compiled(engine, tenant, name)
    assert files(folder) == [f"{tenant}/{name}/v0001.json" for name in ("one", "x-1", "x-2")]


def test_a_secret_is_masked_in_the_file_as_in_the_prompt(database: Database, tenant: str, folder: Path) -> None:
    engine, key = dumping(database, folder), "sk-proj-0123456789abcdefghij0123"
    engine.append(tenant, "s", [event("tool.environment", values={"pin": {"value": "hunter2!", "secret": True}})])
    engine.append(tenant, "s", [said(f"use {key} and hunter2!")])
    compiled(engine, tenant)
    text = (folder / tenant / "s" / "v0001.json").read_text(encoding="utf-8")
    assert "[masked]" in text
    assert key not in text
    assert "hunter2!" not in text


def test_what_is_erased_is_erased_from_the_files_too(database: Database, tenant: str, folder: Path) -> None:
    engine, secret = dumping(database, folder), said("4711-0815")
    engine.append(tenant, "s", [said("harmless")])
    compiled(engine, tenant)
    engine.append(tenant, "s", [secret])
    gone = compiled(engine, tenant)
    # By an engine whose pattern is another by now.
    dumping(database, folder, "none").append(tenant, "s", [event("event.redacted", event_id=secret["event_id"])])
    assert files(folder) == [f"{tenant}/s/v0001.json"]
    with pytest.raises(SnapshotRedacted):
        engine.dump(tenant, gone["id"])


def test_a_prompt_that_is_erased_while_it_is_written_leaves_no_file(
    database: Database, tenant: str, folder: Path
) -> None:
    secret = said("4711-0815")

    class Late(Dumps):
        """Between reading the prompt and writing the file it is erased, by somebody who finds no file."""

        def write(self, tenant: str, session: str, version: int, value: Any) -> None:
            erased = event("event.redacted", event_id=secret["event_id"])
            Engine(Deps(database, dumps=Dumps(folder))).append(tenant, session, [erased])
            super().write(tenant, session, version, value)

    engine = Engine(Deps(database, dumps=Late(folder)))
    engine.append(tenant, "s", [secret])
    job = engine.request_prompt(tenant, "s", {}, ring=False)
    assert engine.run_job(tenant, job["id"])["status"] == "done"
    assert files(folder) == []


def test_a_file_that_cannot_be_written_fails_no_compile(database: Database, tenant: str, folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    engine = dumping(database, folder)
    secret = said("hello")
    engine.append(tenant, "s", [secret])
    assert compiled(engine, tenant)["version"] == 1
    assert engine.append(tenant, "s", [event("event.redacted", event_id=secret["event_id"])])["head"] == 2


def test_a_write_that_breaks_off_leaves_nothing_behind(folder: Path) -> None:
    dumps = Dumps(folder)
    dumps.write("t", "s", 1, {"fine": True})
    with pytest.raises(TypeError):
        dumps.write("t", "s", 1, {"no JSON": object()})
    assert files(folder) == ["t/s/v0001.json"]
    assert json.loads(dumps.path("t", "s", 1).read_bytes()) == {"fine": True}


def test_a_lone_surrogate_comes_back(folder: Path) -> None:
    dumps = Dumps(folder)
    dumps.write("t", "s", 1, {"text": "a \ud800 城"})
    assert json.loads(dumps.path("t", "s", 1).read_text(encoding="utf-8")) == {"text": "a \ud800 城"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_step_inside_the_folder(folder: Path, name: str) -> None:
    dumps = Dumps(folder)
    dumps.write(name, name, 1, {})
    path = dumps.path(name, name, 1)
    assert path.resolve().parent.parent.parent == folder.resolve()
    assert len(safe_name(name).encode()) <= LONGEST + 17


def test_names_stay_apart() -> None:
    names = [*HOSTILE, "x" * 199, "城" * 199, "%2E%2E", "%2E.", "plain-Name_1.2"]
    assert len({safe_name(name) for name in names}) == len(names)
    assert safe_name("plain-Name_1.2") == "plain-Name_1.2"
    assert safe_name("..") == "%2E."


def test_a_folder_and_patterns_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (load_settings().dump_dir, load_settings().dump_sessions) == (None, ("*",))
    monkeypatch.setenv("PROMPTCTX_DUMP_DIR", "/tmp/dumps")
    for text, patterns in (("s-1, x-*", ("s-1", "x-*")), ('["a,b", "c"]', ("a,b", "c")), ("[ab]*", ("[ab]*",))):
        monkeypatch.setenv("PROMPTCTX_DUMP_SESSIONS", text)
        assert load_settings().dump_sessions == patterns
    assert load_settings().dump_dir == Path("/tmp/dumps")


def test_a_running_server_dumps(http: httpx2.Client, serve: Any, sqlite_url: str, folder: Path) -> None:
    migrate.upgrade(sqlite_url)
    with serve(load_settings(database_url=sqlite_url, dump_dir=folder, dump_sessions="s-*")) as api:
        for name in ("s-1", "t-1"):
            api.post(f"/v1/sessions/{name}/events", content=b'{"kind": "user.input", "payload": {"content": "hi"}}')
            made = api.post(f"/v1/sessions/{name}/prompts", content=b'{"wait": 30}').json()
            told = api.get(f"/v1/prompts/{made['id']}/dump").json()
            assert told["payload"] == made["payload"]
            assert set(told) == {*made, "messages", "tools", "layout"}
    assert files(folder) == ["default/s-1/v0001.json"]
    assert http.get("/v1/prompts/none/dump").status_code == 404
