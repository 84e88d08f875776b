"""Importers on the real logs: which file is what, how many sessions, and every text to the character.

The expected texts are read here from the files themselves, by other means than the importers'.
"""

import json
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from domain.events import Event, parse_payload
from domain.state import fold
from promptctx.importers import ImportedSession, Skipped, detect, read, scan

pytestmark = pytest.mark.corpus

Json = Any
Told = tuple[str, str, tuple[str, ...]]
"""What a message says: its kind, its text, the ids it calls or answers."""

FILES = {
    "*/LICENSE*": None,
    "*/SOURCE.md": None,
    "*.png": None,
    "agent-sessions/claude/*": "claude-code",
    "agent-sessions/codex/*": "codex",
    "agent-sessions/copilot/*": "copilot",
    "agent-sessions/cursor/*": "cursor",
    "agent-sessions/gemini/*": "gemini",
    "agent-sessions/hermes/*": "hermes",
    "agent-sessions/kimi/*": "kimi",
    "agent-sessions/opencode/*": "opencode",
    "agent-sessions/pi/*": "pi",
    "beam-100k/*/chat.json": "beam",
    "beam-100k/*": None,
    "claude-code-spotter/*": "claude-code",
    "crosswoz/*.json": "crosswoz",
    "deer-flow/replay/*": "deer-flow-replay",
    "deer-flow/threads/*": "langgraph",
    "google-adk/*session.json": "adk",
    "google-adk/*": "adk-eval",
    "inspect-ai/*": "inspect-ai",
    "langfuse-traces/*": "langfuse",
    "letta-agent-file/*": "letta",
    "memorybank-cn/memory_bank*": "memorybank",
    "memorybank-cn/probing*": None,
    "mini-swe-agent/*": "mini-swe-agent",
    "openhands-sdk/*.jsonl": "openhands",
    "openhands-sdk/*.json": "openhands-call",
    "pi-coding-agent/*": "pi",
    "swe-agent/*": "swe-agent",
    "tau-bench/*": "tau-bench",
    "tau2-bench/*": "tau2-bench",
}
"""Path in the corpus -> format; None is a file that gives no session. The first pattern that fits counts."""


@cache
def everything(corpus: Path) -> dict[Path, list[ImportedSession]]:
    found: dict[Path, list[ImportedSession]] = defaultdict(list)
    for one in scan(corpus):
        if isinstance(one, ImportedSession):
            found[one.path].append(one)
    return dict(found)


def every_session(corpus: Path) -> list[ImportedSession]:
    return list(chain.from_iterable(everything(corpus).values()))


def files_of(corpus: Path) -> list[str]:
    return sorted(path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.is_file())


def load(path: Path) -> Json:
    return json.loads(path.read_text(encoding="utf-8"))


# --- what is there ---------------------------------------------------------------------------------------------------


def test_every_file_is_told_for_what_it_is(corpus: Path) -> None:
    fitting = {name: next((told for told in FILES if fnmatch(name, told)), None) for name in files_of(corpus)}
    expected = {name: FILES[told] for name, told in fitting.items() if told is not None}
    assert {name: detect(corpus / name) for name in expected} == expected


def test_every_file_gives_sessions_or_a_reason(corpus: Path) -> None:
    named = {path.relative_to(corpus).as_posix() for path in everything(corpus)}
    reasons = {one.path.relative_to(corpus).as_posix(): one.reason for one in scan(corpus) if isinstance(one, Skipped)}
    assert named | set(reasons) == set(files_of(corpus))
    assert not named & set(reasons)
    assert all(reason and "\n" not in reason for reason in reasons.values())


def stated(corpus: Path, folder: str, pattern: str) -> int:
    """The number of sessions that a source states of itself."""
    found = re.search(pattern, (corpus / folder / "SOURCE.md").read_text(encoding="utf-8"))
    assert found, f"{folder}/SOURCE.md states no number in the known words"
    return int(found[1])


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("tau-bench", r"Selected: (\d+) whole records"),
        ("memorybank-cn", r"Selected: (\d+) whole user records"),
        ("crosswoz", r"Selected: (\d+) whole dialogues"),
        ("mini-swe-agent", r"Selected: (\d+) of \d+ whole files"),
        ("swe-agent", r"Selected: (\d+) whole \.traj files"),
        ("deer-flow/threads", r"Selected: (\d+) of \d+ thread files"),
        ("deer-flow/replay", r"and (\d+) of \d+ replay streams"),
    ],
)
def test_a_source_gives_as_many_sessions_as_it_states(corpus: Path, folder: str, pattern: str) -> None:
    sessions = [one for one in every_session(corpus) if (corpus / folder) in one.path.parents]
    assert len(sessions) == stated(corpus, folder.split("/")[0], pattern)


