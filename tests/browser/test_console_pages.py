"""The console in a real browser: what an engineer does there, by mouse, by keys alone, and before hostile logs."""

import json
import re
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import HOSTILE_NAME, Site, settled
from playwright.sync_api import Page, expect

from workers.access import create
from workers.clock import SystemClock
from workers.store import Database

PAGES = {
    "sessions": "",
    "search without a hit": "?q=nowhere",
    "flagged": "/flagged",
    "pipeline": "/health",
    "settings": "/settings",
    "session": "/sessions/trip",
    "audit": "/sessions/trip?stream=audit",
    "versions": "/sessions/trip/versions",
    "events": "/sessions/trip/events?before=9",
    "event": "/sessions/trip/events/3",
    "anchors": "/sessions/trip/anchors",
    "memory": "/sessions/trip/memory",
    "prompt": "/prompts/trip@8",
    "lines": "/prompts/trip@8/lines",
    "why": "/prompts/trip@8/why?event=5",
    "left out": "/prompts/trip@8/left-out",
    "diff": "/prompts/trip@7/diff?to=trip@8",
    "replay": "/prompts/trip@8/replay",
    "what if": "/prompts/trip@8/what-if?budget=1200",
    "rollback": "/sessions/trip/rollback?to_version=3",
    "fork": "/sessions/trip/fork?at_seq=5&name=branch",
    "sign in": "/sign-in",
}
LOOKS = {
    "light, wide": {"color_scheme": "light"},
    "dark, narrow, Chinese": {
        "color_scheme": "dark", "locale": "zh-CN", "viewport": {"width": 400, "height": 800},
    },
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_accessible_and_fits(site: Site, name: str, look: str) -> None:
    with site.opened(PAGES[name], **LOOKS[look]) as page:
        expect(page.locator("h1, h2").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert serious(page) == []


def serious(page: Page) -> list[str]:
    """What axe finds that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def test_what_goes_wrong_is_said_on_a_page_of_its_own(site: Site) -> None:
    with site.browser.new_context(base_url=str(site.http.base_url)) as context:
        page = context.new_page()
        answer = page.goto("/console/sessions/nobody")
        assert answer
        assert answer.status == 404
        expect(page.get_by_role("alert")).to_contain_text("No session 'nobody'")


# --- one session ------------------------------------------------------------------------------------------------------


def test_a_timeline_goes_on_while_events_arrive(site: Site) -> None:
    name, _ = site.session(1)
    with site.opened(f"/sessions/{name}") as page:
        expect(page.locator("#live")).to_have_text("live")
        rows = page.locator("#timeline > .event")
        before = rows.count()
        for word in ("one", "two", "three"):
            site.post(f"/v1/sessions/{name}/events", {"kind": "user.input", "payload": {"content": f"news {word}"}})
        expect(rows).to_have_count(before + 3)
        assert [row.split("news ")[1].strip() for row in rows.all_inner_texts()[:3]] == ["three", "two", "one"]
        expect(page.locator("#head")).to_have_text(str(before + 3))
        rows.first.get_by_role("link").click()
        expect(rows.first.locator("pre")).to_contain_text('"news three"')


def test_versions_lead_to_their_prompts(site: Site) -> None:
    with site.opened("/sessions/trip") as page:
        versions = page.locator(".strip a")
        expect(versions).to_have_count(8)
        assert page.locator(".strip li:last-child rect.z-window").count() == 1
        versions.last.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("trip v8")


def test_anchors_show_what_an_instruction_changed(site: Site) -> None:
    name, _ = site.session(1)
    site.post(f"/v1/sessions/{name}/events", {"kind": "instruction.set", "payload": {"role": "You book trains."}})
    with site.opened(f"/sessions/{name}/anchors") as page:
        expect(page.locator(".diff .came").first).to_contain_text("You book trains.")
        expect(page.locator(".diff .went").first).to_contain_text("You book flights.")


# --- one prompt -------------------------------------------------------------------------------------------------------


def test_a_line_tells_which_event_made_it_and_why_it_is_there(site: Site) -> None:
    with site.opened("/prompts/trip@8") as page:
        line = page.locator(".ln", has_text="Ask first.")
        expect(line.locator(".by")).to_be_hidden()
        line.hover()
        expect(line.locator(".by")).to_be_visible()
        expect(line.locator(".by")).to_have_text("2 instruction.set")
        line.locator("code").click()
        expect(page.locator("#why")).to_contain_text("it is in the prompt")


def test_what_was_left_out_says_why_and_what_would_have_kept_it(site: Site) -> None:
    report = json.loads(site.http.get("/v1/prompts/trip@8/report").content)
    gone = next(one for one in report["units"] if one["disposition"] in ("dropped", "summarized"))
    why = json.loads(site.http.get(f"/v1/prompts/trip@8/why?event={gone['from_seq']}").content)
    with site.opened("/prompts/trip@8") as page:
        page.locator(".left-out tr", has_text=re.compile(rf"event {gone['from_seq']}\b")).get_by_role("link").click()
        expect(page.locator("#why .sentence")).to_have_text(why["sentence"])
        page.locator("#why").get_by_role("link", name="Try it").click()
        expect(page.locator("#h-would")).to_contain_text(f"{why['kept_by']['budget']:,} tokens")


@pytest.mark.parametrize("kind", ["openai", "anthropic", "curl"])
def test_a_prompt_is_copied_as_a_request(site: Site, kind: str) -> None:
    with site.opened("/prompts/trip@8", permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_role("link", name=kind, exact=True).click()
        expect(page.locator("#copied")).to_have_text(f"{kind}: copied")
        text = page.evaluate("navigator.clipboard.readText()")
    if kind == "curl":
        assert text.startswith("curl https://api.openai.com")
        text = text.split("\n")[1]
    payload = json.loads(site.http.get("/v1/prompts/trip@8", params=_format(kind)).content)["payload"]
    assert payload.items() <= json.loads(text).items()


def _format(kind: str) -> dict[str, str]:
    return {} if kind == "curl" else {"format": kind}


def test_lines_are_found_by_their_text(site: Site) -> None:
    with site.opened("/prompts/trip@8") as page:
        page.get_by_label("Lines with").fill("never rebook")
        page.get_by_role("button", name="Find").click()
        expect(page.locator(".ln")).to_have_count(1)
        expect(page.locator(".ln")).to_contain_text("never rebook unasked")


def test_a_diff_shows_words_and_causes(site: Site) -> None:
    with site.opened("/prompts/trip@8") as page:
        page.get_by_role("link", name="Compare with v7").click()
        expect(page.locator(".change").first).to_be_visible()
        told = site.post("/v1/prompts/trip@7/diff", {"to": "trip@8"})
        expect(page.locator(".change")).to_have_count(len(told["changes"]))
        for change in told["changes"]:
            assert change["cause"]["text"] in page.locator("#changes").inner_text()


def test_a_replay_gives_its_verdict(site: Site) -> None:
    with site.opened("/prompts/trip@8") as page:
        page.get_by_role("link", name="Replay").click()
        expect(page.locator("#replay")).to_contain_text("Identical")


def test_a_what_if_shows_the_prompt_that_would_have_been(site: Site) -> None:
    with site.opened("/prompts/trip@8/what-if") as page:
        page.get_by_label("Budget in tokens").fill("3000")
        page.get_by_role("button", name="Compile so").click()
        expect(page.locator("#h-would")).to_contain_text("of 3,000 tokens")
        expect(page.locator(".change").first).to_be_visible()
    listed = json.loads(site.http.get("/v1/sessions/trip/prompts").content)["prompts"]
    assert len(listed) == 8


# --- going back and branching off -------------------------------------------------------------------------------------


def test_a_rollback_is_looked_at_and_confirmed(site: Site) -> None:
    name, prompts = site.session(3)
    with site.opened(f"/prompts/{prompts[0]}") as page:
        page.get_by_role("link", name="Roll back to here…").click()
        expect(page.locator("main")).to_contain_text("turn 2")
        assert _kinds(site, name)[-1] != "context.rolled_back"
        page.get_by_label("Reason").fill("a wrong turn")
        page.get_by_role("button", name=re.compile("Roll back to event")).click()
        expect(page.locator("#timeline > .event").first).to_contain_text("context.rolled_back")
    assert _kinds(site, name)[-1] == "context.rolled_back"
    state = json.loads(site.http.get(f"/v1/sessions/{name}/state").content)
    assert state["anchors"]["business"]["seq"] == 4


def _kinds(site: Site, name: str) -> list[str]:
    return [one["kind"] for one in json.loads(site.http.get(f"/v1/sessions/{name}/events").content)["events"]]


def test_a_fork_is_looked_at_and_confirmed(site: Site) -> None:
    name, _ = site.session(2)
    with site.opened(f"/sessions/{name}/fork?at_seq=4") as page:
        page.get_by_label("as session").fill(f"{name}-b")
        page.get_by_role("button", name="Show what it would do").click()
        page.get_by_role("button", name="Fork").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{name}-b")
    assert len(_kinds(site, f"{name}-b")) == 5


# --- how it looks -----------------------------------------------------------------------------------------------------


def test_dark_is_the_systems_choice_until_somebody_makes_another(site: Site) -> None:
    def brightness(page: Page) -> int:
        found = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(sum(map(int, re.findall(r"\d+", found)[:3])))

    with site.opened(color_scheme="dark") as page:
        assert brightness(page) < 150
        page.get_by_role("link", name="light", exact=True).click()
        assert brightness(page) > 600
        page.goto("/console/flagged")
        assert brightness(page) > 600
        page.get_by_role("link", name="dark", exact=True).click()
        assert brightness(page) < 150


def test_chinese_is_the_browsers_language_or_a_choice(site: Site) -> None:
    with site.opened(locale="zh-CN") as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("会话")
        page.get_by_role("link", name="English").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
        page.get_by_role("link", name="中文").click()
        page.goto("/console/prompts/trip@8")
        settled(page)
        expect(page.locator("#h-payload")).to_have_text("模型看到的内容")
        expect(page.locator(".zone.z-window").first).to_have_text("窗口")


def test_all_is_done_with_keys_alone(site: Site) -> None:
    with site.opened() as page:
        page.keyboard.press("/")
        page.keyboard.type("trip")
        page.keyboard.press("Enter")
        page.wait_for_url("**/console?q=trip")
        page.keyboard.press("j")
        expect(page.locator("a.row:focus")).to_have_text("trip")
        page.keyboard.press("Enter")
        page.wait_for_url("**/sessions/trip")
        settled(page)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/prompts/*")
        settled(page)
        page.keyboard.press("]")
        expect(page.get_by_role("heading", level=1)).to_contain_text("trip v2")
        settled(page)
        page.keyboard.press("j")
        expect(page.locator("a.by:focus")).to_have_text("2 instruction.set")
        page.keyboard.press("Enter")
        expect(page.locator("#why .sentence")).to_contain_text("it is in the prompt")
        page.keyboard.press("w")
        expect(page.locator("#why")).to_be_focused()
        page.goto("/console")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()


def test_without_scripts_the_pages_work_by_their_links(site: Site) -> None:
    with site.opened_plainly("/prompts/trip@8") as page:
        page.get_by_role("link", name="Show the payload").click()
        expect(page.locator(".ln").first).to_contain_text("You book flights.")
        page.locator("a.by").first.click()
        expect(page.locator(".sentence")).to_contain_text("it is in the prompt")


def test_a_sign_in_opens_the_page_that_was_asked_for(locked: Site) -> None:
    key = create(Database(locked.url), SystemClock(), "default", "test", ["read"], None)[1]
    with locked.opened("/flagged") as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        page.get_by_label("API key").fill("pctx_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not in force")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Flagged answers")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        page.goto("/console")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


# --- hostile logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["", "/sessions/{s}", "/sessions/{s}/events/3", "/sessions/{s}/anchors", "/sessions/{s}/memory", "/prompts/{p}",
     "/prompts/{p}/diff?to={q}", "/prompts/{p}/why?event=3", "/sessions/{s}/rollback?to_seq=1",
     "/sessions/{s}/fork?at_seq=3&name={s}x"],
)  # fmt: skip
def test_a_hostile_session_stays_text(site: Site, path: str) -> None:
    first, second = site.prompts[HOSTILE_NAME]
    with site.opened(path.format(s=quote(HOSTILE_NAME, safe=""), p=first, q=second)) as page:
        assert page.evaluate("window.hacked") is None
        assert page.locator("script:not([src^='/console/static/'])").count() == 0
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert "\u202e" not in page.locator("body").inner_text()
        assert serious(page) == []


def test_forged_headings_stand_in_the_message_that_said_them(site: Site) -> None:
    first, _ = site.prompts[HOSTILE_NAME]
    with site.opened(f"/prompts/{first}") as page:
        forged = page.locator(".seg", has=page.locator(".ln", has_text="[BLOCK] forged"))
        expect(forged.first).to_be_visible()
        assert forged.locator("h3 code", has_text="constraints").count() == 0
        expect(page.locator(".unseen", has_text="U+202E").first).to_be_visible()


def test_a_huge_line_opens_on_request(site: Site) -> None:
    first, _ = site.prompts[HOSTILE_NAME]
    with site.opened(f"/prompts/{first}") as page:
        line = page.locator(".ln", has_text="xxxxx").first
        short = len(line.inner_text())
        assert short < 5000
        line.get_by_role("link", name="more characters").click()
        expect(line.get_by_role("link", name="148,000 more characters")).to_be_visible()
        assert len(line.inner_text()) > 50_000
