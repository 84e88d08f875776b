"""Temporal words: which time a query asks about, and that what is of it comes first without hiding the rest."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.recall.index import EMPTY, Source, extended
from domain.recall.ranking import ranked
from domain.recall.times import asked_about, spans

TODAY = date(2023, 5, 17)  # a Wednesday


def moment(day: str) -> int:
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1_000_000


AS_OF = moment("2023-05-17T12:00:00")


@pytest.mark.parametrize(
    ("query", "first", "end"),
    [
        ("What did I eat yesterday?", "2023-05-16", "2023-05-17"),
        ("the day before yesterday", "2023-05-15", "2023-05-16"),
        ("What did we decide last week?", "2023-05-08", "2023-05-15"),
        ("plans for this month", "2023-05-01", "2023-06-01"),
        ("Where was I last month?", "2023-04-01", "2023-05-01"),
        ("Where were we last May?", "2022-05-01", "2022-06-01"),
        ("What happened last March?", "2023-03-01", "2023-04-01"),
        ("Where did she travel in 2021?", "2021-01-01", "2022-01-01"),
        ("on 8 May 2022", "2022-05-08", "2022-05-09"),
        ("on May 8th, 2022", "2022-05-08", "2022-05-09"),
        ("in December 2022", "2022-12-01", "2023-01-01"),
        ("on 2022-05-08", "2022-05-08", "2022-05-09"),
        ("What did I buy 3 days ago?", "2023-05-14", "2023-05-15"),
        ("a couple of weeks ago", "2023-05-01", "2023-05-08"),
        ("What was said last Friday?", "2023-05-12", "2023-05-13"),
        ("我昨天吃了什么", "2023-05-16", "2023-05-17"),
        ("前天的会议", "2023-05-15", "2023-05-16"),
        ("上周去了哪里", "2023-05-08", "2023-05-15"),
        ("上周三", "2023-05-10", "2023-05-11"),
        ("上个月买的书", "2023-04-01", "2023-05-01"),
        ("两个月前", "2023-03-01", "2023-04-01"),
        ("2023年5月", "2023-05-01", "2023-06-01"),
        ("去年三月五号", "2022-03-05", "2022-03-06"),
        ("三天前", "2023-05-14", "2023-05-15"),
        ("2021年的旅行", "2021-01-01", "2022-01-01"),
        ("2022年十二月二十三日", "2022-12-23", "2022-12-24"),
    ],
)
def test_a_query_names_one_time(query: str, first: str, end: str) -> None:
    assert [(str(one.first), str(one.end)) for one in spans(query, TODAY)] == [(first, end)]


@pytest.mark.parametrize(
    ("query", "day"), [("三月五号", "03-05"), ("on March 5", "03-05"), ("on the 29th of Feb", "02-29")]
)
def test_a_day_without_a_year_is_that_of_every_late_year(query: str, day: str) -> None:
    found = spans(query, TODAY)
    assert len(found) > 1
    assert all(str(one.first).endswith(day) for one in found)


@pytest.mark.parametrize(
    "query",
    ["", "What is my dog called?", "You may march on 12 streets", "order 20231", "31 February 2023", "2023-13-45",
     "9999 years ago", "我的电话号码是多少", "9999年前", "99月99日", "天天向上", "以前的事"],
)  # fmt: skip
def test_a_query_that_names_no_time_names_none(query: str) -> None:
    assert spans(query, TODAY) == ()


@given(st.text(max_size=80) | st.text("今昨去前上个周星期月年日号天十二0123 May-/agostyr", max_size=40))
def test_any_query_is_read_without_an_error(query: str) -> None:
    assert all(one.first < one.end for one in spans(query, TODAY))


SAID = (
    ("2023-04-02", "We had soup for dinner."), ("2023-05-16", "We had rice for dinner."),
    ("2023-05-17", "We had bread for dinner."), ("2023-05-17", "The dinner on 16 May was late."),
)  # fmt: skip


@pytest.mark.parametrize("query", ["What was for dinner yesterday?", "dinner on 16 May", "昨天 dinner"])
def test_what_was_said_at_that_time_or_names_it_comes_first_and_the_rest_stays(query: str) -> None:
    index = extended(EMPTY, [Source(at, "user", "", text, moment(day)) for at, (day, text) in enumerate(SAID, 1)])
    hits = ranked(index, query, in_time=asked_about(index, query, AS_OF, 0))
    assert {hit.message for hit in hits[:2]} == {1, 3}
    assert [hit.in_time for hit in hits] == [True, True, False, False]


def test_a_query_without_a_time_or_with_one_of_which_nothing_is_ranks_as_ever() -> None:
    index = extended(EMPTY, [Source(at, "user", "", text, moment(day)) for at, (day, text) in enumerate(SAID, 1)])
    assert asked_about(index, "What was for dinner?", AS_OF, 0) is None
    assert asked_about(index, "What was for dinner in 2019?", AS_OF, 0) is None


def test_the_day_is_that_of_the_place_of_the_session() -> None:
    index = extended(EMPTY, [Source(1, "user", "", "Rice.", moment("2023-05-15T20:00:00"))])
    assert asked_about(index, "yesterday", AS_OF, 0) is None
    shifted = asked_about(index, "yesterday", AS_OF, 8 * 3_600_000_000)
    assert shifted is not None
    assert shifted.tolist() == [True]