def test_sources_that_state_no_number_give_one_session_per_record(corpus: Path) -> None:
    found = everything(corpus)
    for path in (corpus / "tau2-bench").glob("*.json"):
        assert len(found[path]) == len(load(path)["simulations"])
    chats = list((corpus / "beam-100k").glob("*/chat.json"))
    assert chats
    assert all(len(found[path]) == 1 for path in chats)
    logs = list((corpus / "claude-code-spotter").rglob("*.jsonl"))
    assert logs
    assert all(len(found[path]) == 1 for path in logs)


def test_session_ids_are_unique_and_sub_agents_come_after_their_parents(corpus: Path) -> None:
    ids = [one.session_id for one in every_session(corpus)]
    assert [one for one, count in Counter(ids).items() if count > 1] == []
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,200}", one) for one in ids)
    for place, one in enumerate(every_session(corpus)):
        assert one.parent is None or one.parent in ids[:place]


# --- what every session holds ----------------------------------------------------------------------------------------


def test_the_domain_takes_every_event_and_every_session_folds(corpus: Path) -> None:
    for session in every_session(corpus):
        events = [
            Event(
                told["event_id"], seq, told["kind"], parse_payload(told["kind"], 1, told["payload"]), seq,
                causation_id=told.get("causation_id"),
            )
            for seq, told in enumerate(session.events, 1)
        ]  # fmt: skip
        state = fold(events)
        orphans = [row for row in state.rows("messages") if row.role == "tool" and not row.answers]
        assert len(orphans) == session.oddities["results without a call"]
        assert len(state.tables["open_calls"]) == session.oddities["calls without a result"]


def test_a_session_begins_by_saying_what_it_is(corpus: Path) -> None:
    chats = {"beam", "crosswoz", "memorybank"}
    for session in every_session(corpus):
        events = list(session.events)
        assert events[0]["kind"] == "session.started"
        started = events[0]["payload"]
        assert started["source"] == session.source
        assert started["mode"] == ("chat" if session.source in chats else "react"), session.path
        assert started["locale"] == ("zh" if session.source in {"crosswoz", "memorybank"} else started["locale"])
        assert [told["kind"] for told in events].count("session.started") == 1
        assert [told["kind"] for told in events].count("instruction.set") <= 1


def test_ids_are_the_same_each_time_and_unique(corpus: Path) -> None:
    seen: Counter[str] = Counter()
    for session in every_session(corpus):
        again = next(
            one
            for one in read(session.path)
            if isinstance(one, ImportedSession) and one.session_id == session.session_id
        )
        ids = [told["event_id"] for told in session.events]
        assert ids == [told["event_id"] for told in again.events]
        seen.update(ids)
    assert max(seen.values()) == 1


@pytest.mark.parametrize("share", [0.3, 0.5, 0.77])
@pytest.mark.parametrize("pattern", ["claude-code-spotter/*.jsonl", "agent-sessions/kimi/assistant*.jsonl"])
def test_a_grown_log_adds_only_what_is_new(corpus: Path, tmp_path: Path, pattern: str, share: float) -> None:
    for path in corpus.glob(pattern):
        copy = tmp_path / path.name
        raw = path.read_bytes()
        copy.write_bytes(raw[: int(len(raw) * share)])
        (early,) = (one for one in read(copy) if isinstance(one, ImportedSession))
        before = [told["event_id"] for told in early.events]
        copy.write_bytes(raw)
        (later,) = (one for one in read(copy) if isinstance(one, ImportedSession))
        after = [told["event_id"] for told in later.events]
        assert later.session_id == early.session_id
        assert before == after[: len(before)]
        assert len(before) > share * len(after) / 2


# --- every text, to the character ------------------------------------------------------------------------------------


