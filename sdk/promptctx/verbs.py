"""The verbs of an agent: one typed method per kind of event a caller may send.

What a verb returns is up to who mixes them in: a receipt, an awaitable receipt, or in a batch the event's id.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Unpack

from promptctx import _messages, errors
from promptctx._messages import listed, named
from promptctx._track import (
    Draft,
    EventOptions,
    SessionOptions,
    Track,
    content_draft,
    draft,
    new_id,
    refuse_unknown,
    with_id,
)
from promptctx.values import Receipt

R = TypeVar("R")

Level: TypeAlias = Literal["block", "warn"]
ResultStatus: TypeAlias = Literal["ok", "error", "rejected", "timeout"]
Scope: TypeAlias = Literal["session", "subject", "tenant"]
MemoryKind: TypeAlias = Literal["semantic", "episodic", "procedural"]

_ENVELOPE = EventOptions.__annotations__


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that say something: None, and empty texts and lists, are the defaults of the vocabulary."""
    made = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    return {key: value for key, value in made.items() if value is not None and value != "" and value != []}


def _shot(one: Any) -> dict[str, Any]:
    if isinstance(one, Mapping):
        return dict(one)
    pair = listed(one, "examples")
    if len(pair) != 2:
        raise errors.InvalidEvent(
            "examples: each is what the user says and what the assistant answers.", path="examples"
        )
    return {"user": pair[0], "assistant": pair[1]}


def _refuse_unknown(options: EventOptions) -> None:
    """Raises TypeError for a keyword that is neither the verb's own nor the envelope's, naming the verb."""
    if not options.keys() <= _ENVELOPE.keys():
        verb = next(one for one in inspect.stack(0) if not one.function.startswith("_"))
        code = verb.frame.f_code
        own = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        refuse_unknown(options, [*own, *_ENVELOPE], verb.function)


