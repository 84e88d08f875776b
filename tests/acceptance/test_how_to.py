"""Every page of docs/how-to is followed as it stands; those that want services, in test_compose_processes.py."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from howto_pages import FOLDER, PAGES, Env, blocks_of, files_of, fits, follow
from server_process import ROOT, environment, free_port, running

COMPOSED = [page for page in PAGES if "docker compose" in (FOLDER / page).read_text(encoding="utf-8")]
OWN_SERVER = [page for page in PAGES if "serve.py" in files_of(page)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Env]]:
    """One server for all pages that bring none, set as one of them says: its address, and how to find its store."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "promptctx.toml").write_text(files_of("custom-mode.md")["promptctx.toml"], encoding="utf-8")
    settings = {"PROMPTCTX_CONFIG": str(folder / "promptctx.toml")}
    with running(folder, **settings) as server:
        yield server.url, {**environment(folder), **settings}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in COMPOSED + OWN_SERVER])
def test_the_page_can_be_followed(
    page: str, shared: tuple[str, Env], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, env = shared
    monkeypatch.setenv("PROMPTCTX_URL", url)
    follow(page, env, tmp_path)


@pytest.mark.parametrize("page", OWN_SERVER)
def test_the_page_can_be_followed_on_the_server_that_it_writes(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = tmp_path / "serve.py"
    serve.write_text(files_of(page)["serve.py"], encoding="utf-8")
    settings = {"PROMPTCTX_PORT": str(free_port()), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}"}
    with running(tmp_path, command=[str(serve)], **settings) as server:
        monkeypatch.setenv("PROMPTCTX_URL", server.url)
        follow(page, {**environment(tmp_path), **settings}, tmp_path)


def test_every_page_is_listed_and_runs_something() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"]({page})" in listed
        assert any(kind == "sh" or (kind == "python" and not name) for kind, name, _ in blocks_of(page)), page


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a …\n", "a 1\nb\n", True),
        ("…b…d", "abcd", True),
        ("…b…b", "ab", False),
        ("x…", "ax", False),
    ],
)
def test_what_is_shown_is_what_was_said_with_anything_for_dots(shown: str, said: str, same: bool) -> None:
    assert fits(shown, said) is same