def told_by(session: ImportedSession) -> list[Told]:
    """The messages of an imported session; a call that joins a reply stands with it."""
    found: list[list[Json]] = []
    outputs: dict[str, list[Json]] = {}
    for event in session.events:
        kind, payload = event["kind"], event["payload"]
        if kind == "instruction.set" or kind == "custom.import.instruction":
            found.append(["system", payload["text"], []])
        elif kind == "user.input":
            found.append(["user", text_of(payload["content"]), []])
        elif kind == "assistant.output":
            calls = [
                f"{call['id']}:{call['name']}:{spelt(call['arguments'])}" for call in payload.get("tool_calls", ())
            ]
            found.append(["assistant", text_of(payload["content"]), calls])
            outputs[event["event_id"]] = found[-1]
        elif kind == "tool.called":
            call = f"{payload['call_id']}:{payload['name']}:{spelt(payload['arguments'])}"
            outputs[event["causation_id"]][2].append(call)
        elif kind == "tool.result":
            found.append(["tool", text_of(payload["content"]), [payload["call_id"]]])
    return [(kind, text, tuple(ids)) for kind, text, ids in found]


def text_of(content: Json) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return str(content)


def spelt(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)


def chat(messages: list[Json]) -> Iterator[Told]:
    for one in messages:
        calls = [call.get("function", call) | {"id": call["id"]} for call in one.get("tool_calls") or ()]
        ids = tuple(f"{call['id']}:{call['name']}:{spelt(call['arguments'])}" for call in calls)
        if one["role"] == "tool":
            answered = one.get("tool_call_ids") or [one.get("tool_call_id", one.get("id"))]
            ids = tuple(answered)
        if one["role"] in ("system", "user", "assistant", "tool"):
            yield one["role"], one["content"] or "", ids


def tau(path: Path) -> Iterator[list[Told]]:
    yield from (list(chat(run["traj"])) for run in load(path))


def tau2(path: Path) -> Iterator[list[Told]]:
    document = load(path)
    for run in document["simulations"]:
        shared = [
            one
            for one in run["messages"]
            if one.get("requestor") != "user" and not (one["role"] == "user" and one.get("tool_calls"))
        ]
        yield [("system", document["info"]["environment_info"]["policy"], ()), *chat(shared)]


def mini_swe(path: Path) -> Iterator[list[Told]]:
    yield list(chat(load(path)["messages"]))


def swe(path: Path) -> Iterator[list[Told]]:
    yield list(chat(load(path)["history"]))


def thread(path: Path) -> Iterator[list[Told]]:
    roles = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
    found: list[Told] = []
    for one in load(path)["values"]["messages"]:
        text = one["content"] if isinstance(one["content"], str) else "".join(part["text"] for part in one["content"])
        calls = [f"{call['id']}:{call['name']}:{spelt(call['args'])}" for call in one.get("tool_calls") or ()]
        ids = [one["tool_call_id"]] if one["type"] == "tool" else calls
        found.append((roles[one["type"]], text, tuple(ids)))
    yield found


def replay(path: Path) -> Iterator[list[Told]]:
    """The deltas of each message id put together; ids never interleave in these files."""
    found: dict[str, list[Json]] = {}
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line.startswith("data: "):
            continue
        data = json.loads(line[6:])
        role = "tool" if "tool_call_id" in data else data["role"]
        message = found.setdefault(data["id"], [role, "", []])
        message[1] += data.get("content") or ""
        message[2] += [data["tool_call_id"]] if role == "tool" else []
        for piece in data.get("tool_call_chunks") or ():
            if piece["name"]:
                message[2].append(f"{piece['id'] or ''}:{piece['name']}:")
            message[2][-1] += piece["args"] or ""
    yield [(role, text, tuple(ids)) for role, text, ids in found.values()]


def beam(path: Path) -> Iterator[list[Told]]:
    turns = (one for batch in load(path) for turn in batch["turns"] for one in turn)
    yield [(one["role"], one["content"], ()) for one in turns]


def crosswoz(path: Path) -> Iterator[list[Told]]:
    roles = {"usr": "user", "sys": "assistant"}
    for dialogue in load(path).values():
        yield [(roles[one["role"]], one["content"], ()) for one in dialogue["messages"]]


def memorybank(path: Path) -> Iterator[list[Told]]:
    for user in load(path).values():
        turns = [turn for day in user["history"].values() for turn in day]
        pairs = [[("user", turn["query"], ()), ("assistant", turn["response"], ())] for turn in turns]
        yield list(chain.from_iterable(pairs))


def pi(path: Path) -> Iterator[list[Told]]:
    roles = {"toolResult": "tool"}
    found: list[Told] = []
    for line in map(json.loads, filter(None, path.read_text(encoding="utf-8").split("\n"))):
        if line["type"] != "message":
            continue
        one = line["message"]
        text = "".join(block["text"] for block in one["content"] if block["type"] == "text")
        calls = [block for block in one["content"] if block["type"] == "toolCall"]
        ids = [f"{call['id']}:{call['name']}:{spelt(call['arguments'])}" for call in calls]
        answered = [one["toolCallId"]] if one["role"] == "toolResult" else ids
        found.append((roles.get(one["role"], one["role"]), text, tuple(answered)))
    yield found


