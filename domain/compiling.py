"""The one door: `compile_prompt` turns state, a request and the parent's layout into a prompt, and nothing else.

what must not be cut     system anchor, block constraints, tools, few-shot, pins, business anchor: the floor
what fits by rank        the six slots
what fits from the end   the window, after one atomic trim
how it is sent           messages in order, rendered, counted, accounted for
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from domain import rendering, reports
from domain.anchors import Protected, core_rules, needs, overflow, protect, system_anchor, within_share
from domain.arranging import Frame, arrange, frame
from domain.budgets import Offers, SlotFill, fill_slots, input_budget
from domain.candidates import must_cut
from domain.context import Context
from domain.counting import Counter
from domain.extracts import Reading
from domain.freezing import Frozen, freeze, is_frozen, thawed
from domain.masking import masked_instruction, masked_tool, masker
from domain.modes import BUILTIN_MODES, Mode, ModeSpec, resolve_mode
from domain.policies import Strategies, recorded
from domain.remaking import Maker
from domain.rendering.neutral import Neutral
from domain.requests import CompileRequest, SlotName
from domain.rows import Instruction, SessionInfo, Tool
from domain.slots import Facts, SlotItem, offered
from domain.snapshots import Layout, Prompt, provenance
from domain.state import ContextState
from domain.trimming import EMERGENCY, LADDER, Arrangement, Round, Trimmed, trim
from domain.validation import Built, failed_check
from domain.windows import NEWEST, Shallow
from domain.wording import WORDINGS, Wording

TAIL_RESERVE = 40
"""Tokens kept for the frame of the tail message and the seams between counted pieces."""

CHEAP = 8
"""How many times the cost of the repeated core rules must be there for them to be repeated."""

SEAMS = 16
"""Tokens by which the sum of counted pieces may miss the count of the whole, either way."""


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
    desk = _desk(context, request, count, plan)
    parent = parent if parent and still_holds(parent, context) else None

    floor, frozen = _floor(desk), thawed(parent.frozen if parent else None, desk.facts, plan.mode)
    spare = plan.limit - sum(floor.values()) + 2 * SEAMS
    if parent and not context.history.deep and must_cut(context.history, parent, spare):
        raise Shallow
    laid = _everything(desk, floor, frozen, parent) or _laid_out(desk, floor, frozen)
    maker = _maker(desk, parent)
    rounds: list[Round] = []
    trimmed = _trim(desk, laid, parent, maker, rounds, LADDER)
    if trimmed is None:
        # Before an overflow memory gives way first, then what stands for the history.
        laid = _laid_out(desk, floor, frozen, memory=False)
        trimmed = _trim(desk, laid, parent, maker, rounds, EMERGENCY)
    if trimmed is None:
        raise overflow({"fixed": plan.limit - laid[3] + 1}, plan.budget, count)

    protected, fills, _, _ = laid
    built = trimmed.built
    shown = (item for fill in fills for item in fill.shown)
    layout = replace(
        trimmed.arrangement.layout,
        anchors=_anchor_ids(desk),
        frozen=frozen or freeze(shown, desk.facts, plan.mode),
        heads=tuple(state.head for state in context.states),
        made=maker.strategies.told(trimmed.arrangement.layout.made),
    )
    outcome = reports.Outcome(context, protected, fills, trimmed, built, layout, floor, desk.tools, desk.left_out)
    return Prompt(
        messages=built.messages,
        payload=built.payload,
        tokens=count.scaled(built.tokens),
        budget=plan.budget,
        mode=plan.mode.name,
        model=plan.model,
        layout=layout,
        provenance=provenance(built.messages),
        report=reports.account(outcome, plan.mode, plan.budget, count, parent),
    )


@dataclass(frozen=True, slots=True)
class _Desk:
    """What every step of one compile has before it."""

    context: Context
    request: CompileRequest
    count: Counter
    plan: Plan
    facts: Facts
    anchor: Instruction | None
    tools: tuple[Tool, ...]
    left_out: int


def _desk(context: Context, request: CompileRequest, count: Counter, plan: Plan) -> _Desk:
    facts = Facts(
        session=context.session,
        subject=context.subject,
        tenant=context.tenant,
        parents=context.parents,
        sources=tuple(sorted(context.sources, key=lambda result: (result.source, result.slot))),
        query=context.query,
        as_of=context.as_of,
        words=plan.words,
        classic=plan.mode.classic,
    )
    mask = masker(context.session)
    tools = tuple(masked_tool(row, mask) for _, row in sorted(context.session.tables["tools"].items()))
    anchor = system_anchor(context.session, context.parents)
    told = masked_instruction(anchor, mask) if anchor else None
    shown = within_share(told, plan.mode.few_shot_share, plan.limit, count) if told else None
    left_out = len(told.examples) - len(shown.examples) if told and shown else 0
    return _Desk(context, request, count, plan, facts, shown, tools, left_out)


def still_holds(layout: Layout, context: Context) -> bool:
    """Whether nothing that the layout was made from was rolled back or redacted since, in any of the streams."""
    states = context.states
    return len(layout.heads) == len(states) and all(map(ContextState.still_holds, states, layout.heads))


def _maker(desk: _Desk, parent: Layout | None) -> Maker:
    """What makes messages smaller in this compile; what strategies of users made before is not made again."""
    plan = desk.plan
    reading = Reading(plan.words.speakers, {tool.name: tool.fields for tool in desk.tools if tool.fields})
    mask = masker(desk.context.session)
    done = [one for one in (parent.made if parent else ()) if one.text is not None]
    strategies = Strategies(desk.context.strategies, recorded((*done, *desk.context.made), mask))
    return Maker(plan.mode.policy, strategies, reading, desk.count, plan.words, mask)


def _floor(desk: _Desk) -> dict[str, int]:
    """Tokens of each part that is reserved first, besides the protected units."""
    mode, words, count = desk.plan.mode, desk.plan.words, desk.count
    nothing = replace(mode, slots=())
    blocks = fill_slots(desk.facts, nothing, 0, 0, count.text, _offers(desk, None))
    bare, ruled = frame(desk.anchor, (), mode, words, 0), frame(desk.anchor, blocks, mode, words, 0)
    return {
        "format": count.base,
        "anchor_system": _system_tokens(bare, count),
        "constraints": _system_tokens(ruled, count) - _system_tokens(bare, count),
        "tools": count.tools(desk.tools),
        "few_shot": count.neutral(bare.few_shot),
    }


def _system_tokens(around: Frame, count: Counter) -> int:
    return count.neutral([around.system]) if around.system else 0


_Laid = tuple[Protected, Sequence[SlotFill], Frame, int]
"""What is protected, what stands in the slots, all that stands around the history, and the room that is left to it."""


def _everything(desk: _Desk, floor: Mapping[str, int], frozen: Frozen | None, parent: Layout | None) -> _Laid | None:
    """The plan for a budget that holds everything: nothing gives way where nothing has to. None when it does not."""
    plan, count, history = desk.plan, desk.count, desk.context.history
    units = (*history.older, *history.recent)
    needed = sum(unit.tokens for unit in units if not unit.orphan)
    if history.since or (parent and parent.cut) or sum(floor.values()) + needed > plan.limit + SEAMS:
        return None
    protected = protect(units, desk.context.session, {}, NEWEST, count, plan.words)
    if protected is None:
        return None
    fills = fill_slots(desk.facts, plan.mode, None, _header_tokens(desk), count.text, _offers(desk, frozen))
    around = _framed(desk, fills, _reinforced(desk))
    free = tuple(unit for unit in units if unit.seq not in protected.seqs and not unit.orphan)
    messages = _arranged(desk, around, protected, Arrangement(free, (), (), Layout()))
    spent = count.payload(rendering.render(messages, desk.tools, count.format), messages)
    return (protected, fills, around, needed) if spent <= plan.limit else None


def _laid_out(desk: _Desk, floor: Mapping[str, int], frozen: Frozen | None, *, memory: bool = True) -> _Laid:
    """The plan for a budget that is short. The counts of parts add up to that of the whole but for the seams: the exact
    count decides, on plans a little over and under the limit."""
    plan, count, history = desk.plan, desk.count, desk.context.history
    units = (*history.older, *history.recent)
    for seams in (SEAMS, 0, -SEAMS):
        protected = protect(units, desk.context.session, floor, plan.limit + seams, count, plan.words)
        if protected is None:
            continue
        left = plan.limit - sum(floor.values())
        spare = left - sum(unit.tokens for unit in protected.units)
        # The newest directive must not change the slots' share, unless it leaves hardly more than that to the window.
        share = plan.mode.window_share
        allowance = max(0, min(int(left * (1 - share)), int(spare * (1 - share / 2))) - TAIL_RESERVE)
        for allowed in (allowance, 0) if memory else (0,):
            fills = fill_slots(desk.facts, plan.mode, allowed, _header_tokens(desk), count.text, _offers(desk, frozen))
            around, room = _frame_that_fits(desk, fills, protected)
            if room >= 0:
                # Slots and window share what is short: what one leaves over must not make the other shrink.
                short = allowed < plan.mode.global_slot_budget and _wants_more(fills)
                return protected, fills, around, max(0, min(room, spare - allowed)) if short else room
    found = {**floor, **needs(units, desk.context.session)}
    raise overflow({**found, "opening": max(0, plan.limit + 1 - sum(found.values()))}, plan.budget, count)


def _offers(desk: _Desk, frozen: Frozen | None) -> Offers:
    """What each slot offers now, with what the run froze in the place of what it would offer anew."""

    def offers(slot: SlotName) -> list[SlotItem]:
        found = offered(slot, desk.facts)
        if frozen is None:
            return found
        kept = [item for item in frozen.items if item.slot == slot]
        return [*kept, *(item for item in found if not is_frozen(item, desk.plan.mode))]

    return offers


def _header_tokens(desk: _Desk) -> int:
    words = desk.plan.words
    titles = [words.title(spec.slot) for spec in desk.plan.mode.slots]
    return max((desk.count.text(f"\n\n{title}\n- {words.none}\n") for title in titles), default=0)


def _wants_more(fills: Sequence[SlotFill]) -> bool:
    return any(one.reason == "global_budget" for fill in fills for one in fill.placed)


def _frame_that_fits(desk: _Desk, fills: Sequence[SlotFill], protected: Protected) -> tuple[Frame, int]:
    """The frame with the slots, with the repeated core rules where they are cheap, and the room that is left.

    What the rules would cost is not given to the window just below the point where they come in, so that the window
    never has less of a larger budget.
    """
    plan = desk.plan
    bare = _framed(desk, fills, 0)
    room = plan.limit - _fixed_tokens(desk, bare, protected)
    if not _reinforced(desk) or not core_rules(desk.anchor, _reinforced(desk)):
        return bare, room
    repeated = _framed(desk, fills, _reinforced(desk))
    left = plan.limit - _fixed_tokens(desk, repeated, protected)
    least = 0 if desk.request.overrides.reinforce_rules else (room - left) * (CHEAP - 1)
    return (repeated, left) if left >= least else (bare, min(room, least))


def _framed(desk: _Desk, fills: Sequence[SlotFill], reinforced: int) -> Frame:
    return frame(desk.anchor, fills, desk.plan.mode, desk.plan.words, reinforced)


def _reinforced(desk: _Desk) -> int:
    """How many core rules are to be repeated, where they fit."""
    overrides = desk.request.overrides
    return 0 if overrides.reinforce_rules is False else overrides.reinforce_limit


def _fixed_tokens(desk: _Desk, around: Frame, protected: Protected) -> int:
    """What the prompt needs before any of the history that may be cut."""
    messages = _arranged(desk, around, protected, Arrangement((), (), (), Layout()))
    return desk.count.payload(rendering.render(messages, desk.tools, desk.count.format), messages)


def _trim(
    desk: _Desk,
    laid: _Laid,
    parent: Layout | None,
    maker: Maker,
    rounds: list[Round],
    rungs: Sequence[tuple[str, float]],
) -> Trimmed[Built] | None:
    plan, count = desk.plan, desk.count
    protected, _, around, room = laid

    def build(attempt: Arrangement) -> Built:
        messages = _arranged(desk, around, protected, attempt)
        payload = rendering.render(messages, desk.tools, count.format)
        return Built(messages, payload, count.payload(payload, messages))

    def check(attempt: Arrangement, built: Built) -> str | None:
        return failed_check(built, attempt, protected, plan.limit)

    history, mode = desk.context.history, plan.mode
    return trim(
        history, protected, parent, room, mode.low_water, mode.lending, maker, build, check, rounds, rungs
    )  # fmt: skip


def _arranged(desk: _Desk, around: Frame, protected: Protected, attempt: Arrangement) -> tuple[Neutral, ...]:
    """The messages in order; the summary says how many units before the cut are neither shown nor summarised."""
    history, cut = desk.context.history, attempt.layout.cut
    shown = sum(unit.seq < cut for unit in (*attempt.window, *protected.units)) + len(attempt.summary)
    omitted = history.before.units + sum(unit.seq < cut for unit in history.recent) - shown
    omitted += len(attempt.layout.removed)
    return arrange(around, protected, attempt, omitted, desk.plan.words)


def _anchor_ids(desk: _Desk) -> tuple[str | None, str | None]:
    business = desk.context.session.one("business")
    return desk.anchor.event_id if desk.anchor else None, business.event_id if business else None
