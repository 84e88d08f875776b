"""The one door: `compile_prompt` turns state, a request and the parent's layout into a prompt, and nothing else.

what must not be cut     system anchor, block constraints, tools, few-shot, pins, business anchor: the floor
what fits by rank        the six slots
what fits from the end   the window, after one atomic trim
how it is sent           messages in order, rendered, counted, accounted for
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from domain import rendering, reports
from domain.anchors import Protected, overflow, protect, system_anchor
from domain.arranging import Frame, arrange, frame
from domain.budgets import SlotFill, fill_slots, input_budget
from domain.counting import Counter
from domain.modes import BUILTIN_MODES, Mode, ModeSpec, resolve_mode
from domain.requests import CompileRequest
from domain.rows import Instruction, SessionInfo, Tool
from domain.slots import Facts
from domain.snapshots import Layout, Prompt, provenance
from domain.sources import SourceResult
from domain.state import ContextState
from domain.trimming import Arrangement, Trimmed, trim
from domain.validation import failed_check
from domain.windows import History
from domain.wording import WORDINGS, Wording

TAIL_RESERVE = 40
"""Tokens kept for the frame of the tail message and the seams between counted pieces."""


@dataclass(frozen=True, slots=True)
class Context:
    """All that a compile draws on, each at the seq that the request is pinned to."""

    session: ContextState
    history: History
    subject: ContextState
    tenant: ContextState
    parents: tuple[ContextState, ...] = ()
    sources: tuple[SourceResult, ...] = ()
    as_of: int = 0
    query: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request means for this session, before any history is read. `limit` is in the counter's tokens."""

    budget: int
    limit: int
    mode: Mode
    model: str | None
    locale: str

    @property
    def words(self) -> Wording:
        return WORDINGS[self.locale]


def prepare(
    session: ContextState,
    request: CompileRequest,
    count: Counter,
    modes: Mapping[str, ModeSpec] = BUILTIN_MODES,
    model_window: int | None = None,
) -> Plan:
    """The budget, mode, model and locale of a request; what it leaves open the session decides, then the defaults."""
    info: SessionInfo = session.one("session") or SessionInfo()
    runs = session.rows("runs")
    asked = request.mode or (runs[-1].mode if runs else None) or info.mode
    budget = input_budget(info, request, model_window)
    return Plan(
        budget=budget,
        limit=count.limit(budget),
        mode=resolve_mode(asked, modes, request),
        model=request.model or info.model,
        locale=request.locale or info.locale or "zh",
    )


def compile_prompt(
    context: Context, request: CompileRequest, parent: Layout | None, count: Counter, plan: Plan
) -> Prompt:
    """The prompt for a request. Same inputs, same bytes. Raises ContextOverflow when the floor is over the budget."""
    anchor = system_anchor(context.session, context.parents)
    tools = tuple(row for _, row in sorted(context.session.tables["tools"].items()))
    facts = _facts(context, plan)

    floor = _floor(anchor, facts, tools, plan, count)
    protected = _protect(context, floor, plan, count)
    floor_tokens = sum(floor.values()) + sum(unit.tokens for unit in protected.units)

    spare = plan.limit - floor_tokens
    allowance = max(0, int(spare * (1 - plan.mode.window_share)) - TAIL_RESERVE)
    fills = fill_slots(facts, plan.mode, allowance, _header_tokens(plan, count), count.text)
    around = _frame_that_fits(anchor, fills, request, plan, protected, tools, count)

    room = plan.limit - _fixed_tokens(around, protected, tools, count)
    if allowance < plan.mode.global_slot_budget and _wants_more(fills):
        # Slots and window share what is short; what one leaves over must not make the other shrink as budgets grow.
        room = min(room, spare - allowance)
    trimmed = _trim(context, protected, parent, max(0, room), around, tools, plan, count)

    messages = arrange(
        around, protected, trimmed.arrangement, _omitted(context, protected, trimmed.arrangement), plan.words
    )
    payload = rendering.render(messages, tools, count.format)
    layout = replace(trimmed.arrangement.layout, anchors=_anchor_ids(anchor, context.session))
    tokens = count.payload(payload)
    outcome = reports.Outcome(
        context.session, context.history, protected, fills, trimmed, messages, tokens, floor, tools, context.sources
    )
    report = reports.account(outcome, plan.mode, plan.budget, count, parent)
    return Prompt(
        messages=messages,
        payload=payload,
        tokens=count.scaled(tokens),
        budget=plan.budget,
        mode=plan.mode.name,
        model=plan.model,
        layout=layout,
        provenance=provenance(messages),
        report=report,
    )


