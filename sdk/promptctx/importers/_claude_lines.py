"""The lines of one Claude Code chain as events. See `claude_code` for the rule that shapes it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from promptctx.importers._content import call_of, content_of, is_empty, thinking_of, usage_of
from promptctx.importers._messages import output_event, result_event, user_event
from promptctx.importers._model import Json, WireEvent, record, text
from promptctx.importers._record import Recorder, canonical, kind_name

ENVELOPE = frozenset(
    {
        "uuid", "parentUuid", "sessionId", "session_id", "timestamp", "isSidechain", "userType", "cwd", "version",
        "gitBranch", "slug", "entrypoint", "agentId", "permissionMode", "mode", "leafUuid",
    }
)  # fmt: skip
ENVIRONMENT = ("cwd", "gitBranch", "version", "entrypoint", "slug", "userType")

SAID_OF_ALL = ("type", "isSidechain", "sessionId", "session_id", "agentId")

NO_DIRECTIVES = (
    "<local-command-stdout>", "<local-command-stderr>", "<bash-input>", "<bash-stdout>", "<bash-stderr>",
    "<local-command-caveat>", "<task-notification>", "[Request interrupted by user",
)  # fmt: skip
"""How texts begin that stand in the user's place but that nobody typed as a request."""

THINKING = ("thinking", "redacted_thinking")
REFUSALS = ("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action")

FOLDED_LINES = 200
FOLDED_BYTES = 200_000


@dataclass(slots=True)
class Reply:
    """The reply that is being written, line by line."""

    message: str | None = None
    output: str | None = None
    """event id of its assistant.output"""
    usage: dict[str, int] = field(default_factory=dict)
    thinking: list[dict[str, Any]] = field(default_factory=list)
    """thoughts whose text or call has not come yet"""
    thought: tuple[int, dict[str, Json]] | None = None


