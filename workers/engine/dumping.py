"""Dumps: all that is stored of a prompt as one JSON value, and as a file where the operator wants files."""

from collections.abc import Iterable
from typing import Any

import structlog

from domain.errors import SnapshotRedacted
from workers import telemetry
from workers.engine.deps import Deps
from workers.engine.prompts import find, prompt
from workers.store import snapshots, streams

Json = dict[str, Any]

logger = structlog.get_logger(__name__)


def dump(deps: Deps, tenant: str, prompt_id: str) -> Json:
    """The prompt as it was sent, its neutral messages, and its layout. Raises UnknownSnapshot, SnapshotRedacted."""
    row, _, body = find(deps, tenant, prompt_id)
    with deps.database.read(tenant) as unit:
        layout = snapshots.layout(unit, tenant, row.stream, row.id)
    shown = prompt(deps, tenant, prompt_id)
    return {**shown, "messages": body["messages"], "tools": body["tools"], "layout": layout}


def keep_file(deps: Deps, tenant: str, prompt_id: str) -> None:
    """Write the file of a prompt just stored, if its session's prompts are dumped. It may fail; the compile did not."""
    if deps.dumps.folder is None:
        return
    try:
        _, session, version = _place(deps, tenant, prompt_id)
        if not deps.dumps.wants(session):
            return
        deps.dumps.write(tenant, session, version, dump(deps, tenant, prompt_id))
        erased, _, _ = _place(deps, tenant, prompt_id)
        if erased:  # while it was written: whoever erased it found no file yet
            deps.dumps.forget(tenant, session, version)
    except SnapshotRedacted:
        return
    except Exception as error:
        logger.warning("dump failed", prompt=prompt_id, error=telemetry.told(error))


def forget_files(deps: Deps, tenant: str, erased: Iterable[str]) -> None:
    """Delete the files of prompts that were erased. It may fail, and is told in the log then."""
    if deps.dumps.folder is None:
        return
    for prompt_id in erased:
        try:
            _, session, version = _place(deps, tenant, prompt_id)
            deps.dumps.forget(tenant, session, version)
        except Exception as error:
            logger.error("dump of an erased prompt is still there", prompt=prompt_id, error=telemetry.told(error))


def _place(deps: Deps, tenant: str, prompt_id: str) -> tuple[bool, str, int]:
    """Whether the prompt was erased, its session, its version."""
    with deps.database.read(tenant) as unit:
        row = snapshots.get(unit, tenant, prompt_id)
        home = streams.by_number(unit, tenant, row.stream) if row else None
    assert row is not None
    assert home is not None
    return row.redacted_at is not None, home.name, row.version
