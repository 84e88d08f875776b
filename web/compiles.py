"""Asking for a prompt: at once, within some seconds, or later through a job."""

from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from domain.errors import PromptctxError, Timeout
from web.bodies import Reply
from workers.engine import Engine

Json = dict[str, Any]

WAITERS = 64
"""Threads that may wait for prompts at a time: not those that serve all other calls."""


async def ask(engine: Engine, tenant: str, session: str, asked: Json, seconds: float) -> Response:
    """200 with the prompt if it is there within the seconds, otherwise 202 with its job."""
    job: Json = await run_in_threadpool(engine.request_prompt, tenant, session, asked, ring=not seconds)
    if not seconds:
        return _accepted(job)
    job = await _within(engine, tenant, job["id"], seconds)
    if job["status"] == "failed":
        raise _failure(job)
    if job["status"] != "done":
        return _accepted(job)
    return cached(await run_in_threadpool(engine.prompt, tenant, job["prompt"]), None)


async def _within(engine: Engine, tenant: str, job_id: str, seconds: float) -> Json:
    """The job, compiled here and now. What takes longer than the seconds goes on without us, here or at a worker."""
    run = partial(engine.run_job, tenant, job_id, seconds)
    with anyio.move_on_after(seconds), suppress(Timeout):
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=_waiters())
    found: Json = await run_in_threadpool(engine.job, tenant, job_id)
    return found


_LIMITER: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("promptctx_waiters")


def _waiters() -> anyio.CapacityLimiter:
    """A limiter belongs to an event loop, so each loop has its own."""
    with suppress(LookupError):
        return _LIMITER.get()
    limiter = anyio.CapacityLimiter(WAITERS)
    _LIMITER.set(limiter)
    return limiter


def _accepted(job: Json) -> Response:
    return Reply(job, 202, {"Location": f"/v1/jobs/{job['id']}"})


def cached(prompt: Json, if_none_match: str | None) -> Response:
    """A prompt never changes, so its hash is its tag; yet it may be erased, so a cache must ask."""
    tag = f'"{prompt["content_hash"]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if if_none_match and (if_none_match == "*" or tag in if_none_match):
        return Response(status_code=304, headers=headers)
    return Reply(prompt, headers=headers)


def _failure(job: Json) -> PromptctxError:
    """The error of a finished job, to be raised as if it had happened here."""
    error: Json = job["error"] or {}
    kind = _KINDS.get(error.get("code", ""), PromptctxError)
    return kind(error.get("message") or "The compile failed and does not say why.", **error.get("details") or {})


_KINDS = {kind.code: kind for kind in PromptctxError.__subclasses__()}