class Verbs(ABC, Generic[R]):
    """Verbs build an event and hand it to `_emit`. Every verb takes the envelope as keywords (`EventOptions`)."""

    _track: Track

    @abstractmethod
    def _emit(self, made: Draft, options: EventOptions) -> R: ...

    def _send(
        self, kind: str, payload: Any, options: EventOptions, actor: str | None = None, schema_version: int = 1
    ) -> R:
        _refuse_unknown(options)
        if self._track.run_id and "run_id" not in options:
            options = {**options, "run_id": self._track.run_id}
        return self._emit(draft(kind, payload, options, actor=actor, schema_version=schema_version), options)

    @property
    def id(self) -> str:
        """The session's id."""
        return self._track.id

    @property
    def run_id(self) -> str | None:
        """The run that this object started and has not ended: events carry it."""
        return self._track.run_id

    # --- the session and its runs ---

    def emit(self, kind: str, payload: Any = None, *, schema_version: int = 1, **options: Unpack[EventOptions]) -> R:
        """Any event by its kind, `custom.*` and kinds of a newer server too."""
        return self._send(kind, {} if payload is None else payload, options, schema_version=schema_version)

    def start(self, **options: Unpack[SessionOptions]) -> R:
        """Say or change the session's defaults. `client.session(…, mode=…)` does so with the first event it sends."""
        refuse_unknown(options, SessionOptions.__annotations__, "start")
        return self._emit(content_draft(self.id, "session.started", options), {})

    def start_run(self, goal: str = "", *, mode: str | None = None, **options: Unpack[EventOptions]) -> R:
        """Begin one agent loop, under a new `run_id` unless one is given; what follows carries it until `end_run`."""
        _refuse_unknown(options)
        run = options.get("run_id") or new_id()
        self._track.run_id = run
        return self._send("run.started", _given(run_id=run, goal=goal, mode=mode), {**options, "run_id": run})

    def end_run(self, result: str = "", *, status: str = "done", **options: Unpack[EventOptions]) -> R:
        """End the run that this object started, or the one named by `run_id`."""
        _refuse_unknown(options)
        run = options.get("run_id") or self._track.run_id
        if not run:
            raise errors.InvalidRequest("No run is open: start_run() comes first, or name the run with run_id.")
        if run == self._track.run_id:
            self._track.run_id = None
        made = {"run_id": run, "status": status, **_given(result=result)}
        return self._send("run.ended", made, {**options, "run_id": run})

    # --- rules ---

    def instructions(
        self,
        *,
        role: str = "",
        rules: Sequence[str] = (),
        core_rules: Sequence[str] = (),
        output_format: str = "",
        examples: Sequence[tuple[str, str] | Mapping[str, str]] = (),
        text: str = "",
        **options: Unpack[EventOptions],
    ) -> R:
        """The instruction, whole: role, rules, format of the answer; it takes the place of the one before. Core rules
        may be said once more at the end of a prompt."""
        ordered = [{"text": rule, "core": True} for rule in listed(core_rules, "core_rules")]
        ordered += [{"text": rule} for rule in listed(rules, "rules")]
        shots = [_shot(one) for one in listed(examples, "examples")]
        made = _given(role=role, rules=ordered, output_format=output_format, examples=shots, text=text)
        return self._send("instruction.set", made, options)

    def constraint(
        self,
        id: str,
        text: str,
        *,
        level: Level = "block",
        pattern: str | None = None,
        source: str | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """A rule that every prompt shows; a `block` one is never trimmed. The same id again replaces it."""
        made = {"id": id, "text": text, "level": level, **_given(pattern=pattern, source=source)}
        return self._send("constraint.set", made, options)

    def remove_constraint(self, id: str, **options: Unpack[EventOptions]) -> R:
        """Take a rule back; needs the scope `policy`."""
        return self._send("constraint.removed", {"id": id}, options)

    # --- the conversation ---

    def user(
        self,
        content: _messages.Content,
        *,
        directive: bool = True,
        name: str | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """What the user said. The newest directive is kept word for word in every prompt."""
        made = {"content": _messages.content(content), **_given(directive=None if directive else False, name=name)}
        return self._send("user.input", made, options, "user")

    def assistant(
        self,
        content: _messages.Content = None,
        *,
        tool_calls: Sequence[Any] = (),
        reasoning: Sequence[Mapping[str, Any]] = (),
        model: str | None = None,
        provider: str | None = None,
        usage: Mapping[str, int] | None = None,
        snapshot_id: str | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """What the model said. Tool calls may be ours (id, name, arguments) or a provider's, objects or dicts."""
        made = _given(
            content=_messages.content(content),
            tool_calls=[_messages.tool_call(call) for call in listed(tool_calls, "tool_calls")],
            reasoning=[named(one, "reasoning") for one in listed(reasoning, "reasoning")],
            model=model,
            provider=provider,
            usage=named(usage, "usage") if usage else None,
            snapshot_id=snapshot_id,
        )
        return self._send("assistant.output", made, options, "agent")

    def record(self, reply: Any, *, prompt: Any = None, **options: Unpack[EventOptions]) -> R:
        """A model's reply, OpenAI's or Anthropic's, object or dict; linked to `prompt`, else to the last one."""
        made = _messages.reply(reply)
        if prompt is not None or self._track.prompt_id:
            made["snapshot_id"] = self._track.snapshot(prompt)
        return self._send("assistant.output", made, options, "agent")

    def pin(self, event: str | Receipt, **options: Unpack[EventOptions]) -> R:
        """Keep this event's message in every prompt; five at most."""
        return self._send("message.pinned", {"event_id": _event_id(event)}, options)

    def unpin(self, event: str | Receipt, **options: Unpack[EventOptions]) -> R:
        """Lift a pin."""
        return self._send("message.unpinned", {"event_id": _event_id(event)}, options)

    def expand(
        self,
        reference_id: str,
        *,
        start: int = 0,
        end: int | None = None,
        content: _messages.Content = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """Bring a slice of something that was only referenced back into the window."""
        made = {"reference_id": reference_id, **_given(start=start, end=end, content=_messages.content(content))}
        return self._send("reference.expanded", made, options)

    # --- tools ---

    def tool(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        *,
        required: Sequence[str] = (),
        fields: Sequence[str] = (),
        volatility: Literal["stable", "volatile"] = "volatile",
        **options: Unpack[EventOptions],
    ) -> R:
        """A tool the model may call: `parameters` is its JSON Schema, `fields` the JMESPath of what matters."""
        made = _given(
            description=description,
            required=listed(required, "required"),
            fields=listed(fields, "fields"),
            volatility=volatility,
        )
        made |= {"parameters": named(parameters, "parameters")} if parameters else {}
        return self._send("tool.registered", {"name": name, **made}, options)

    def remove_tool(self, name: str, **options: Unpack[EventOptions]) -> R:
        """The model may call this tool no longer."""
        return self._send("tool.removed", {"name": name}, options)

    def tool_call(self, name: str, arguments: Any = None, *, call_id: str = "", **options: Unpack[EventOptions]) -> R:
        """A call on its own; `causation_id` names the assistant output it belongs to."""
        made = {"name": name, **_given(call_id=call_id), **({} if arguments is None else {"arguments": arguments})}
        return self._send("tool.called", made, options, "agent")

    def tool_result(
        self,
        call_id: str,
        content: Any = None,
        *,
        status: ResultStatus = "ok",
        name: str | None = None,
        observed_at: str | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """A tool's answer: text, content parts, or any JSON value."""
        body = _messages.result_content(content)
        made = {"call_id": call_id, "status": status, "content": body, **_given(name=name, observed_at=observed_at)}
        return self._send("tool.result", made, options, "tool")

    def environment(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        secrets: Mapping[str, Any] | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """Handles and settings that tools share. Secrets are kept for the tools and never shown to a model."""
        made = {key: {"value": value} for key, value in named(values or {}, "values").items()}
        made |= {key: {"value": value, "secret": True} for key, value in named(secrets or {}, "secrets").items()}
        return self._send("tool.environment", {"values": made}, options)

    # --- plan and observations ---

    def plan(
        self,
        task_id: str,
        steps: Sequence[str | Mapping[str, Any]] = (),
        *,
        status: str = "running",
        phase: str = "",
        current_step: str | None = None,
        interruption: str = "",
        **options: Unpack[EventOptions],
    ) -> R:
        """The plan as it now stands, whole. A step given as text gets its place (1, 2, 3 …) as its id."""
        numbered = [
            {"id": str(place), "text": step} if isinstance(step, str) else named(step, "steps")
            for place, step in enumerate(listed(steps, "steps"), 1)
        ]
        made = _given(status=status, phase=phase, steps=numbered, current_step=current_step, interruption=interruption)
        return self._send("plan.updated", {"task_id": task_id, **made}, options)

    def observe(
        self,
        result: str = "",
        *,
        step_id: str = "",
        tool: str | None = None,
        decision: str = "",
        failed: bool = False,
        facts: Sequence[str] = (),
        **options: Unpack[EventOptions],
    ) -> R:
        """What came of a step of the plan."""
        made = _given(result=result, step_id=step_id, tool=tool, decision=decision, facts=listed(facts, "facts"))
        return self._send("observation.recorded", {**made, "failed": failed}, options)

    # --- profile, blocks, memory: these go to the subject ---

    def profile(
        self,
        key: str,
        value: Any,
        *,
        category: Literal["identity", "preference"] = "preference",
        source: str | None = None,
        **options: Unpack[EventOptions],
    ) -> R:
        """A field of the subject's profile, such as a name or a habit. The same key again replaces it."""
        made = {"key": key, "value": value, "category": category, **_given(source=source)}
        return self._send("profile.set", made, options)

    def unset_profile(self, key: str, **options: Unpack[EventOptions]) -> R:
        """Take a field of the profile away."""
        return self._send("profile.unset", {"key": key}, options)

    def block(
        self, label: str, text: str = "", *, limit: int = 2000, read_only: bool = False, **options: Unpack[EventOptions]
    ) -> R:
        """A core block of the profile, rendered first."""
        made = {"label": label, "text": text, "limit": limit, "read_only": read_only}
        return self._send("block.defined", made, options)

    def edit_block(self, label: str, text: str, **options: Unpack[EventOptions]) -> R:
        """A core block's new text, within its limit; a read-only block stays as it is."""
        return self._send("block.edited", {"label": label, "text": text}, options)

    def remember(
        self,
        text: str,
        *,
        id: str | None = None,
        category: str = "fact",
        importance: float = 0.5,
        scope: Scope = "subject",
        memory_kind: MemoryKind = "semantic",
        tags: Sequence[str] = (),
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        derived_from: Sequence[str | Receipt] = (),
        supersedes: Sequence[str] = (),
        **options: Unpack[EventOptions],
    ) -> R:
        """A memory. Without `id` it has the id of its event. The same subject and predicate with another object
        supersede; times are ISO 8601 and kept in UTC. `derived_from` are the events that it was made from."""
        event_id, options = with_id(options)
        made = _given(
            tags=listed(tags, "tags"), subject=subject, predicate=predicate, object=object, valid_from=valid_from,
            valid_to=valid_to, supersedes=listed(supersedes, "supersedes"),
            derived_from=[_event_id(event) for event in listed(derived_from, "derived_from")],
        )  # fmt: skip
        made |= {"category": category, "importance": importance, "scope": scope, "memory_kind": memory_kind}
        return self._send("memory.recorded", {"id": id or event_id, "text": text, **made}, options)

    def revise_memory(
        self,
        id: str,
        text: str,
        *,
        category: str = "fact",
        importance: float = 0.5,
        scope: Scope = "subject",
        memory_kind: MemoryKind = "semantic",
        tags: Sequence[str] = (),
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        derived_from: Sequence[str | Receipt] = (),
        **options: Unpack[EventOptions],
    ) -> R:
        """A memory as it now stands, whole."""
        made = _given(
            tags=listed(tags, "tags"),
            subject=subject,
            predicate=predicate,
            object=object,
            valid_from=valid_from,
            valid_to=valid_to,
            derived_from=[_event_id(event) for event in listed(derived_from, "derived_from")],
        )
        made |= {"category": category, "importance": importance, "scope": scope, "memory_kind": memory_kind}
        return self._send("memory.revised", {"id": id, "text": text, **made}, options)

    def retract_memory(
        self,
        id: str,
        *,
        scope: Scope = "subject",
        reason: str = "",
        **options: Unpack[EventOptions],
    ) -> R:
        """End a memory. It stays in the log."""
        return self._send("memory.retracted", {"id": id, "scope": scope, **_given(reason=reason)}, options)

    def summary(
        self,
        text: str,
        derived_from: Sequence[str | Receipt],
        *,
        id: str | None = None,
        method: str = "extractive",
        model: str | None = None,
        prompt_hash: str | None = None,
        supersedes: Sequence[str] = (),
        **options: Unpack[EventOptions],
    ) -> R:
        """A summary of the events it is derived from. Without `id` it has the id of its event."""
        event_id, options = with_id(options)
        made = {
            "id": id or event_id,
            "text": text,
            "derived_from": [_event_id(event) for event in listed(derived_from, "derived_from")],
            "method": method,
            **_given(model=model, prompt_hash=prompt_hash, supersedes=listed(supersedes, "supersedes")),
        }
        return self._send("summary.created", made, options)

    # --- judgement and erasure ---

    def flag(
        self,
        prompt: Any = None,
        *,
        verdict: Literal["bad", "good"] = "bad",
        note: str = "",
        **options: Unpack[EventOptions],
    ) -> R:
        """The answer to this prompt (a prompt or its id; else the last one) was bad, or good."""
        made = {"snapshot_id": self._track.snapshot(prompt), "verdict": verdict, **_given(note=note)}
        return self._send("output.flagged", made, options)

    def label(self, label: str, prompt: Any = None, *, note: str = "", **options: Unpack[EventOptions]) -> R:
        """Name this prompt (or its id; else the last one). The one labelled `active` last is what agents get."""
        made = {"snapshot_id": self._track.snapshot(prompt), "label": label, **_given(note=note)}
        return self._send("snapshot.labelled", made, options)

    def redact(self, event: str | Receipt, reason: str = "", **options: Unpack[EventOptions]) -> R:
        """Erase an event's payload for good, and what was derived from it."""
        return self._send("event.redacted", {"event_id": _event_id(event), **_given(reason=reason)}, options)


def _event_id(event: str | Receipt) -> str:
    return event if isinstance(event, str) else event.event_id
