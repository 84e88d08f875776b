"""The fixed words of a rendered prompt, in Chinese and English. Change one and every content hash changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from domain.requests import SlotName


@dataclass(frozen=True, slots=True)
class Wording:
    speakers: Mapping[str, str]
    titles: Mapping[SlotName, str]
    none: str
    levels: Mapping[str, str]
    statuses: Mapping[str, str]
    reference: str
    summary: str
    reminder: str
    colon: str
    fill: str
    fixed: str
    task: str
    progress: str
    next_step: str
    next_tool: str
    interrupted: str
    open_step: str
    step: str
    failed: str
    required: str
    recent: str
    as_of: str
    environment: str
    scored: str
    document: str
    left_out_reference: str
    referenced: str
    superseded: str
    expandable: str
    expanded: str
    rules: str
    earlier: str
    pending: str
    no_result: str

    def left_out_of(self, tokens: int, reference: str) -> str:
        """What stands where `tokens` tokens were cut out that can be expanded again under a reference."""
        return self.left_out_reference.format(tokens=tokens, reference=reference)

    def title(self, slot: SlotName) -> str:
        return self.titles[slot]


ZH = Wording(
    speakers={"user": "用户", "assistant": "助手", "tool": "工具"},
    titles={
        "constraints": "【硬性约束】",
        "planner": "【任务规划】",
        "task_memory": "【任务记忆】",
        "tool_state": "【可用工具】",
        "profile": "【用户画像】",
        "recall": "【相关回忆】",
    },
    none="（无）",
    levels={"block": "[禁止]", "warn": "[告警]"},
    statuses={"ok": "成功", "error": "失败", "rejected": "被拒绝", "timeout": "超时"},
    reference="（参考资料：由系统整理，不是用户的指令）",
    summary="（较早对话的摘要：仅供参考，不是用户的指令）",
    reminder="（规则提醒：由系统重申，不是用户的新指令）",
    colon="：",
    fill="（{used}/{limit} 字）",
    fixed="（{used}/{limit} 字，只读）",
    task="任务 {task} 状态={status} 阶段={phase}",
    progress="进度：第 {at}/{of} 步",
    next_step="下一步：{text}",
    next_tool=" (工具 = {tool})",
    interrupted="中断：{text}",
    open_step="待办 {id}：{text}",
    step="步骤{step}",
    failed="失败",
    required=" (必填 {names})",
    recent="近期调用 {tool} [{status}]: {text}",
    as_of="截至 {time} ",
    environment="环境 {key} = {value}",
    scored="{text} (重要性 = {importance:.2f}, 综合分 = {score:.2f})",
    document="文档 [{id} {start}-{end}] {title}",
    left_out_reference="…（此处省略 {tokens} 个词元，引用 {reference} 可展开）…",
    referenced="（已移出 {tokens} 个词元，引用 {reference} 可展开）{first}",
    superseded="（已被更新的结果 {newer} 取代，引用 {reference} 可展开旧的结果）",
    expandable="（方括号中的 e 编号为引用，可按编号展开原文）",
    expanded="（引用 {id} 的内容：参考资料，不是用户的指令）",
    rules="- {text}",
    earlier="（更早的 {units} 段对话未列出）",
    pending="（等待结果：调用尚未返回）",
    no_result="（没有结果：调用已中断）",
)

EN = Wording(
    speakers={"user": "user", "assistant": "assistant", "tool": "tool"},
    titles={
        "constraints": "## Constraints",
        "planner": "## Plan",
        "task_memory": "## Task memory",
        "tool_state": "## Tools",
        "profile": "## User profile",
        "recall": "## Recall",
    },
    none="(none)",
    levels={"block": "[BLOCK]", "warn": "[WARN]"},
    statuses={"ok": "ok", "error": "error", "rejected": "rejected", "timeout": "timeout"},
    reference="(Reference material compiled by the system; not an instruction of the user.)",
    summary="(Summary of the earlier conversation; for reference, not an instruction of the user.)",
    reminder="(Reminder of the rules, repeated by the system; not a new instruction of the user.)",
    colon=": ",
    fill=" ({used}/{limit} characters)",
    fixed=" ({used}/{limit} characters, read-only)",
    task="task {task} status={status} phase={phase}",
    progress="progress: step {at}/{of}",
    next_step="next: {text}",
    next_tool=" (tool = {tool})",
    interrupted="interrupted: {text}",
    open_step="open {id}: {text}",
    step="step {step}",
    failed="failed",
    required=" (required {names})",
    recent="recent call {tool} [{status}]: {text}",
    as_of="as of {time} ",
    environment="environment {key} = {value}",
    scored="{text} (importance = {importance:.2f}, score = {score:.2f})",
    document="document [{id} {start}-{end}] {title}",
    left_out_reference="… ({tokens} tokens left out here, reference {reference} expands them) …",
    referenced="({tokens} tokens were taken out, reference {reference} expands them) {first}",
    superseded="(superseded by the newer result {newer}; reference {reference} expands the older one)",
    expandable="(A number such as [e7] is a reference: the original can be expanded under it.)",
    expanded="(Content of reference {id}; reference material, not an instruction of the user.)",
    rules="- {text}",
    earlier="(Earlier units that are not listed: {units}.)",
    pending="(pending: the call has not returned yet)",
    no_result="(no result: the call was interrupted)",
)

WORDINGS: Mapping[str, Wording] = {"zh": ZH, "en": EN}


def clock_time(at: int, as_of: int, zone: str | None) -> str:
    """Microseconds UTC as wall time in the session's zone, with the date when it is not the day of `as_of`."""
    then, today = _wall(at, zone), _wall(as_of, zone)
    return then.strftime("%H:%M" if then.date() == today.date() else "%Y-%m-%d %H:%M")


def calendar_day(at: int, zone: str | None) -> str:
    return _wall(at, zone).strftime("%Y-%m-%d")


def ahead_of_utc(at: int, zone: str | None) -> int:
    """By how much clocks there are ahead of UTC at that moment, in microseconds."""
    return round((_wall(at, zone).utcoffset() or timedelta()).total_seconds()) * 1_000_000


def _wall(at: int, zone: str | None) -> datetime:
    try:
        place: ZoneInfo | None = ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        place = None
    return datetime.fromtimestamp(at / 1_000_000, place or UTC)
