"""One running summary stands behind the newest tool results: the older ones, merged from what they said themselves."""

from collections.abc import Iterator

from checkers import faults
from histories import Log, compiled

from domain.canonical import canonical_json, parse_json
from domain.rendering.neutral import text_of
from domain.snapshots import Layout, Prompt
from domain.timemachine.explaining import why
from domain.timemachine.sides import Side, Told

TURNS, BUDGET, NEWEST = 30, 2_000, 3


def page(turn: int) -> str:
    return f"The file /srv/app/part_{turn}.py has {turn}17 lines. " + "Nothing of it stands out. " * 20


def reading() -> Iterator[tuple[Log, Prompt]]:
    """An agent that reads one file after the other, with its prompt after each answer."""
    log, parent = Log(), Layout()
    log.add("session.started", locale="en")
    log.user("find the longest file")
    for turn in range(TURNS):
        log.calls(f"c{turn}", name="read_page")
        log.answer(f"c{turn}", page(turn))
        prompt = compiled(log, budget=BUDGET, parent=parent)
        yield log, prompt
        parent = Layout.load(parse_json(canonical_json(prompt.layout.dump())))


def test_one_running_summary_stands_for_all_results_but_the_newest_however_often_it_was_made_anew() -> None:
    trims = 0
    for _, prompt in reading():
        trims = prompt.layout.trims
        places = [at for at, one in enumerate(prompt.messages) if one.zone == "summary"]
        answers = [at for at, one in enumerate(prompt.messages) if one.role == "tool"]
        assert len(places) == (1 if trims else 0)
        assert len(answers) >= min(NEWEST, prompt.layout.seen // 2 - 1)
        assert all(place < min(answers) for place in places)
        assert faults(prompt.payload, "openai") == []
    assert trims > NEWEST


def test_the_running_summary_is_made_from_the_results_themselves_and_names_them() -> None:
    log, prompt = list(reading())[-1]
    said = {event.event_id: "".join(map(text_of, getattr(event.payload, "content", ()))) for event in log.events}
    lines = prompt.layout.summary
    assert len(lines) > NEWEST
    for line in lines:
        sources = " ".join(said[event_id] for event_id in line.derived_from)
        told = [one.text for note in line.notes if note.role == "tool" for one in note.fragments]
        assert all(text in sources for text in told)
    [summary] = [row for row in prompt.provenance if row["zone"] == "summary"]
    assert [tuple(events) for events in summary["lines"] if events] == [line.derived_from for line in lines]


def test_the_running_summary_is_shown_only_where_it_is_shorter_and_says_why() -> None:
    log, prompt = list(reading())[-1]
    lines = prompt.layout.summary
    assert all(line.tokens <= line.given for line in lines)
    assert sum(line.tokens for line in lines) < sum(line.given for line in lines) / 2
    side = Side("prompt", (), prompt.report, {}, {"session": len(log.events)})
    for line in lines:
        for event_id in line.derived_from:
            event = next(one for one in log.events if one.event_id == event_id)
            assert why(Told(event_id, event.seq, "session", event.kind), side).disposition == "summarized"
