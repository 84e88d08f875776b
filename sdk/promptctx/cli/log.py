"""Commands about the log: sessions, events, emit, tail."""

import json
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import typer

from promptctx import EventRecord, Session
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, plain, say, short, show_json, table, without_secrets
from promptctx.session import Stream

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.", show_default="all")]


@app.command()
def sessions(ctx: typer.Context, limit: Limit = None, as_json: Json = False) -> None:
    """List the sessions of the server, newest first."""
    cli: Cli = ctx.obj
    found = list(islice(cli.client().sessions(), limit))
    if as_json:
        return show_json({"sessions": found})
    rows = ((one.id, one.head, one.prompts, one.mode, one.model, one.source, one.title) for one in found)
    return console().print(table(("session", "#events", "#prompts", "mode", "model", "source", "title"), rows))


@app.command()
def events(
    ctx: typer.Context,
    session: SessionId,
    after: Annotated[int, typer.Option(min=0, help="Only events with a greater seq.")] = 0,
    limit: Limit = None,
    stream: Annotated[Stream, typer.Option(help="Which stream of the session.")] = "session",
    as_json: Json = False,
) -> None:
    """List the events of a session, in order."""
    cli: Cli = ctx.obj
    listed = islice(cli.client().session(session).events(after, stream=stream), limit)
    if as_json:
        return show_json({"events": [_shown(event) for event in listed]})
    return _print(listed)


@app.command()
def emit(
    ctx: typer.Context,
    session: SessionId,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of the event, as in user.input.")],
    payload: Annotated[
        str, typer.Argument(metavar="[PAYLOAD]", help="The payload as JSON; - reads it from stdin.")
    ] = "{}",
    event_id: Annotated[str | None, typer.Option(help="A UUID: sent again, it adds nothing.")] = None,
    actor: Annotated[str | None, typer.Option(help="Who did it: user, agent, tool …")] = None,
    expected_seq: Annotated[int | None, typer.Option(min=0, help="Refuse unless the session's head is this.")] = None,
    as_json: Json = False,
) -> None:
    """Append one event to a session."""
    cli: Cli = ctx.obj
    event = {"kind": kind, "payload": _payload(payload), "event_id": event_id, "actor": actor}
    given = {key: value for key, value in event.items() if value is not None or key == "payload"}
    (receipt,) = cli.client().session(session).append([given], expected_seq=expected_seq)
    if as_json:
        return show_json(receipt)
    note = " (was there already)" if receipt.duplicate else ""
    say(f"{receipt.event_id} is number {receipt.seq} of the {receipt.stream} stream{note}")
    return say(*(f"warning: {warning}" for warning in receipt.warnings))


@app.command()
def tail(
    ctx: typer.Context,
    session: SessionId,
    after: Annotated[
        int | None, typer.Option(min=0, help="Begin after this seq.", show_default="the last ten events")
    ] = None,
    stream: Annotated[Stream, typer.Option(help="Which stream of the session.")] = "session",
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Print events as they come, until Ctrl-C; as JSON, one line for each."""
    cli: Cli = ctx.obj
    try:
        followed = cli.client().session(session)
        seen = max(0, followed.head() - 10) if after is None else after
        while True:
            seen = _follow(followed, seen, stream, as_json)
            cli.sleep(interval)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _follow(session: Session, seen: int, stream: Stream, as_json: bool) -> int:
    for event in session.events(seen, stream=stream):
        if as_json:
            show_json(_shown(event), one_line=True)
        else:
            say(_line(event))
        seen = event.seq
    return seen


def _payload(given: str) -> Any:
    try:
        return json.loads(sys.stdin.buffer.read() if given == "-" else given)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"The payload is not JSON: {error}.") from None


def _shown(event: EventRecord) -> dict[str, Any]:
    data: dict[str, Any] = plain(event)
    return {**data, "payload": without_secrets(event.kind, event.payload)}


def _print(listed: Iterable[EventRecord]) -> None:
    for event in listed:
        say(_line(event))


def _line(event: EventRecord) -> str:
    when = (event.occurred_at or event.recorded_at or "")[:19]
    said = "(redacted)" if event.redacted else gist(without_secrets(event.kind, event.payload))
    return f"{event.seq:>6}  {when:<19}  {event.kind:<20}  {said}"


def gist(payload: Any) -> str:
    """What an event is about, in one line: its text if it has one, else its JSON."""
    if not isinstance(payload, dict):
        return short(json.dumps(payload, ensure_ascii=False))
    content = payload.get("content")
    if isinstance(content, list):
        content = " ".join(
            str(part.get("text") or f"<{part.get('type')}>") for part in content if isinstance(part, dict)
        )
    calls = [f"→ {call.get('name')}" for call in payload.get("tool_calls") or () if isinstance(call, dict)]
    words = [*([content] if isinstance(content, str) and content else []), *calls]
    return short(" ".join(words)) if words else short(json.dumps(payload, ensure_ascii=False))