@dataclass(slots=True)
class Chain:
    log: Recorder
    reply: Reply = field(default_factory=Reply)
    progress: list[dict[str, Json]] = field(default_factory=list)
    progress_size: int = 0
    environment: dict[str, Json] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    caveats: set[str] = field(default_factory=set)

    def line(self, number: int, fields: dict[str, Json], value: Json) -> Iterator[WireEvent]:
        kind = fields.get("type")
        if kind == "progress":
            yield from self._progress(number, fields)
            return
        yield from self._folded(number)
        yield from self._surroundings(number, fields)
        if kind == "assistant" and fields.get("isApiErrorMessage") is not True:
            yield from self._assistant(number, fields)
        elif kind == "user" and fields.get("isCompactSummary") is not True:
            yield from self._user(number, fields)
        elif kind == "attachment" and (prompt := _queued_prompt(fields)):
            yield user_event(self.log, number, {"content": prompt}, fields.get("timestamp"), True)
        else:
            yield self._custom(number, fields, value)

    def end(self) -> None:
        """What is still open at the end stays out: its event would change with the next line."""
        if self.reply.thinking:
            self.log.oddities["thoughts at the end, left until their reply is there"] += len(self.reply.thinking)
        if self.progress:
            self.log.oddities["progress lines at the end, left until something follows"] += len(self.progress)

    # --- replies -----------------------------------------------------------------------------------------------------

    def _assistant(self, number: int, fields: dict[str, Json]) -> Iterator[WireEvent]:
        message = record(fields.get("message"))
        identity = text(message.get("id"))
        if identity is None or identity != self.reply.message:
            yield from self._finished()
            self.reply = Reply(identity)
        blocks = message.get("content")
        blocks = blocks if isinstance(blocks, list) else [{"type": "text", "text": blocks}]
        said = [block for block in blocks if record(block).get("type") not in THINKING]
        thoughts = [thinking_of(block) for block in blocks if record(block).get("type") in THINKING]
        calls = [block for block in said if record(block).get("type") == "tool_use"]
        if said and said == calls and self.reply.output and not thoughts and not self.reply.thinking:
            yield from self._joining(number, fields, calls)
        elif said:
            yield self._output(number, fields, said, thoughts)
        else:
            self.reply.thinking += thoughts
            self.reply.thought = number, fields
        yield from self._usage(number, fields, message)

    def _output(
        self, number: int, fields: dict[str, Json], said: list[Json], thoughts: list[dict[str, Any]]
    ) -> WireEvent:
        message = record(fields.get("message"))
        shown = [block for block in said if record(block).get("type") != "tool_use"]
        calls = [call_of(block) for block in said if record(block).get("type") == "tool_use"]
        if self.reply.output:
            self.log.oddities["replies with text in several places, kept as several outputs"] += 1
        first = self.reply.output is None
        event = output_event(
            self.log, number, content_of(shown), calls, [*self.reply.thinking, *thoughts],
            at=fields.get("timestamp"), model=message.get("model"), usage=message.get("usage") if first else None,
        )  # fmt: skip
        if first:
            self.reply.usage = usage_of(message.get("usage"))
        self.reply.output, self.reply.thinking = event["event_id"], []
        return event

    def _joining(self, number: int, fields: dict[str, Json], calls: list[Json]) -> Iterator[WireEvent]:
        for place, block in enumerate(calls):
            call = call_of(block)
            self.log.called(call["id"])
            payload = {"call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
            yield self.log.event(
                f"{number}.{place}", "tool.called", payload, actor="agent", at=fields.get("timestamp"),
                cause=self.reply.output,
            )  # fmt: skip

    def _usage(self, number: int, fields: dict[str, Json], message: dict[str, Json]) -> Iterator[WireEvent]:
        """Later lines of a reply may know more of what it cost than the line that made its output."""
        usage = usage_of(message.get("usage"))
        if self.reply.output and usage and usage != self.reply.usage:
            self.reply.usage = usage
            at = fields.get("timestamp")
            yield self.log.event(f"{number}.usage", "custom.claude_code.usage", usage, at=at, cause=self.reply.output)

    def _finished(self) -> Iterator[WireEvent]:
        """A reply that was only thought so far will get nothing more: something else came."""
        if self.reply.thinking and self.reply.thought is not None:
            number, fields = self.reply.thought
            yield self._output(number, fields, [], [])
        self.reply = Reply()

    # --- what the user and the tools say -----------------------------------------------------------------------------

    def _user(self, number: int, fields: dict[str, Json]) -> Iterator[WireEvent]:
        message, at = record(fields.get("message")), fields.get("timestamp")
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if record(block).get("type") == "tool_result"]
        for place, block in enumerate(results):
            yield from self._result(f"{number}.{place}" if place else number, fields, record(block))
        rest = [block for block in blocks if block not in results] if isinstance(content, list) else content
        if results and not rest:
            return  # the reply may still go on: tools run while it is written
        yield from self._finished()
        yield from self._rewound(number, fields)
        position = f"{number}.said" if results else number
        yield user_event(self.log, position, {"content": rest}, at, self._is_directive(fields, rest))

    def _is_directive(self, fields: dict[str, Json], content: Json) -> bool:
        said = content_of(content)
        begin = said if isinstance(said, str) else str(record(said[0] if said else None).get("text"))
        uuid = text(fields.get("uuid"))
        if begin.startswith("<local-command-caveat>") and uuid:
            self.caveats.add(uuid)
        if begin.startswith("<command-name>") and fields.get("parentUuid") in self.caveats:
            return False  # a command of the program itself, which the model was told not to answer
        return fields.get("isMeta") is not True and not begin.startswith(NO_DIRECTIVES)

    def _result(self, position: object, fields: dict[str, Json], block: dict[str, Json]) -> Iterator[WireEvent]:
        at, more = fields.get("timestamp"), fields.get("toolUseResult")
        shown = block.get("content")
        refused = fields.get("toolDenialKind") == "user-rejected" or str(shown).startswith(REFUSALS)
        status = "rejected" if refused else "error" if block.get("is_error") is True else None
        event = result_event(
            self.log, position, {"content": shown, "tool_call_id": block.get("tool_use_id")}, at, status
        )
        yield event
        if (rest := _beyond(more, shown)) is not None:
            name = "custom.claude_code.tool_use_result"
            yield self.log.event(f"{position}.more", name, rest, at=at, cause=event["event_id"])

    def _rewound(self, number: int, fields: dict[str, Json]) -> Iterator[WireEvent]:
        """Two prompts under one parent: the user went back and asked again. The log keeps both, in its order."""
        parent = text(fields.get("parentUuid"))
        if parent is None or fields.get("isMeta") is True:
            return
        if parent in self.prompts:
            self.log.oddities["prompts that go back to an earlier point"] += 1
            payload = {"uuid": fields.get("uuid"), "parentUuid": parent}
            yield self.log.event(f"{number}.rewound", "custom.claude_code.rewound", payload)
        self.prompts.add(parent)

    # --- everything else ---------------------------------------------------------------------------------------------

    def _surroundings(self, number: int, fields: dict[str, Json]) -> Iterator[WireEvent]:
        """Working directory, branch and version stand on every line; one event tells each change."""
        found = {key: fields[key] for key in ENVIRONMENT if fields.get(key) is not None}
        if (now := {**self.environment, **found}) != self.environment:
            self.environment = now
            yield self.log.event(f"{number}.environment", "custom.claude_code.environment", dict(self.environment))

    def _custom(self, number: int, fields: dict[str, Json], value: Json) -> WireEvent:
        kind = fields.get("type")
        if kind == "user":
            name = "compact_summary"
        elif kind == "assistant":
            name = "api_error_message"
        else:
            name = kind_name(fields.get("subtype") if kind == "system" else kind or "line")
        if not fields:
            self.log.oddities["lines that are no object"] += 1
        kept = {key: fields[key] for key in fields if key not in ENVIRONMENT}
        return self.log.event(number, f"custom.claude_code.{name}", kept or value, at=fields.get("timestamp"))

    def _progress(self, number: int, fields: dict[str, Json]) -> Iterator[WireEvent]:
        """Progress lines are most of a log and say little: a run of them becomes one event."""
        kept = {key: fields[key] for key in fields if key not in ENVIRONMENT and key not in SAID_OF_ALL}
        size = len(canonical(kept))
        if len(self.progress) >= FOLDED_LINES or self.progress_size + size > FOLDED_BYTES:
            yield from self._folded(number)
        self.progress.append(kept)
        self.progress_size += size

    def _folded(self, number: int) -> Iterator[WireEvent]:
        if self.progress:
            lines, self.progress, self.progress_size = self.progress, [], 0
            yield self.log.event(f"{number}.progress", "custom.claude_code.progress", {"lines": lines})


def _queued_prompt(fields: dict[str, Json]) -> Json:
    """A prompt typed while the agent worked, delivered in the middle of its turn."""
    attachment = record(fields.get("attachment"))
    typed = attachment.get("type") == "queued_command" and attachment.get("commandMode") == "prompt"
    prompt = attachment.get("prompt")
    return prompt if typed and fields.get("isMeta") is not True and not is_empty(content_of(prompt)) else None


def _beyond(more: Json, shown: Json) -> Json:
    """What the structured result tells beyond the text the model got; None if nothing."""
    said = shown if isinstance(shown, str) else canonical(shown)
    if isinstance(more, dict):
        return {key: value for key, value in more.items() if value and value != said} or None
    if isinstance(more, str):
        return None if more.removeprefix("Error: ") == said else {"text": more}
    return {"value": more} if more else None
