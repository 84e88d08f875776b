"""The ways through the console: every page and form leads on, whatever the ids hold, on a wide page as on a phone's."""

from typing import Any
from urllib.parse import quote

import pytest
from browsing import HOSTILE_NAME, Site, settled, talk
from playwright.sync_api import Locator, Page, expect

from workers.access import create
from workers.clock import SystemClock
from workers.store import Database

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    f"{width}, {colours}, {locale}": {"viewport": size, "color_scheme": colours, "locale": locale}
    for width, size in (("wide", WIDE), ("narrow", NARROW))
    for colours, locale in (("light", "en-US"), ("dark", "zh-CN"))
}
every_look = pytest.mark.parametrize("look", LOOKS)


# --- forms stay, with what was asked and what was wrong ---------------------------------------------------------------


def ask(page: Page, event: str) -> None:
    page.locator(".ask input").fill(event)
    page.locator(".ask button").click()


@every_look
def test_the_box_of_why_is_there_for_the_next_question(site: Site, look: str) -> None:
    with site.opened("/prompts/trip@8", **LOOKS[look]) as page:
        why = page.locator("#why")
        ask(page, "2")
        expect(why).to_contain_text("2 instruction.set")
        ask(page, "777")
        expect(why.get_by_role("alert")).to_contain_text("777")
        ask(page, "5")
        expect(why).to_contain_text("5 assistant.output")
        expect(page.locator(".ask button")).to_be_in_viewport()


def test_the_box_of_why_is_there_without_scripts(site: Site) -> None:
    with site.opened_plainly("/prompts/trip@8") as page:
        ask(page, "2")
        expect(page.locator("main")).to_contain_text("2 instruction.set")
        ask(page, "5")
        expect(page.locator("main")).to_contain_text("5 assistant.output")
        ask(page, "777")
        page.get_by_role("link", name="The prompt").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("trip v8")


@every_look
def test_a_what_if_that_does_not_fit_is_corrected_in_its_form(site: Site, look: str) -> None:
    with site.opened("/prompts/trip@8/what-if", **LOOKS[look]) as page:
        budget = page.locator("input[name=budget]")
        page.locator("input[name=query]").fill("seats on that day")
        budget.fill("10")
        page.locator("form.grid button").click()
        expect(page.get_by_role("alert")).to_contain_text("the budget is 10")
        expect(budget).to_have_value("10")
        expect(budget).to_have_attribute("aria-invalid", "true")
        expect(page.locator("input[name=query]")).to_have_value("seats on that day")
        assert fits(page)
        budget.fill("3000")
        page.locator("form.grid button").click()
        expect(page.locator("#h-would")).to_contain_text("3,000")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_rollback_and_a_fork_that_cannot_be_are_corrected_in_their_forms(site: Site) -> None:
    with site.opened("/sessions/trip/rollback?to_version=99") as page:
        expect(page.get_by_role("alert")).to_contain_text("no version 99")
        page.get_by_label("to version").fill("3")
        page.get_by_role("button", name="Show what it would do").first.click()
        expect(page.locator(".lead")).to_contain_text("Going back to event")
    with site.opened("/sessions/trip/fork") as page:
        page.get_by_label("up to event").fill("999")
        page.get_by_label("as session").fill("trip/2")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.get_by_role("alert")).to_contain_text("no '/'")
        for name, told in (("..", "that is a folder"), ("trip@2", "which names a prompt")):
            page.get_by_label("as session").fill(name)
            page.get_by_role("button", name="Show what it would do").click()
            expect(page.get_by_role("alert")).to_contain_text(told)
        page.get_by_label("as session").fill("trip 2")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.get_by_role("alert")).to_contain_text("the session is at seq")
        page.get_by_label("up to event").fill("5")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.get_by_role("button", name="Fork", exact=True)).to_be_visible()


