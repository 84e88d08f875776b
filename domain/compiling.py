"""The one door: `compile_prompt` turns state, a request and the parent's layout into a prompt, and nothing else.

what must not be cut     system anchor, block constraints, tools, few-shot, pins, business anchor: the floor
what fits by rank        the six slots
what fits from the end   the window, after one atomic trim
how it is sent           messages in order, rendered, counted, accounted for
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from domain import rendering, reports
from domain.anchors import overflow, system_anchor, within_share
from domain.budgets import input_budget
from domain.candidates import must_cut
from domain.context import Context
from domain.counting import Counter
from domain.extracts import Reading
from domain.freezing import Frozen, freeze, thawed
from domain.laying import SEAMS, Desk, Laid, Plan, arranged, everything, floor_of, laid_out
from domain.masking import masked_instruction, masked_tool, masker
from domain.modes import BUILTIN_MODES, ModeSpec, resolve_mode
from domain.policies import Strategies, recorded
from domain.remaking import Maker
from domain.requests import CompileRequest
from domain.rows import SessionInfo
from domain.slots import Facts
from domain.snapshots import Layout, Prompt, provenance
from domain.state import ContextState
from domain.trimming import EMERGENCY, LADDER, Arrangement, Round, Trimmed, trim
from domain.validation import Built, failed_check
from domain.windows import Shallow


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

    floor, frozen = floor_of(desk), thawed(parent.frozen if parent else None, desk.facts, plan.mode)
    spare = plan.limit - sum(floor.values()) + 2 * SEAMS
    if parent and not context.history.deep and must_cut(context.history, parent, spare):
        raise Shallow
    maker = _maker(desk, parent)
    (protected, fills, _, _), trimmed = _fitted(desk, floor, frozen, parent, maker)

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


def _desk(context: Context, request: CompileRequest, count: Counter, plan: Plan) -> Desk:
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
    return Desk(context, request, count, plan, facts, shown, tools, left_out)


def still_holds(layout: Layout, context: Context) -> bool:
    """Whether nothing that the layout was made from was rolled back or redacted since, in any of the streams."""
    states = context.states
    return len(layout.heads) == len(states) and all(map(ContextState.still_holds, states, layout.heads))


def _maker(desk: Desk, parent: Layout | None) -> Maker:
    """What makes messages smaller in this compile; what strategies of users made before is not made again."""
    plan = desk.plan
    reading = Reading(plan.words.speakers, {tool.name: tool.fields for tool in desk.tools if tool.fields})
    mask = masker(desk.context.session)
    done = [one for one in (parent.made if parent else ()) if one.text is not None]
    strategies = Strategies(desk.context.strategies, recorded((*done, *desk.context.made), mask))
    written = tuple(desk.context.session.tables["summaries"].values())
    return Maker(plan.mode.policy, strategies, reading, desk.count, plan.words, mask, written)


def _fitted(
    desk: Desk, floor: Mapping[str, int], frozen: Frozen | None, parent: Layout | None, maker: Maker
) -> tuple[Laid, Trimmed[Built]]:
    """The sections, and the history cut to what they leave. Before an overflow memory gives way first, then what stands
    for the history. Raises ContextOverflow."""
    rounds: list[Round] = []
    laid = everything(desk, floor, frozen, parent) or laid_out(desk, floor, frozen)
    if trimmed := _trim(desk, laid, parent, maker, rounds, LADDER):
        return laid, trimmed
    laid = laid_out(desk, floor, frozen, memory=False)
    if trimmed := _trim(desk, laid, parent, maker, rounds, EMERGENCY):
        return laid, trimmed
    raise overflow({"fixed": desk.plan.limit - laid[3] + 1}, desk.plan.budget, desk.count)


def _trim(
    desk: Desk,
    laid: Laid,
    parent: Layout | None,
    maker: Maker,
    rounds: list[Round],
    rungs: Sequence[tuple[str, float]],
) -> Trimmed[Built] | None:
    plan, count = desk.plan, desk.count
    protected, _, around, room = laid

    def build(attempt: Arrangement) -> Built:
        messages = arranged(desk, around, protected, attempt)
        payload = rendering.render(messages, desk.tools, count.format)
        return Built(messages, payload, count.payload(payload, messages))

    def check(attempt: Arrangement, built: Built) -> str | None:
        return failed_check(built, attempt, protected, plan.limit)

    history, mode = desk.context.history, plan.mode
    return trim(
        history, protected, parent, room, mode.low_water, mode.lending, maker, build, check, rounds, rungs
    )  # fmt: skip


def _anchor_ids(desk: Desk) -> tuple[str | None, str | None]:
    business = desk.context.session.one("business")
    return desk.anchor.event_id if desk.anchor else None, business.event_id if business else None
