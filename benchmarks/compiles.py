"""The compile, measured beside its limit and a peer: at every turn of a session that grows, those that fit and those
that must trim told apart."""

import gc
import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import tiktoken

from benchmarks import peers
from benchmarks.driving import TENANT
from benchmarks.limits import backward_pass
from benchmarks.speed import SESSION, Measured, Scale, catch_up, events, fresh_system, median, read, spent, timed
from benchmarks.workload import chat_messages
from domain.compiling import compile_prompt
from domain.compiling import prepare as plan_of
from domain.context import Context
from domain.counting import Counter
from domain.requests import CompileRequest, parse_request
from domain.snapshots import Layout, Prompt
from domain.state import ContextState, fold
from domain.windows import MemoryHistory, Shallow, Totals, read_history
from workers.tokens import Tokens

Found = TypeVar("Found")

BUDGET = 8_000
"""Tokens of every compile that is timed."""

WARM = 3
"""Turns at the start of a session that are not counted: the first has no layout to go on from."""


def told(name: str, taken: Sequence[float]) -> Measured:
    """The median and the 95th percentile of some times."""
    ordered = sorted(taken)
    return {name: statistics.median(ordered), f"{name}_p95": ordered[int(0.95 * (len(ordered) - 1) + 0.5)]}


def told_apart(name: str, taken: Sequence[tuple[float, bool]]) -> Measured:
    """The same, with the medians of those that kept the cut of the prompt before, and of those that made a new one."""
    found = told(name, [time for time, _ in taken])
    for kind, carried in (("fits", True), ("trims", False)):
        if here := [time for time, kept in taken if kept is carried]:
            found[f"{name}_{kind}"] = median(here)
    return found


def _with_time(clock: Callable[[Callable[[], Any]], float], what: Callable[[], Found]) -> tuple[float, Found]:
    found: list[Found] = []
    return clock(lambda: found.append(what())), found[0]


def floor_pass(length: int, scale: Scale) -> Measured:
    """Milliseconds of one exact backward pass over the newest messages."""
    messages, encoding = chat_messages(events(length)), tiktoken.get_encoding("o200k_base")
    return told("floor", [spent(lambda: backward_pass(messages, BUDGET, encoding)) for _ in range(scale.compiles)])


def pure_compile(length: int, scale: Scale) -> Measured:
    """Milliseconds of the domain alone: state loaded, counts stored, payload rendered and counted. `pure` cuts the same
    history anew each time, `pure_next` goes on a turn each time, on the layout of the prompt before."""
    turns = scale.compiles + WARM
    given = [read(one, seq) for seq, one in enumerate(events(length + 4 * turns), 1)]
    state, request = fold(given[:length]), parse_request({"budget": BUDGET, "model": "gpt-4o"})
    count = Counter(Tokens().counter("o200k_base"), "o200k_base", "openai")
    layout, anew, taken = None, list[float](), list[tuple[float, bool]]()
    gc.collect()
    gc.freeze()  # A store holds the log: what stands here in its stead is not the compile's to go over.
    for turn in range(turns):
        reader = _Stored(state, count)
        time, prompt = _with_time(spent, partial(_compile_once, state, reader, request, layout, count))
        taken.append((time, bool(prompt.report["trim"]["carried"])))
        anew.append(spent(partial(_compile_once, state, reader, request, None, count)))
        layout = prompt.layout
        state = fold(given[length + 4 * turn : length + 4 * turn + 4], state)
    gc.unfreeze()
    return {**told("pure", anew[WARM:]), **told_apart("pure_next", taken[WARM:])}


def _compile_once(
    state: ContextState, reader: "_Stored", request: CompileRequest, layout: Layout | None, count: Counter
) -> Prompt:
    plan, parent = plan_of(state, request, count), layout or Layout()

    def compiled(deep: bool) -> Prompt:
        found = read_history(
            reader, state, count, plan.limit, locale=plan.locale, model=plan.model, cut=parent.cut, kept=parent.kept,
            seen=parent.seen, deep=deep,
        )  # fmt: skip
        context = Context(state, found, _NOBODY, _NOBODY, as_of=state.progress.recorded_at, query="order")
        return compile_prompt(context, request, layout, count, plan)

    try:
        return compiled(deep=False)
    except Shallow:
        return compiled(deep=True)


_NOBODY = ContextState()


class _Stored(MemoryHistory):
    """Counts and totals as a store keeps them: looked up, not added up anew at every compile."""

    def __init__(self, state: ContextState, count: Counter) -> None:
        super().__init__(state, count)
        groups = [self._by_unit[seq] for seq in self._units]
        self._messages_before = list(accumulate(map(len, groups), initial=0))
        self._tokens_before = list(accumulate((sum(map(count.message, one)) for one in groups), initial=0))

    def totals(self, before_unit: int) -> Totals:
        units = bisect_left(self._units, before_unit)
        return Totals(units, self._messages_before[units], self._tokens_before[units])


def engine_compile(length: int, scale: Scale, store: str = "sqlite") -> Measured:
    """Milliseconds from the request to the stored prompt, at one more turn each time, projected before."""
    turns = scale.compiles + WARM
    given = events(length + 4 * turns)
    taken = list[tuple[float, bool]]()
    with fresh_system(store) as system:
        for at in range(0, length, 500):
            system.engine.append(TENANT, SESSION, given[at : min(at + 500, length)])
        for turn in range(turns):
            catch_up(system)
            time, name = _with_time(timed, partial(system.request, SESSION, "openai", BUDGET))
            taken.append((time, bool(system.prompt(name).report["trim"]["carried"])))
            system.engine.append(TENANT, SESSION, given[length + 4 * turn : length + 4 * turn + 4])
    return told_apart("engine", taken[WARM:])


def trim_messages(length: int, scale: Scale, missing: list[str]) -> Measured:
    """Milliseconds of langchain-core's trim_messages on the same history with an exact counter."""
    if not scale.peers:
        return {}
    order = {"messages": chat_messages(events(length)), "budget": BUDGET, "runs": min(scale.runs, 5)}
    try:
        return told("trim_messages", peers.measure("trim_messages", order)["milliseconds"])
    except peers.PeerMissing as error:
        missing.append(str(error))
        return {}
