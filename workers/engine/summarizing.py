"""Summarize: ask a model for one text in the place of units that left the window, once there are enough of them, and
for what in them is worth remembering.

What is asked is read in a short unit, the model answers outside of any, and its answer is one event: the first writer
wins, for the event's id is that of what was asked. Where the model fails, the lines that compiles make by themselves
stay.
"""

import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

import structlog

from domain.answers import Malformed
from domain.canonical import canonical_json, sha256_hex
from domain.compiling import still_holds
from domain.counting import Counter
from domain.manifests import SUMMARY_LIMIT, WORDS, Manifest, accepted, manifest
from domain.masking import Masker, masker
from domain.memorising.deciding import Method, numbered
from domain.memorising.extracting import MOST_HELD, Heeding, Proposal, question, read
from domain.requests import parse_request
from domain.snapshots import Layout
from workers import tracing
from workers.engine import append, contexts, memorising, models, requests
from workers.engine.contexts import Pins, Reach
from workers.engine.deps import Deps
from workers.engine.leases import Outcome, keep, pause, settle, under
from workers.engine.memorising import Told
from workers.engine.reading import subject_stream
from workers.llm import Model, ModelFailed
from workers.store import snapshots, streams, work
from workers.store.work import Claim

Json = dict[str, Any]

TASK, EXTRACT = "summarize", "extract"
NAMESPACE = uuid.UUID("6f0a2b1e-31d5-5a0e-9a3a-6b8f1c7b0d55")
YIELD_AFTER = 2.0
FACTS_LIMIT = 4_000
"""Tokens that an answer with facts may have."""

MARGIN = 10.0
"""Seconds that a lease lasts longer than an answer may take."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Asking:
    """What to ask of the model, and how the answer is counted."""

    session: str
    subject: str
    manifest: Manifest
    count: Counter
    mask: Masker


def summarize(deps: Deps, tenant: str, stream: int) -> Outcome:
    """Claim the session's work and ask for what is missing. A model that fails is asked again after a pause, and given
    up after some attempts, until the next trim."""
    lease = max(deps.lease, int((deps.model.seconds + MARGIN) * 1_000_000)) if deps.model else deps.lease
    with deps.database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, TASK, lease=lease)
    if claimed is None:
        return Outcome.IDLE
    with tracing.span(TASK, tenant=tenant, stream=stream):
        outcome = under(deps, claimed, _drain)
    deps.signals.progressed()
    if outcome is Outcome.MORE:
        deps.dispatcher.ring(tenant, stream, TASK)
    return outcome


def _drain(deps: Deps, claimed: Claim) -> Outcome:
    until = time.monotonic() + YIELD_AFTER
    model = deps.model
    while model is not None and (asking := _next(deps, claimed)) is not None:
        try:
            # Facts first: the summary is the mark that all is done for its block.
            _remember(deps, claimed, model, asking)
            _write(deps, claimed, model, asking)
        except ModelFailed as failed:
            logger.warning("the model gave nothing of use", reason=failed.reason, attempt=claimed.attempts)
            if claimed.attempts < work.MAX_ATTEMPTS:
                pause(deps, claimed, f"the model gave nothing of use: {failed.reason}")
                return Outcome.IDLE
            break
        with deps.database.write(claimed.tenant) as unit:
            if time.monotonic() > until:
                return settle(unit, claimed, claimed.done_seq)
            keep(unit, claimed, claimed.done_seq)
    with deps.database.write(claimed.tenant) as unit:
        return settle(unit, claimed, claimed.wanted_seq)


def _next(deps: Deps, claimed: Claim) -> _Asking | None:
    """What is to be summarised next: of the units before the cut of the newest prompt, as the session stands now."""
    with deps.database.read(claimed.tenant) as unit:
        home = streams.by_number(unit, claimed.tenant, claimed.stream)
        newest = snapshots.listing(unit, claimed.tenant, claimed.stream, 1, None)
        body = snapshots.body(unit, newest[0]) if newest else None
        data = snapshots.layout(unit, claimed.tenant, claimed.stream, newest[0].id) if newest else None
        pinned = requests.pin(unit, home) if home else None
    layout = Layout.read(data)
    if home is None or body is None or layout is None or pinned is None:
        return None
    pins = Pins(claimed.tenant, parse_request(body["request"]), pinned.heads, pinned.newest)
    loaded = contexts.load(deps, pins, Reach(layout))
    if not still_holds(layout, loaded.context):
        return None
    history, session = loaded.context.history, loaded.context.session
    shown = set(layout.kept)
    gone = [
        unit
        for unit in (*history.older, *history.recent)
        if unit.seq < layout.cut and not unit.orphan and not unit.open and shown.isdisjoint(unit.events)
    ]
    found = manifest(gone, session.tables["summaries"].values())
    subject = subject_stream(home.name, home.about.get("subject"))
    return _Asking(home.name, subject, found, loaded.count, masker(session)) if found else None


def _remember(deps: Deps, claimed: Claim, model: Model, asking: _Asking) -> None:
    """What of a block is worth remembering, written as the rules decide about what the model proposes."""
    prompt = deps.prompts.get(EXTRACT)
    if prompt is None:
        return
    tenant, stream, block = claimed.tenant, claimed.stream, asking.manifest
    state, _ = memorising.state_of(deps, tenant, asking.subject)
    memories = [one for one in state.rows("memories") if one.closed_by is None and one.scope == "subject"]
    newest = sorted(memories, key=lambda memory: memory.seq)[-MOST_HELD:]
    held = numbered(replace(memory, text=asking.mask(memory.text)) for memory in newest)

    def heard(answer: str) -> list[Proposal]:
        try:
            return read(answer, block, held)
        except Malformed:
            raise ModelFailed("the answer is no list of facts") from None

    text = question(block, held)
    found = models.ask(deps, model, tenant, stream, EXTRACT, prompt.text, text, FACTS_LIMIT, heard)
    by = Method("model", model.name, prompt.hash)
    told = [Told(one.candidate, one.seq) for one in found]
    memorising.memorise(deps, tenant, asking.session, told, by, Heeding(found))


def _write(deps: Deps, claimed: Claim, model: Model, asking: _Asking) -> None:
    told, block = deps.prompts[TASK], asking.manifest
    names = canonical_json([claimed.stream, *block.events, told.hash, model.name])
    event_id = str(uuid.uuid5(NAMESPACE, sha256_hex(names)))
    task = told.filled(words=WORDS)

    def shortened(answer: str) -> str:
        text = accepted(answer, block.tokens, asking.count.text)
        if text is None:
            raise ModelFailed("the summary is no shorter than its source")
        return text

    tenant, stream = claimed.tenant, claimed.stream
    text = models.ask(deps, model, tenant, stream, TASK, task, block.text, 2 * SUMMARY_LIMIT, shortened)
    payload = {
        "id": event_id, "text": text, "derived_from": list(block.events), "method": "model", "model": model.name,
        "prompt_hash": told.hash,
    }  # fmt: skip
    event = {"event_id": event_id, "kind": "summary.created", "actor": "promptctx", "payload": payload}
    append.append(deps, tenant, asking.session, [event], trusted=True)