def openhands(path: Path) -> Iterator[list[Told]]:
    document = load(path)
    messages = [*document["messages"], document["response"]["choices"][0]["message"]]
    plain = [one | {"content": text_of(one["content"])} for one in messages]
    yield list(chat(plain))


def hermes(path: Path) -> Iterator[list[Told]]:
    yield list(chat(load(path)["messages"]))


def gemini(path: Path) -> Iterator[list[Told]]:
    roles = {"gemini": "assistant"}
    yield [(roles.get(one["type"], one["type"]), one["content"], ()) for one in load(path)["messages"]]


def cursor(path: Path) -> Iterator[list[Told]]:
    found: list[Told] = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        blocks = line["message"]["content"] if "role" in line else []
        calls = [f":{one['name']}:{spelt(one['input'])}" for one in blocks if one["type"] == "tool_use"]
        text = "".join(one["text"] for one in blocks if one["type"] == "text")
        found += [(line["role"], text, tuple(calls))] if blocks else []
    yield found


def opencode(path: Path) -> Iterator[list[Told]]:
    """The folders beside the session's file, put together by the ids that they give."""
    storage, name = path.parents[2], load(path)["id"]
    messages = sorted(
        (load(one) for one in (storage / "message" / name).glob("*")), key=lambda one: one["time"]["created"]
    )
    found: list[Told] = []
    for message in messages:
        parts = [load(one) for one in sorted((storage / "part").rglob("*.json"))
                 if one.parent.name == message["id"] or load(one).get("messageID") == message["id"]]  # fmt: skip
        tools = [part for part in parts if part["type"] == "tool"]
        text = "".join(part["text"] for part in parts if part["type"] == "text") or message["summary"]["body"]
        calls = [f"{part['callID']}:{part['tool']}:{spelt(part['state']['input'])}" for part in tools]
        found.append((message["role"], text, tuple(calls)))
        found += [("tool", part["state"]["output"], (part["callID"],)) for part in tools]
    yield found


def letta(path: Path) -> Iterator[list[Told]]:
    document = load(path)
    document = json.loads(document) if isinstance(document, str) else document
    messages = document.get("messages") or document["agents"][0]["messages"]
    yield [
        (
            one["role"],
            "".join(part["text"] for part in one["content"]),
            tuple(
                f"{call['id']}:{call['function']['name']}:{call['function']['arguments']}" for call in one["tool_calls"]
            )
            if one["role"] == "assistant" and one["tool_calls"]
            else (one["tool_call_id"],)
            if one["role"] == "tool"
            else (),
        )
        for one in messages
    ]


def inspected(path: Path) -> Iterator[list[Told]]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            samples = [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("samples/")]
    else:
        samples = load(path)["samples"]
    for sample in samples:
        found: list[Told] = []
        for one in sample["messages"]:
            calls = [
                f"{call['id']}:{call['function']}:{spelt(call['arguments'])}" for call in one.get("tool_calls") or ()
            ]
            text = (
                text_of([part for part in one["content"] if part["type"] == "text"])
                if isinstance(one["content"], list)
                else one["content"]
            )
            found.append((one["role"], text, (one["tool_call_id"],) if one["role"] == "tool" else tuple(calls)))
        yield found


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("agent-sessions/hermes/*.json", hermes),
        ("agent-sessions/gemini/*.json", gemini),
        ("agent-sessions/cursor/**/*.jsonl", cursor),
        ("agent-sessions/opencode/*/session/*/*.json", opencode),
        ("letta-agent-file/*.af", letta),
        ("inspect-ai/*.eval", inspected),
        ("inspect-ai/*browser.json", inspected),
        ("inspect-ai/log_*.json", inspected),
        ("tau-bench/*.json", tau),
        ("tau2-bench/*.json", tau2),
        ("mini-swe-agent/*.json", mini_swe),
        ("swe-agent/*.traj", swe),
        ("deer-flow/threads/*/thread.json", thread),
        ("deer-flow/replay/*.txt", replay),
        ("beam-100k/*/chat.json", beam),
        ("crosswoz/*.json", crosswoz),
        ("memorybank-cn/memory_bank*.json", memorybank),
        ("pi-coding-agent/*.jsonl", pi),
        ("agent-sessions/pi/*.jsonl", pi),
        ("openhands-sdk/*.json", openhands),
    ],
)
def test_each_text_and_call_is_in_the_log_as_its_source_has_it(
    corpus: Path, pattern: str, expected: Callable[[Path], Iterator[list[Told]]]
) -> None:
    paths = sorted(corpus.glob(pattern))
    assert paths
    for path in paths:
        assert [told_by(session) for session in everything(corpus)[path]] == list(expected(path))