def test_what_was_refused_leads_back_to_the_session_it_is_about(site: Site) -> None:
    with site.opened("/sessions/trip/events/99999") as page:
        expect(page.get_by_role("alert")).to_contain_text("no event 99999")
        page.get_by_role("link", name="The session", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("trip")


# --- what does not fit beside stands below ----------------------------------------------------------------------------


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.fixture
def noted(site: Site) -> str:
    """A flagged answer with all that its row can hold."""
    name, prompts = site.session(1)
    flag = {"snapshot_id": prompts[0], "verdict": "bad", "note": "It took the seats of another flight. " * 8}
    label = {"snapshot_id": prompts[0], "label": "wrong-flight"}
    marks = [
        {"kind": "output.flagged", "actor": "somebody@example.org", "payload": flag},
        {"kind": "snapshot.labelled", "payload": label},
    ]
    site.post(f"/v1/sessions/{name}/events", {"events": marks})
    return name


LISTS = {
    "sessions": "",
    "flagged": "/flagged",
    "left out": "/prompts/trip@8/left-out?show=all",
    "memory": "/sessions/trip/memory",
    "settings": "/settings",
}


@pytest.mark.parametrize("look", [look for look in LOOKS if "narrow" in look])
@pytest.mark.parametrize("name", LISTS)
def test_on_a_narrow_page_every_cell_of_a_list_is_seen(site: Site, noted: str, name: str, look: str) -> None:
    with site.opened(LISTS[name], **LOOKS[look]) as page:
        cut = page.locator(".list td, .list tbody th").evaluate_all(
            "cells => cells.filter(one => one.getBoundingClientRect().right > innerWidth"
            " || one.scrollWidth > one.clientWidth + 1).map(one => one.outerHTML)"
        )
        assert cut == []
        assert fits(page)


def test_on_a_narrow_page_a_note_has_the_whole_width_and_a_date_its_name(site: Site, noted: str) -> None:
    with site.opened("/flagged", **LOOKS["narrow, light, en-US"]) as page:
        row = page.locator("tr", has_text=noted)
        note = row.locator("td", has_text="It took the seats").bounding_box()
        assert note
        assert note["width"] > 300
        expect(row.locator("time")).to_be_visible()
        named = row.locator("td:has(time)").evaluate("one => getComputedStyle(one, '::before').content")
        assert named == '"Flagged"'
        expect(row.get_by_text("somebody@example.org")).to_be_visible()


# --- the chart of versions --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(site: Site) -> str:
    """A session with more versions than the chart shows at once."""
    talk(site.http, "long", 32)
    return "long"


def newest_is_seen(page: Page) -> Locator:
    last = page.locator(".strip a").last
    expect(last).to_contain_text("v32")
    expect(last).to_be_in_viewport(ratio=1)
    expect(page.locator(".strip a").first).not_to_be_in_viewport()
    return last


@every_look
def test_the_chart_of_versions_opens_at_the_newest(site: Site, long: str, look: str) -> None:
    with site.opened(f"/sessions/{long}", **LOOKS[look]) as page:
        newest_is_seen(page).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("long v32")
    with site.opened_plainly(f"/sessions/{long}/versions", **LOOKS[look]) as page:
        newest_is_seen(page)
        page.locator(".strip a").first.scroll_into_view_if_needed()
        expect(page.locator(".strip a").first).to_be_in_viewport(ratio=1)


def test_a_few_versions_stand_at_the_left(site: Site) -> None:
    with site.opened("/sessions/trip", viewport=WIDE) as page:
        first = page.locator(".strip a").first.bounding_box()
        assert first
        assert first["x"] < 100


# --- ids --------------------------------------------------------------------------------------------------------------

IDS = [
    "a@b", "100% sure?", "a#b", "a%2Fb", "%2e%2e", "...", "a\\..\\b", "a;b=c&d", "a+b c", " ", "北京 🛫",
    HOSTILE_NAME + "2", "🛫" * 200,
]  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_links_reach_a_session_whatever_its_id_holds(site: Site, name: str) -> None:
    talk(site.http, name, 2)
    with site.opened() as page:
        page.locator("a.row").first.click()  # The newest.
        is_session(page, name)
        page.locator("#timeline a.kind").first.click()
        page.locator("#timeline pre").first.wait_for()
        page.locator(".strip a").last.click()
        settled(page)
        page.locator("a[rel=prev]").click()
        settled(page)
        expect(page.get_by_role("heading", level=1)).to_contain_text(" v1")
        ask(page, "2")
        page.locator("#why").get_by_role("link", name="The event").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("2 instruction.set")
        page.get_by_role("link", name="Fork here…").click()
        page.locator(".crumbs a").last.click()
        is_session(page, name)


def is_session(page: Page, name: str) -> None:
    settled(page)
    expect(page.locator("#head")).to_be_visible()
    shown = name if name.strip() else "U+0020"
    assert page.get_by_role("heading", level=1).text_content() == shown


def test_a_sign_in_leads_to_a_session_with_the_longest_id(locked: Site) -> None:
    """Where there is none yet: the refusal names the whole id."""
    key = create(Database(locked.url), SystemClock(), "default", "test", ["read"], None)[1]
    name = "🛫" * 200
    with locked.opened(f"/sessions/{quote(name, safe='')}") as page:
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text(f"'{name}'")
