"""Pages of one prompt: what the model saw, line by line with its cause, what was left out, and what would have been."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from domain.errors import ContextOverflow, InvalidRequest, PromptctxError
from web.access import Callers, Engines
from web.console import bars, copies
from web.console.refusals import corrected
from web.console.rendering import HEADERS, page
from web.console.visitors import HOME, Visitors
from web.parameters import MAX_PROMPT, PromptId
from workers.engine import Engine
from workers.store.kept import Kept

Json = dict[str, Any]

pages = APIRouter(prefix=HOME)

LINES = 300
"""Lines of a payload that come at a time."""

WIDE = 2000
"""Characters of a line that come at a time."""

MUCH = 50_000
UNITS = 100
CHANGES = 100
CHANGED_LINES = 60

Line = Annotated[int, Query(ge=0, le=2**53)]
Text = Annotated[str, Query(max_length=200)]
Other = Annotated[str, Query(max_length=MAX_PROMPT, pattern=r"^[^/\x00-\x1f\x7f-\x9f]*$")]

# Reading a long prompt line by line takes a second or two. A prompt never changes, so it is read once; whether it was
# erased is asked of the store each time.
_blamed = Kept[tuple[int, str, str], Json](16, 32 * 1024 * 1024)
_compared = Kept[tuple[int, str, str, str], Json](8, 32 * 1024 * 1024)


@pages.get("/prompts/{prompt}")
def prompt_page(prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers) -> Response:
    told = engine.prompt(caller.tenant, prompt)
    report = told["report"]
    bar = bars.bar(report["zones"], told["tokens"], told["budget"])
    around = _around(engine, caller.tenant, told["session"], told["version"])
    marks = engine.history.labels(caller.tenant, told["session"])["marked"]
    mine = next((one for one in marks if one["prompt"] == told["id"]), None)
    counts = {name: report["ledger"][name] for name in ("included", "summarized", "referenced", "dropped")}
    del told["payload"], told["provenance"]
    return page(visitor, "prompt.html", prompt=told, bar=bar, counts=counts, marks=mine, **around)


def _around(engine: Engine, tenant: str, session: str, version: int) -> Json:
    """The versions before and after."""
    later = engine.prompts(tenant, session, 3, str(version + 2))["prompts"]
    numbers = {one["version"] for one in later}
    return {
        "before": version - 1 if version - 1 in numbers else None,
        "after": version + 1 if version + 1 in numbers else None,
    }


# What the model saw ---------------------------------------------------------------------------------------------------


@pages.get("/prompts/{prompt}/lines")
def lines_part(
    prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers, after: Line = 0, find: Text = ""
) -> Response:
    """A piece of the payload, each line with the zone it stands in and the event that made it."""
    told = blamed(engine, caller.tenant, prompt)
    lines = [one for one in told["lines"] if one["line"] > after and (not find or find in one["text"])]
    shown = lines[:LINES]
    last = shown[-1]["line"] if len(lines) > LINES else None
    where = {"prompt": told["prompt"], "next": last, "left": len(lines) - len(shown), "find": find, "after": after}
    return page(visitor, "lines.html", segments=list(_segments(shown)), **where)


def blamed(engine: Engine, tenant: str, prompt: str) -> Json:
    """The lines of a prompt. Raises UnknownSnapshot and SnapshotRedacted."""
    key = (id(engine.deps), tenant, prompt)
    known = _blamed.get(key)
    if known is not None and _stands(engine, tenant, known):
        return known
    found = engine.history.blame(tenant, prompt)
    _blamed.put(key, found, sum(len(one["text"]) + 400 for one in found["lines"]))
    return found


def _stands(engine: Engine, tenant: str, told: Json) -> bool:
    """Whether the prompt is there still and was not erased."""
    rows = engine.prompts(tenant, told["session"], 1, str(told["version"] + 1))["prompts"]
    return bool(rows) and rows[0]["id"] == told["prompt"] and not rows[0]["redacted"]


def _segments(lines: Sequence[Json]) -> Iterator[Json]:
    """Lines that stand together; of those that one event made, only the first one names it."""
    for (key, zone, role), group in groupby(lines, lambda one: (one["segment"], one["zone"], one.get("role", ""))):
        rows: list[Json] = []
        for one in group:
            first = not rows or rows[-1]["by"] != one["by"]
            rows.append({**one, "text": one["text"][:WIDE], "more": max(0, len(one["text"]) - WIDE), "first": first})
        yield {"key": key, "zone": zone, "role": role, "slot": key[5:] if key.startswith("slot:") else "", "rows": rows}


@pages.get("/prompts/{prompt}/lines/{line}")
def line_part(
    prompt: PromptId, line: int, visitor: Visitors, engine: Engines, caller: Callers, after: Line = WIDE
) -> Response:
    """The rest of a long line, or a piece of it."""
    found = blamed(engine, caller.tenant, prompt)
    text = next((one["text"] for one in found["lines"] if one["line"] == line), "")
    piece, left = text[after : after + MUCH], max(0, len(text) - after - MUCH)
    where = {"prompt": found["prompt"], "line": line, "after": after + MUCH}
    return page(visitor, "line_rest.html", piece=piece, left=left, **where)


@pages.get("/prompts/{prompt}/why")
def why_part(
    prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers, event: Text, verify: bool = False
) -> Response:
    """Where an event went, and the rule and the numbers that decided it."""
    found = engine.history.why(caller.tenant, prompt, event, verify=verify)
    return page(visitor, "why.html", why=found, asked=event)


@pages.get("/prompts/{prompt}/as/{kind}")
def copy_of(prompt: PromptId, kind: str, engine: Engines, caller: Callers) -> Response:
    """What the buttons copy: plain text, and never a page."""
    if kind not in copies.KINDS:
        raise InvalidRequest(f"kind: one of {', '.join(copies.KINDS)}.", path="kind")
    try:
        told = engine.prompt(caller.tenant, prompt, copies.KINDS[kind])
    except ContextOverflow as refused:
        return Response(refused.message, 422, HEADERS, "text/plain; charset=utf-8")
    return Response(copies.made(kind, told), 200, HEADERS, "text/plain; charset=utf-8")


# What it did not see --------------------------------------------------------------------------------------------------


@pages.get("/prompts/{prompt}/left-out")
def left_out_part(
    prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers, after: Line = 0, show: Text = ""
) -> Response:
    """Every unit and item that is not in the prompt as it was, with its reason; or with `show=all` those that are."""
    report = engine.report(caller.tenant, prompt)
    rows = [one for one in _entries(report) if show == "all" or _is_less(one)]
    more: Json = {"next": after + UNITS if len(rows) > after + UNITS else None, "total": len(rows), "show": show}
    return page(visitor, "left_out.html", prompt=prompt, rows=rows[after : after + UNITS], after=after, **more)


def _entries(report: Json) -> Iterator[Json]:
    for unit in report["units"]:
        yield {"what": "unit", "slot": None, **unit}
    for slot, filled in report["slots"].items():
        yield from ({"what": "item", "slot": slot, "zone": "slots", **item} for item in filled["items"])


def _is_less(entry: Json) -> bool:
    return entry["disposition"] != "included" or bool(entry.get("shortened")) or bool(entry.get("cut"))


# What changed, and what would have been -------------------------------------------------------------------------------


@pages.get("/prompts/{prompt}/diff")
def diff_page(
    prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers, to: Other = "", whole: bool = False
) -> Response:
    """Two versions side by side in words: first the page, and when that is shown, what takes time to find."""
    if not visitor.part and not whole:
        told = engine.prompt(caller.tenant, prompt)
        chosen = engine.prompts(caller.tenant, told["session"], 100)["prompts"]
        return page(visitor, "diff.html", prompt=told, to=to, versions=chosen)
    key = (id(engine.deps), caller.tenant, prompt, to)
    found = _compared.get(key)
    if found is None or not all(_is_readable(engine, caller.tenant, one) for one in (prompt, to) if one):
        found = engine.history.diff(caller.tenant, prompt, to or None, _NOTHING, _NOTHING)
        _compared.put(key, found, sum(len(one["text"]) + 400 for each in found["changes"] for one in each["lines"]))
    return page(visitor, "diff_part.html", diff=found, **_limits(found))


def _is_readable(engine: Engine, tenant: str, prompt: str) -> bool:
    return bool(engine.report(tenant, prompt))


def _limits(found: Json) -> Json:
    return {
        "most": CHANGES,
        "most_lines": CHANGED_LINES,
        "wide": WIDE,
        "hidden": max(0, len(found["changes"]) - CHANGES),
    }


_NOTHING: dict[str, Any] = {}


@pages.get("/prompts/{prompt}/replay")
def replay_part(prompt: PromptId, visitor: Visitors, engine: Engines, caller: Callers) -> Response:
    """Compiled again from the log: the same bytes?"""
    return page(visitor, "replay.html", replay=engine.replay(caller.tenant, prompt))


NUMBERS = ("budget", "window")
WORDS = ("mode", "model", "format", "query")


@pages.get("/prompts/{prompt}/what-if")
def what_if_page(
    prompt: PromptId,
    visitor: Visitors,
    engine: Engines,
    caller: Callers,
    budget: Text = "",
    window: Text = "",
    mode: Text = "",
    model: Text = "",
    format: Text = "",
    query: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """What another request would have made of the same events. Nothing is stored."""
    asked = {"budget": budget, "window": window, "mode": mode, "model": model, "format": format, "query": query}
    told = engine.prompt(caller.tenant, prompt)
    modes = sorted({"chat", "tool", "rag", "react", *engine.deps.modes})
    shown: Json = {"prompt": told, "asked": asked, "modes": modes, "found": None, "bar": None, "wrong": None}
    try:
        shown |= _would(engine, caller.tenant, prompt, asked)
    except PromptctxError as error:
        return corrected(visitor, "what_if.html", shown, error)
    return page(visitor, "what_if.html", **shown)


def _would(engine: Engine, tenant: str, prompt: str, asked: Mapping[str, str]) -> Json:
    """The prompt that would have been; nothing where nothing else is asked for."""
    changes = changes_of(asked)
    if not changes:
        return {}
    found = engine.history.what_if(tenant, prompt, changes, _NOTHING)
    would = found["would"]
    bar = bars.bar(would["report"]["zones"], would["tokens"], would["budget"])
    return {"found": found, "bar": bar, **_limits(found["diff"])}


def changes_of(asked: Mapping[str, str]) -> Json:
    """What the fields of the form ask for; those left empty stay as they were."""
    changes: Json = {}
    for name, text in asked.items():
        if not (told := text.strip()):
            continue
        if name in NUMBERS:
            if not told.isascii() or not told.isdigit() or len(told) > 15:
                raise InvalidRequest(f"{name}: a whole number of tokens.", path=name)
            changes[name] = int(told)
        else:
            changes[name] = told
    return changes