def test_each_block_of_claude_code_is_in_the_log_as_its_source_has_it(corpus: Path) -> None:
    for path in (corpus / "claude-code-spotter").rglob("*.jsonl"):
        (session,) = everything(corpus)[path]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        spoken = [line["message"] for line in lines if "message" in line and not line.get("isCompactSummary")]
        blocks = [block for message in spoken for block in blocks_of(message)]
        told = told_by(session)
        texts = [text for kind, text, _ in told if kind in ("user", "assistant") and text]
        assert texts == [block["text"] for block in blocks if block["type"] == "text"]
        calls = [one for kind, _, ids in told if kind == "assistant" for one in ids]
        assert calls == [f"{b['id']}:{b['name']}:{spelt(b['input'])}" for b in blocks if b["type"] == "tool_use"]
        answers = [(ids[0], text) for kind, text, ids in told if kind == "tool"]
        assert answers == [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
        outputs = [event["payload"] for event in session.events if event["kind"] == "assistant.output"]
        thoughts = [one["text"] for output in outputs for one in output.get("reasoning", ())]
        assert thoughts == [block["thinking"] for block in blocks if block["type"] == "thinking"]


def test_each_text_and_call_of_kimi_is_in_the_log_as_its_source_has_it(corpus: Path) -> None:
    for path in (corpus / "agent-sessions" / "kimi").glob("*.jsonl"):
        (session,) = everything(corpus)[path]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        steps = [line["event"] for line in lines if line["type"] == "context.append_loop_event"]
        parts = [step["part"] for step in steps if step["type"] == "content.part"]
        told = told_by(session)
        asked = [line["message"]["content"] for line in lines if line["type"] == "context.append_message"]
        assert [text for kind, text, _ in told if kind == "user"] == [text_of(one) for one in asked]
        said = [text for kind, text, _ in told if kind == "assistant" and text]
        assert said == [part["text"] for part in parts if part["type"] == "text"]
        calls = [one for kind, _, ids in told if kind == "assistant" for one in ids]
        assert calls == [f"{s['toolCallId']}:{s['name']}:{spelt(s['args'])}" for s in steps if s["type"] == "tool.call"]
        answers = [(ids[0], text) for kind, text, ids in told if kind == "tool"]
        assert answers == [(s["toolCallId"], s["result"]["output"]) for s in steps if s["type"] == "tool.result"]
        outputs = [event["payload"] for event in session.events if event["kind"] == "assistant.output"]
        thoughts = [one["text"] for output in outputs for one in output.get("reasoning", ())]
        assert thoughts == [part["think"] for part in parts if part["type"] == "think"]


def test_a_sub_agent_in_the_same_copilot_log_is_a_session_of_its_own(corpus: Path) -> None:
    (path,) = (corpus / "agent-sessions" / "copilot").glob("*.jsonl")
    whole, agent = everything(corpus)[path]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    replies = [line["data"] for line in lines if line["type"] == "assistant.message"]
    for session, inside in ((whole, False), (agent, True)):
        told = [text for kind, text, _ in told_by(session) if kind == "assistant"]
        assert told == [one["content"] for one in replies if ("parentToolCallId" in one) is inside]
    assert agent.parent == whole.session_id


def test_the_calls_of_a_trace_are_told_as_its_owner_tells_them(corpus: Path) -> None:
    """The project's own normalised messages, one list per observation, are a second opinion."""
    for path in (corpus / "langfuse-traces").glob("*.trace.json"):
        view = load(path.with_name(path.name.replace(".trace.", ".chatml.")))
        calls = [one for one in load(path)["observations"] if one["type"] == "GENERATION"]
        told = [told_message for session in everything(corpus)[path] for told_message in told_by(session)]
        for call in calls:
            output = view[call["id"]]["output"]
            for message in output["data"] if output["success"] else ():
                content = message.get("content") or ""
                text = content if isinstance(content, str) else text_of(content)
                assert any(kind == "assistant" and said == text for kind, said, _ in told), (path.name, text)
        names = {name.split(":")[1] for kind, _, ids in told if kind == "assistant" for name in ids}
        assert names == {name for call in calls for name in call.get("toolCallNames") or names}


def test_a_conversation_in_a_trace_is_told_once(corpus: Path) -> None:
    for path in (corpus / "langfuse-traces").glob("*.trace.json"):
        for session in everything(corpus)[path]:
            told = told_by(session)
            assert max(Counter(told).values()) == 1, path.name
            answered = [ids[0] for kind, _, ids in told if kind == "tool"]
            assert sorted(set(answered)) == sorted(answered)


def test_an_inspect_log_agrees_with_its_own_events(corpus: Path) -> None:
    path = next((corpus / "inspect-ai").glob("*browser.json"))
    (session,) = everything(corpus)[path]
    calls = [event for event in load(path)["samples"][0]["events"] if event["event"] == "model"]
    outputs = [event["payload"] for event in session.events if event["kind"] == "assistant.output"]
    assert [one["usage"]["output_tokens"] for one in outputs] == [
        one["output"]["usage"]["output_tokens"] for one in calls
    ]
    registered = [event["payload"]["name"] for event in session.events if event["kind"] == "tool.registered"]
    assert registered == [tool["name"] for tool in calls[0]["tools"]]


def test_images_and_failures_of_tools_come_along_from_inspect(corpus: Path) -> None:
    (session,) = everything(corpus)[corpus / "inspect-ai" / "log_images_tc.json"]
    (asked,) = (event["payload"]["content"] for event in session.events if event["kind"] == "user.input")
    image = asked[1]
    assert (image["type"], image["media_type"]) == ("image", "image/png")
    assert len(image["data"]) > 1000
    (session,) = everything(corpus)[corpus / "inspect-ai" / "log_tool_call_error.json"]
    statuses = [event["payload"]["status"] for event in session.events if event["kind"] == "tool.result"]
    assert Counter(statuses) == {"error": 9, "timeout": 1, "rejected": 1}


def test_an_agent_file_brings_its_memory_blocks_and_tools(corpus: Path) -> None:
    for path in (corpus / "letta-agent-file").glob("*.af"):
        document = load(path)
        document = json.loads(document) if isinstance(document, str) else document
        (session,) = everything(corpus)[path]
        blocks = document.get("blocks") or document["core_memory"]
        defined = [event["payload"] for event in session.events if event["kind"] == "block.defined"]
        assert [(one["label"], one["text"], one["limit"]) for one in defined] == [
            (one["label"], one["value"], one["limit"]) for one in blocks
        ]
        tools = [event["payload"]["name"] for event in session.events if event["kind"] == "tool.registered"]
        assert tools == [tool["json_schema"]["name"] for tool in document["tools"]]


def blocks_of(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_progress_is_all_there_though_it_is_folded(corpus: Path) -> None:
    for path in (corpus / "claude-code-spotter").glob("*.jsonl"):
        (session,) = everything(corpus)[path]
        kept = [event["payload"]["lines"] for event in session.events if event["kind"].endswith(".progress")]
        left = session.oddities["progress lines at the end, left until something follows"]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        assert sum(map(len, kept)) + left == sum(line["type"] == "progress" for line in lines)


# --- the oddities that the sources warn of ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "oddity"),
    [
        ("tau-bench", "call ids used again"),
        ("swe-agent", "call ids used again"),
        ("deer-flow/replay", "calls without an id"),
        ("tau2-bench", "tool calls of the user, kept beside the conversation"),
        ("mini-swe-agent", "calls without a result"),
        ("claude-code-spotter", "times that run backwards"),
    ],
)
def test_known_oddities_are_counted(corpus: Path, folder: str, oddity: str) -> None:
    sessions = [one for one in every_session(corpus) if (corpus / folder) in one.path.parents]
    assert sum(len(list(one.events)) for one in sessions)
    assert sum(one.oddities[oddity] for one in sessions) > 0


def test_usage_and_models_come_along_where_the_log_has_them(corpus: Path) -> None:
    for pattern in ("mini-swe-agent/*.json", "tau2-bench/gpt*.json"):
        for path in corpus.glob(pattern):
            outputs = [
                event["payload"]
                for session in everything(corpus)[path]
                for event in session.events
                if event["kind"] == "assistant.output"
            ]
            assert any(one.get("usage", {}).get("output_tokens") for one in outputs)
    for path in corpus.glob("mini-swe-agent/*.json"):
        info = load(path)["info"]["config"]["model"]["model_name"]
        (session,) = everything(corpus)[path]
        assert next(iter(session.events))["payload"]["model"] == info
