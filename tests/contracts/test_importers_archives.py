"""Archives and folders of logs: damaged, huge or sly ones give one sentence, and nothing outside them is read."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from promptctx.importers import ImportedSession, ImportFailed, Skipped, inspect_ai, read

SAMPLE = {"id": 1, "epoch": 1, "messages": [{"role": "user", "content": "Hello"}]}


def archive(path: Path, members: dict[str, Any], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as made:
        for name, value in members.items():
            made.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def sessions(path: Path) -> list[ImportedSession]:
    return [one for one in read(path) if isinstance(one, ImportedSession)]


def failure(path: Path) -> str:
    with pytest.raises(ImportFailed) as raised:
        list(read(path))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_each_sample_of_an_archive_is_a_session(tmp_path: Path) -> None:
    members = {"header.json": {"eval": {"task": "t", "eval_id": "e"}}}
    members |= {f"samples/{number}_epoch_1.json": {**SAMPLE, "id": number} for number in range(3)}
    found = sessions(archive(tmp_path / "x.eval", members))
    assert [one.session_id.rsplit("-", 1)[0] for one in found] == [f"inspect-ai-t-e-{number}-1" for number in range(3)]
    assert [event["kind"] for event in found[0].events][1] == "user.input"


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "bomb.eval", {"header.json": {}, "samples/1.json": b"0" * 50_000_000})
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(inspect_ai, "MAX_MEMBER", 1_000_000)
    assert "unpacks to more than 1,000,000 bytes" in failure(path)
    monkeypatch.setattr(inspect_ai, "MAX_ARCHIVE", 10_000_000)
    assert "the limits are" in failure(path)


def test_an_archive_of_countless_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_ai, "MAX_MEMBERS", 5)
    assert "an archive of 10 files" in failure(
        archive(tmp_path / "x.eval", {f"samples/{n}.json": {} for n in range(10)})
    )


def test_an_archive_that_lies_about_a_size_is_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": {}, "samples/1.json": b" " * 5_000_000})
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02")  # the size that the list of contents gives of the last file
    raw[at + 24 : at + 28] = (10).to_bytes(4, "little")
    path.write_bytes(raw)
    assert "x.eval" in failure(path)


def test_names_in_an_archive_that_climb_out_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(SAMPLE))
    inside = tmp_path / "logs"
    inside.mkdir()
    members = {"header.json": {"eval": {"task": "../../t"}}, "samples/../../secret.json": {**SAMPLE, "id": "../../x"}}
    (found,) = sessions(archive(inside / "x.eval", members))
    assert "/" not in found.session_id
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["logs", "secret.json", "x.eval"]


@pytest.mark.parametrize("cut", [4, 60, 150, -30])
def test_half_an_archive_is_damaged(tmp_path: Path, cut: int) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": {}, "samples/1.json": SAMPLE})
    path.write_bytes(path.read_bytes()[:cut])
    assert "damaged archive" in failure(path)


def test_an_archive_whose_bytes_were_changed_is_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"samples/1.json": {**SAMPLE, "pad": list(range(2000))}})
    raw = bytearray(path.read_bytes())
    raw[300:340] = bytes(40)
    path.write_bytes(raw)
    assert "damaged archive" in failure(path)


def test_a_sample_that_is_not_json_is_named(tmp_path: Path) -> None:
    assert "samples/1.json" in failure(archive(tmp_path / "x.eval", {"samples/1.json": b"{"}))


def test_any_other_archive_is_not_a_conversation(tmp_path: Path) -> None:
    (found,) = read(archive(tmp_path / "x.zip", {"a.txt": b"text"}))
    assert isinstance(found, Skipped)
    assert found.reason == "not a conversation in a known format"


# --- folders of opencode ---------------------------------------------------------------------------------------------


def storage(root: Path, name: str, message: str = "m1") -> Path:
    session = root / "session" / "p" / "s.json"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps({"id": name, "projectID": "p", "directory": "/x", "time": {"created": 1}}))
    (root / "message" / "s1").mkdir(parents=True)
    told = {"id": message, "sessionID": "s1", "role": "user", "time": {"created": 1}}
    (root / "message" / "s1" / "m.json").write_text(json.dumps(told))
    (root / "part" / "m1").mkdir(parents=True)
    (root / "part" / "m1" / "1.json").write_text(json.dumps({"id": "p1", "type": "text", "text": "Hello"}))
    return session


def test_a_session_of_opencode_is_read_with_the_files_that_belong_to_it(tmp_path: Path) -> None:
    (found,) = sessions(storage(tmp_path / "storage", "s1"))
    assert [event["payload"]["content"] for event in found.events if event["kind"] == "user.input"] == [
        [{"type": "text", "text": "Hello"}]
    ]


@pytest.mark.parametrize("name", ["../../outside", "s1/../../../outside", "/etc", "..", "s1\u0000"])
def test_ids_that_are_paths_lead_nowhere(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "m.json").write_text(json.dumps({"id": "m9", "sessionID": "s1", "role": "user"}))
    assert sessions(storage(tmp_path / "a" / "storage", name)) == []
    (found,) = sessions(storage(tmp_path / "b" / "storage", "s1", message=name))
    assert "Hello" not in json.dumps(list(found.events))


def test_links_out_of_the_storage_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"id": "p2", "type": "text", "text": "secret"}))
    session = storage(tmp_path / "storage", "s1")
    (tmp_path / "storage" / "part" / "m1" / "2.json").symlink_to(secret)
    (found,) = sessions(session)
    assert "secret" not in json.dumps(list(found.events))
