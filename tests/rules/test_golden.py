"""Golden prompts, byte for byte: a change in them changes every content hash and must be meant.

UPDATE_GOLDEN=1 writes them anew; read the difference line by line before committing it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from histories import Log, World, compiled

from benchmarks import showcase
from domain.sources import SourceItem, SourceResult

GOLDEN = Path(__file__).with_name("golden")


def weather(words: dict[str, str]) -> World:
    """A react agent in the middle of its task: the example of the specification."""
    log, subject = Log(), Log("s")
    log.add("session.started", mode="react")
    log.block("no-rm", words["no rm"])
    log.block("net", words["net"], "warn")
    step = {"text": words["call"], "tool": "http_get"}
    steps = [{"id": str(number), **step} for number in range(1, 6)]
    log.add("plan.updated", task_id="t-001", status="running", phase="executing", current_step="2", steps=steps)
    log.add("tool.registered", name="get_time", description=words["time"])
    log.add("tool.registered", name="weather_api", description=words["weather"], required=("city",))
    log.user(words["ask"])
    log.assistant("", tool_calls=[{"id": "c1", "name": "weather_api", "arguments": f'{{"city":"{words["city"]}"}}'}])
    log.answer("c1", '{"temp":22}')
    subject.add("profile.set", key=words["city key"], value=words["city"])
    subject.add("profile.set", key=words["language key"], value=words["language"])
    subject.add("memory.recorded", id="m0", text=words["name"], category="identity")
    item = SourceItem("k", words["memory"], "episodic", importance=0.7, score=0.82)
    return World(log, subject, sources=(SourceResult("memory", "recall", (item,)),))


ZH = {
    "no rm": "不允许执行 rm -rf", "net": "网络访问需要审批", "call": "调用 weather_api", "time": "获取当前时间",
    "weather": "查询天气", "ask": "北京今天天气怎么样？", "city": "北京", "city key": "城市", "language key": "语言",
    "language": "中文", "name": "用户叫张三", "memory": "上次访问天气API",
}  # fmt: skip
EN = {
    "no rm": "never run rm -rf", "net": "network access needs approval", "call": "call weather_api",
    "time": "tells the time", "weather": "looks up the weather", "ask": "What is the weather in Beijing?",
    "city": "Beijing", "city key": "city", "language key": "language", "language": "English",
    "name": "the user's name is Zhang San", "memory": "last visit to the weather API",
}  # fmt: skip

SPECIFIED = """\
【硬性约束】
- [禁止] 不允许执行 rm -rf
- [告警] 网络访问需要审批

【任务规划】
- 任务 t-001 状态=running 阶段=executing
- 进度：第 2/5 步
- 下一步：调用 weather_api (工具 = http_get)

【可用工具】
- get_time - 获取当前时间
- weather_api - 查询天气 (必填 city)
- 近期调用 weather_api [成功]: {"temp":22}

【用户画像】
- 城市：北京
- 语言：中文
- 用户叫张三

【相关回忆】
- 上次访问天气API (重要性 = 0.70, 综合分 = 0.82)"""


def test_the_classic_prompt_is_the_specified_one_byte_for_byte() -> None:
    prompt = compiled(weather(ZH), preset="classic")
    assert prompt.payload["messages"][0] == {"role": "system", "content": SPECIFIED}
    assert [message["role"] for message in prompt.payload["messages"]] == ["system", "user", "assistant", "tool"]


def long_talk() -> World:
    """A session that must be trimmed, with instructions, examples, a pin, a reference and a call that still waits."""
    log = Log()
    log.add("session.started", mode="chat", locale="en", time_zone="Asia/Shanghai")
    rules = [{"text": "Answer in one sentence."}, {"text": "Never promise a refund.", "core": True}]
    log.add(
        "instruction.set",
        role="You are the help desk of a book shop.",
        rules=rules,
        output_format="Plain text.",
        examples=[{"user": "Are you open?", "assistant": "Yes, until six."}],
    )
    log.block("pay", "never ask for card numbers")
    pinned = log.user("My customer number is C-4711.", directive=False)
    log.add("message.pinned", event_id=pinned.event_id)
    for number in range(1, 9):
        log.user(f"Where is order W{100 + number}? I ordered it on day {number} and it has not come yet.")
        log.calls(f"call{number}", content=f"Let me look up W{100 + number}.")
        log.answer(f"call{number}", f'{{"order":"W{100 + number}","status":"shipped","carrier":"DHL {number}"}}')
        log.assistant(f"Order W{100 + number} was shipped with DHL {number} and will be there in {number} days.")
    log.add("reference.expanded", reference_id="terms.md", content="## Returns\nWithin 30 days.")
    log.user("Then cancel W108, please.")
    log.calls("call9", content="One moment.")
    return World(log)


CASES: dict[str, tuple[World, dict[str, Any]]] = {
    "classic_zh": (weather(ZH), {"preset": "classic"}),
    "classic_en": (weather(EN), {"preset": "classic", "locale": "en"}),
    **{f"react_zh_{target}": (weather(ZH), {"format": target}) for target in ("openai", "anthropic", "text")},
    **{f"react_en_{target}": (weather(EN), {"format": target, "locale": "en"}) for target in ("openai", "text")},
    **{
        f"trimmed_{target}": (long_talk(), {"format": target, "budget": 520})
        for target in ("openai", "anthropic", "text")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_golden_prompt_has_not_changed(name: str) -> None:
    world, asked = CASES[name]
    payload = compiled(world, **asked).payload
    text = payload.get("text") or json.dumps(payload, ensure_ascii=False, indent=1) + "\n"
    path = GOLDEN / f"{name}.{'txt' if 'text' in payload else 'json'}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()


@pytest.mark.corpus
def test_the_page_of_prompts_before_and_after_shows_what_is_compiled(corpus: Path, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "before-and-after.md"
    if os.environ.get("UPDATE_GOLDEN"):
        showcase.main(["--corpus", str(corpus), "--doc", str(page)])
    made = tmp_path / "page.md"
    made.write_bytes(page.read_bytes())
    showcase.main(["--corpus", str(corpus), "--doc", str(made)])
    assert made.read_text() == page.read_text(), (
        "write it anew: python -m benchmarks.showcase --doc docs/before-and-after.md"
    )
