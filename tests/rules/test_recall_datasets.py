"""The loaders of conversations with questions, and how their evidence is scored."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall import Tally, _ask, held, normal
from benchmarks.recalling.datasets import Conversation, Question, locomo, memdaily

CHATS: list[Any] = [
    {
        "conversation": {
            "speaker_a": "Nora",
            "session_1": [
                {"speaker": "Nora", "dia_id": "D1:1", "text": "I went to my first class!"},
                {"speaker": "Tess", "dia_id": "D1:2", "text": "Look at this", "blip_caption": "a photo of a bowl"},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_10": [{"speaker": "Tess", "dia_id": "D10:1", "text": "Last one"}],
            "session_10_date_time": "12:09 am on 13 September, 2023",
            "session_2": [{"speaker": "Nora", "dia_id": "D2:1", "text": "Second"}],
            "session_2_date_time": "no time at all",
        },
        "qa": [
            {"question": "one", "answer": "", "evidence": ["D1:1"], "category": 4},
            {"question": "two in one", "answer": "", "evidence": ["D1:1; D1:2", "D10:1"], "category": 1},
            {"question": "oddly written", "answer": "", "evidence": ["D:1:02 D2:01"], "category": 2},
            {"question": "one is not there", "answer": "", "evidence": ["D1:1", "D9:9"], "category": 3},
            {"question": "none is there", "answer": "", "evidence": ["D9:9"], "category": 3},
            {"question": "no evidence", "evidence": [], "category": 5},
        ],
    }
]

DAILY: list[Any] = [
    {
        "tid": 7,
        "message_list": [
            {"mid": 0, "message": "我表弟叫王强。", "time": "2024年03月05日 星期二 09:30", "place": "北京"},
            {"mid": 1, "message": "王强的生日是六月二日。", "time": "2024年03月06日", "place": "北京"},
        ],
        "question_list": [{"question": "我表弟哪天生日？", "target_step_id": [1, [0]]}],
    },
    {
        "tid": 7,
        "message_list": [{"mid": 0, "message": "今天下雨了。", "time": None, "place": "上海"}],
        "question_list": [
            {"question": "今天怎么样？", "target_step_id": [[0], [0]]},
            {"question": "什么也没有？", "target_step_id": []},
            {"question": "不存在？", "target_step_id": [5]},
        ],
    },
]


def written(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture
def chat(tmp_path: Path) -> Conversation:
    (found,) = locomo(written(tmp_path / "chats.json", CHATS))
    return found


@pytest.fixture
def days(tmp_path: Path) -> Conversation:
    written(tmp_path / "simple.json", DAILY)
    (found,) = memdaily(tmp_path)
    return found


def gold(conversation: Conversation) -> dict[str, set[str]]:
    return {one.text: set(one.gold) for one in conversation.questions}


def test_sessions_come_in_the_order_of_their_numbers_with_their_times(chat: Conversation) -> None:
    assert [[turn.id for turn in turns] for turns in chat.sessions] == [["D1:1", "D1:2"], ["D2:1"], ["D10:1"]]
    assert [turns[0].at for turns in chat.sessions] == ["2023-05-08T13:56:00+00:00", "", "2023-09-13T00:09:00+00:00"]
    assert [turn.speaker for turn in chat.turns] == ["Nora", "Tess", "Nora", "Tess"]


def test_evidence_is_read_from_lists_and_from_strings_that_name_several_and_ids_of_no_message_are_left_out(
    chat: Conversation,
) -> None:
    assert gold(chat) == {
        "one": {"D1:1"},
        "two in one": {"D1:1", "D1:2", "D10:1"},
        "oddly written": {"D1:2", "D2:1"},
        "one is not there": {"D1:1"},
    }
    assert [one.category for one in chat.questions] == ["4", "1", "2", "3"]


def test_the_caption_of_a_picture_is_said_after_the_whole_text(chat: Conversation) -> None:
    assert chat.turns[1].text == "Look at this [image: a photo of a bowl]"


def test_trajectories_are_one_conversation_and_equal_ids_of_two_are_two_messages(days: Conversation) -> None:
    assert len(days.sessions) == 1
    assert len({turn.id for turn in days.turns}) == len(days.turns) == 3
    assert [turn.at for turn in days.turns] == ["2024-03-05T09:30:00+00:00", "2024-03-06T00:00:00+00:00", ""]


def test_targets_are_read_from_numbers_and_lists_of_them(days: Conversation) -> None:
    texts = {turn.id: turn.text for turn in days.turns}
    told = {question: {texts[one] for one in ids} for question, ids in gold(days).items()}
    assert told == {"我表弟哪天生日？": {"我表弟叫王强。", "王强的生日是六月二日。"}, "今天怎么样？": {"今天下雨了。"}}


class Shown:
    def __init__(self, text: str) -> None:
        self._text = text

    def shown(self, question: str, budget: int) -> str:
        return self._text


def shares(text: str, budget: int = 1000) -> tuple[float, float]:
    texts = {"a": "The first sentence is here. " * 12 + "The end.", "b": "Short."}
    tally = Tally()
    _ask(Shown(text), Question("?", "only", frozenset("ab")), budget, texts, tally)
    found = tally.shares("all")
    assert found["only"] == found["all"]
    return found["all"], found["passage"]


def test_a_question_counts_only_when_every_gold_message_is_inside() -> None:
    whole = "The first sentence is here. " * 12 + "The end."
    assert shares(f"{whole}\n- user:  Short.") == (1, 1)
    assert shares(whole) == (0, 0)
    assert shares("") == (0, 0)


def test_passages_of_a_message_count_from_three_fifths_of_its_tokens() -> None:
    assert shares("Short. " + "The first sentence is here. " * 10) == (0, 1)
    assert shares("Short. The end.") == (0, 0)


def test_what_is_over_the_budget_counts_for_nothing() -> None:
    whole = "Short. " + "The first sentence is here. " * 12 + "The end."
    assert shares(whole, budget=10) == (0, 0)


def test_what_a_prompt_does_to_data_is_undone_before_it_is_compared() -> None:
    text = "One line\n  and another\u2028and a third"
    assert held(text, normal(text)) == 1
    assert held(text, "something else") == 0


def test_the_samples_that_are_shipped_can_be_read() -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "recalling" / "samples"
    chats, daily = list(locomo(folder / "chats.json")), list(memdaily(folder / "daily"))
    assert [len(one.questions) for one in chats] == [65, 42]
    assert len(daily[0].questions) == 100
