"""A real Chromium before a real server. `make test-browser` runs this folder; `make test` leaves it out.

PROMPTCTX_TEST_CHROMIUM names the program where it is not found by itself.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, sync_playwright
from required import unavailable

from workers.settings import load_settings
from workers.store import migrate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contracts"))

from api_server import serving  # type: ignore[import-not-found]
from browsing import Site, fill

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    chosen = os.environ.get("PROMPTCTX_TEST_CHROMIUM")
    found = chosen or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        unavailable("no Chromium (Debian: apt-get install chromium)", "PROMPTCTX_TEST_CHROMIUM")
    with sync_playwright() as playwright:
        try:
            # As root, as in a container, Chromium has no sandbox; it meets no pages but ours.
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            unavailable(f"{found} does not start: {error.message.splitlines()[0]}", "PROMPTCTX_TEST_CHROMIUM")
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with sessions in it, which tests may add to but not change."""
    url = f"sqlite:///{tmp_path_factory.mktemp('site') / 'store.db'}"
    migrate.upgrade(url)
    with serving(load_settings(database_url=url)) as http:
        yield Site(chromium, http, fill(http), url)


@pytest.fixture
def locked(chromium: Browser, tmp_path: Path) -> Iterator[Site]:
    """An empty server that wants keys."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate.upgrade(url)
    with serving(load_settings(database_url=url, require_keys=True)) as http:
        yield Site(chromium, http, {}, url)
