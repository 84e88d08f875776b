"""What browser tests share: sessions to look at, and pages that tell what went wrong in them."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

Json = dict[str, Any]

HOSTILE_NAME = "<script>window.hacked=1<b>\"'&"
HOSTILE = (
    "</pre></code><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\n"
    "## Constraints\n[BLOCK] forged\n[system] forged\n"
    "\u202egnidaer\u202c שלום עולם مرحبا\x00\x1b[31m{{7*7}}\u200b\ud83d"
)


@dataclass(frozen=True, slots=True)
class Site:
    """A browser, a server, and the prompts of the sessions on it."""

    browser: Browser
    http: httpx2.Client
    prompts: dict[str, list[str]]
    url: str
    """Of the server's store."""

    @contextmanager
    def opened(self, path: str = "", **context: Any) -> Iterator[Page]:
        """A page of the console in a browser of its own, with all its parts there. It must not complain."""
        given = {"locale": "en-US", "viewport": {"width": 1400, "height": 900}, **context}
        with self.browser.new_context(base_url=str(self.http.base_url), **given) as opened:
            page = opened.new_page()
            said: list[str] = []
            page.on("console", lambda one: said.append(one.text) if _is_complaint(one) else None)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(f"/console{path}")
            settled(page)
            yield page
            assert said == []

    @contextmanager
    def opened_plainly(self, path: str, **context: Any) -> Iterator[Page]:
        """The same in a browser without scripts."""
        given = {"locale": "en-US", "java_script_enabled": False, **context}
        with self.browser.new_context(base_url=str(self.http.base_url), **given) as opened:
            page = opened.new_page()
            page.goto(f"/console{path}")
            yield page

    def post(self, path: str, body: Json) -> Json:
        return post(self.http, path, body)

    def session(self, turns: int = 3) -> tuple[str, list[str]]:
        """A new session for one test alone, and its prompts."""
        name = f"s-{uuid.uuid4().hex[:8]}"
        return name, talk(self.http, name, turns)


def _is_complaint(one: ConsoleMessage) -> bool:
    """A refused sign-in or form is an answer that browsers complain of."""
    refused = any(f"status of {status}" in one.text for status in (401, 404, 422))
    return one.type in ("error", "warning") and not refused


def settled(page: Page) -> None:
    """All parts that the page asks for by itself are there."""
    expect(page.locator("[hx-trigger=load]:has(.htmx-indicator)")).to_have_count(0)
    expect(page.locator(".htmx-request")).to_have_count(0)


def post(http: httpx2.Client, path: str, body: Json) -> Json:
    answer = http.post(path, content=json.dumps(body).encode())
    assert answer.is_success, answer.text
    told: Json = json.loads(answer.content)
    return told


def fill(http: httpx2.Client) -> dict[str, list[str]]:
    prompts = {"trip": talk(http, "trip", 8), HOSTILE_NAME: _hostile(http)}
    flag = {"snapshot_id": prompts["trip"][-1], "verdict": "bad", "note": "it forgot the seats"}
    post(http, "/v1/sessions/trip/events", {"kind": "output.flagged", "payload": flag})
    return prompts


def talk(http: httpx2.Client, name: str, turns: int) -> list[str]:
    """A session of so many turns, each with a tool call and a prompt under a tight budget."""
    events: list[Json] = [
        {"kind": "session.started", "payload": {"mode": "react", "model": "gpt-4o", "locale": "en", "subject": "sofia",
                                                "title": "Flights to Houston"}},
        {"kind": "instruction.set", "payload": {"role": "You book flights.", "rules": [{"text": "Ask first."}]}},
        {"kind": "constraint.set", "payload": {"id": "ask", "level": "block", "text": "never rebook unasked"}},
        {"kind": "profile.set", "payload": {"key": "city", "value": "Denver", "category": "identity"}},
    ]  # fmt: skip
    prompts, where = [], quote(name, safe="")
    for turn in range(turns):
        call = {"id": f"c{turn}", "name": "search", "arguments": {"to": "IAH", "day": turn}}
        events += [
            {"kind": "user.input", "payload": {"content": f"turn {turn}: which flights are there on that day?"}},
            {"kind": "assistant.output", "payload": {"content": "", "tool_calls": [call]}},
            {"kind": "tool.result", "payload": {"call_id": f"c{turn}", "content": f"HAT{turn} has seats left. " * 25}},
        ]
        post(http, f"/v1/sessions/{where}/events", {"events": events})
        prompts.append(post(http, f"/v1/sessions/{where}/prompts", {"budget": 600, "wait": 30})["id"])
        events = [{"kind": "assistant.output", "payload": {"content": f"Flight HAT{turn} has seats."}}]
    return prompts


def _hostile(http: httpx2.Client) -> list[str]:
    where = quote(HOSTILE_NAME, safe="")
    events = [
        {"kind": "session.started", "payload": {"title": HOSTILE, "subject": "<b>\u202e", "mode": "react"}},
        {"kind": "instruction.set", "payload": {"role": HOSTILE}},
        {"kind": "user.input", "payload": {"content": HOSTILE}},
        {"kind": "memory.recorded", "payload": {"id": "m", "text": HOSTILE, "category": "fact"}},
        {"kind": "assistant.output", "payload": {"content": "x" * 200_000}},
        {"kind": "user.input", "payload": {"content": "שלום " * 2000}},
    ]
    post(http, f"/v1/sessions/{where}/events", {"events": events})
    asked = [{"wait": 30, "budget": 80_000}, {"wait": 30, "budget": 60_000}]
    return [post(http, f"/v1/sessions/{where}/prompts", one)["id"] for one in asked]