def _facts(context: Context, plan: Plan) -> Facts:
    return Facts(
        session=context.session,
        subject=context.subject,
        tenant=context.tenant,
        parents=context.parents,
        sources=context.sources,
        query=context.query,
        as_of=context.as_of,
        words=plan.words,
        classic=plan.mode.classic,
    )


def _floor(
    anchor: Instruction | None, facts: Facts, tools: tuple[Tool, ...], plan: Plan, count: Counter
) -> dict[str, int]:
    """Tokens of each part that is reserved first, besides the protected units."""
    bare = _system_tokens(frame(anchor, (), plan.mode, plan.words, 0), count)
    ruled = _system_tokens(frame(anchor, _blocks_only(facts, plan, count), plan.mode, plan.words, 0), count)
    examples = count.neutral(frame(anchor, (), plan.mode, plan.words, 0).few_shot)
    return {
        "format": count.base,
        "anchor_system": bare,
        "constraints": ruled - bare,
        "tools": count.tools(tools),
        "few_shot": examples,
    }


def _blocks_only(facts: Facts, plan: Plan, count: Counter) -> list[SlotFill]:
    nothing = replace(plan.mode, slots=())
    return fill_slots(facts, nothing, 0, 0, count.text)


def _system_tokens(around: Frame, count: Counter) -> int:
    return count.neutral([around.system]) if around.system else 0


def _protect(context: Context, floor: Mapping[str, int], plan: Plan, count: Counter) -> Protected:
    units = (*context.history.protected, *context.history.recent)
    return protect(units, context.session, floor, plan.limit, count, plan.words)


def _header_tokens(plan: Plan, count: Counter) -> int:
    titles = [plan.words.title(spec.slot) for spec in plan.mode.slots]
    return max((count.text(f"\n\n{title}\n- {plan.words.none}\n") for title in titles), default=0)


def _wants_more(fills: list[SlotFill]) -> bool:
    return any(one.reason == "global_budget" for fill in fills for one in fill.placed)


def _frame_that_fits(
    anchor: Instruction | None,
    fills: list[SlotFill],
    request: CompileRequest,
    plan: Plan,
    protected: Protected,
    tools: tuple[Tool, ...],
    count: Counter,
) -> Frame:
    """The frame with the slots and as many of the repeated core rules as fit."""
    wanted = request.overrides.reinforce_limit if request.overrides.reinforce_rules is not False else 0
    for reinforced in range(wanted, -1, -1):
        around = frame(anchor, fills, plan.mode, plan.words, reinforced)
        needs = _fixed_tokens(around, protected, tools, count)
        if needs <= plan.limit:
            return around
    raise overflow({"fixed": needs}, plan.limit, count)


def _fixed_tokens(around: Frame, protected: Protected, tools: tuple[Tool, ...], count: Counter) -> int:
    """What the prompt needs before any of the history that may be cut."""
    opening = (around.system,) if around.system else ()
    kept = tuple(message for unit in protected.units for message in unit.messages)
    return count.payload(rendering.render((*opening, *around.few_shot, *kept, *around.tail), tools, count.format))


def _trim(
    context: Context,
    protected: Protected,
    parent: Layout | None,
    room: int,
    around: Frame,
    tools: tuple[Tool, ...],
    plan: Plan,
    count: Counter,
) -> Trimmed:
    def check(attempt: Arrangement) -> str | None:
        omitted = _omitted(context, protected, attempt)
        messages = arrange(around, protected, attempt, omitted, plan.words)
        return failed_check(messages, attempt, protected, tools, plan.limit, count)

    low_water = plan.mode.low_water
    found = trim(context.history, protected, parent, room, low_water, count, plan.locale, check)
    if found is None:
        raise overflow({"fixed": plan.limit - room + 1}, plan.limit, count)
    return found


def _omitted(context: Context, protected: Protected, attempt: Arrangement) -> int:
    """How many units are neither shown nor summarised."""
    shown = len(attempt.window) + len(protected.units) + len(attempt.summary)
    orphans = sum(unit.orphan for unit in context.history.recent)
    return context.history.before.units + len(context.history.recent) - shown - orphans


def _anchor_ids(anchor: Instruction | None, session: ContextState) -> tuple[str | None, str | None]:
    business = session.one("business")
    return anchor.event_id if anchor else None, business.event_id if business else None
