"""Every error the client raises on purpose: the server's own errors by the same names, and one that only a client sees.

PromptctxError
├── InvalidEvent          an event that breaks the contract; names the field
├── InvalidRequest        a request or setting that makes no sense
├── EventConflict         an event id came again with other content
├── ConcurrencyConflict   the session moved; carries the actual head
├── PayloadTooLarge       a payload over the limit; upload it with `session.document`
├── UnknownSession        no such session
├── UnknownSnapshot       no such prompt
├── UnknownJob            no such compile job
├── UnknownDocument       no such document in this session
├── UnknownMemory         no such memory of this subject
├── ContextOverflow       what must not be cut is over the budget
├── TooManyPins           a sixth pin
├── TooManyRules          `block` constraints beyond what a session may hold
├── SnapshotRedacted      the prompt's inputs were erased
├── ReplayMismatch        a replay gave other bytes
├── StoreUnavailable      the server cannot reach its database
├── BrokerUnavailable     the server cannot reach its message broker
├── Timeout               the answer did not come in time
├── Unauthorized          no API key, or none that is in force
├── Forbidden             the caller lacks the scope
├── TooManyRequests       more calls than the key may make; says when to come back
├── SlowRequest           a body that did not come in time
└── ServerUnavailable     no server answers at this address (client only)
"""

import json
from collections.abc import Mapping
from typing import Any


class PromptctxError(Exception):
    """Base of all errors: `code` for programs, the sentence for people, `details` for both."""

    code: str = "error"
    status: int = 500

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details


class InvalidEvent(PromptctxError):
    """`details["path"]` is the path of the offending field, as in `payload.importance`."""

    code = "invalid_event"
    status = 422


class InvalidRequest(PromptctxError):
    code = "invalid_request"
    status = 422


class EventConflict(PromptctxError):
    code = "event_conflict"
    status = 409


class ConcurrencyConflict(PromptctxError):
    """`details["head"]` is the session's actual head."""

    code = "concurrency_conflict"
    status = 409


class PayloadTooLarge(PromptctxError):
    code = "payload_too_large"
    status = 413


class UnknownSession(PromptctxError):
    code = "unknown_session"
    status = 404


class UnknownSnapshot(PromptctxError):
    code = "unknown_snapshot"
    status = 404


class UnknownJob(PromptctxError):
    code = "unknown_job"
    status = 404


class UnknownDocument(PromptctxError):
    code = "unknown_document"
    status = 404


class UnknownMemory(PromptctxError):
    code = "unknown_memory"
    status = 404


class ContextOverflow(PromptctxError):
    """`details["needs"]` maps each protected part to the least it takes; `details["budget"]` is what there was."""

    code = "context_overflow"
    status = 422


class TooManyPins(PromptctxError):
    code = "too_many_pins"
    status = 409


class TooManyRules(PromptctxError):
    """`details["limit"]` and `details["size"]` are characters."""

    code = "too_many_rules"
    status = 409


class SnapshotRedacted(PromptctxError):
    code = "snapshot_redacted"
    status = 410


class ReplayMismatch(PromptctxError):
    code = "replay_mismatch"
    status = 409


class StoreUnavailable(PromptctxError):
    code = "store_unavailable"
    status = 503


class BrokerUnavailable(PromptctxError):
    code = "broker_unavailable"
    status = 503


class Timeout(PromptctxError):
    code = "timeout"
    status = 504


class Forbidden(PromptctxError):
    code = "forbidden"
    status = 403


class Unauthorized(PromptctxError):
    code = "unauthorized"
    status = 401


class TooManyRequests(PromptctxError):
    """`details["retry_after"]` is in seconds; the client waited that long before it gave up."""

    code = "too_many_requests"
    status = 429


class SlowRequest(PromptctxError):
    code = "slow_request"
    status = 408


class ServerUnavailable(PromptctxError):
    """`details["event_ids"]` are the events of the call whose fate is unknown; to send them again is safe."""

    code = "server_unavailable"
    status = 503


BY_CODE: Mapping[str, type[PromptctxError]] = {kind.code: kind for kind in PromptctxError.__subclasses__()}

_BY_STATUS: Mapping[int, type[PromptctxError]] = {
    401: Unauthorized,
    403: Forbidden,
    408: SlowRequest,
    413: PayloadTooLarge,
    422: InvalidRequest,
    429: TooManyRequests,
    502: ServerUnavailable,
    503: ServerUnavailable,
    504: Timeout,
}


def from_code(code: str, message: str, details: Mapping[str, Any] | None = None) -> PromptctxError:
    """The error that the server named; a code of a newer server keeps its code on the base class."""
    error = BY_CODE.get(code, PromptctxError)(message, **{str(key): value for key, value in (details or {}).items()})
    error.code = code
    return error


def from_problem(status: int, problem: Any) -> PromptctxError:
    """The error behind an HTTP answer: problem details by their `code`, anything else by its status."""
    if not isinstance(problem, Mapping):
        problem = {}
    said = problem.get("detail") or problem.get("title")
    if said is not None and not isinstance(said, str):
        said = json.dumps(said, ensure_ascii=False)
    code = problem.get("code")
    if isinstance(code, str):
        details = problem.get("details")
        error = from_code(code, said or code, details if isinstance(details, Mapping) else None)
    else:
        hint = said or "check that PROMPTCTX_URL is the address of a promptctx server"
        error = _BY_STATUS.get(status, PromptctxError)(f"The server answered {status}: {hint}")
    error.status = status
    return error
