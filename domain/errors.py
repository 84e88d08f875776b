"""Every error promptctx raises on purpose.

    PromptctxError
    ├── InvalidEvent          an event that breaks the contract; names the field
    ├── InvalidRequest        a compile request or setting that makes no sense
    ├── EventConflict         an event id came again with other content
    ├── ConcurrencyConflict   the stream moved; carries the actual head
    ├── PayloadTooLarge       a payload over the limit; names the document upload
    ├── UnknownSession        no such session in this tenant
    ├── UnknownSnapshot       no such prompt in this tenant
    ├── UnknownJob            no such compile job in this tenant
    ├── UnknownDocument       no such document in this session
    ├── UnknownMemory         no such memory of this subject
    ├── ContextOverflow       what must not be cut is over the budget
    ├── TooManyPins           a sixth pin
    ├── TooManyRules          `block` constraints beyond what a session may hold
    ├── SnapshotRedacted      the snapshot's inputs were erased
    ├── ReplayMismatch        a replay gave other bytes
    ├── StoreUnavailable      the database cannot be reached
    ├── BrokerUnavailable     the message broker cannot be reached
    ├── Timeout               the answer did not come in time
    ├── Unauthorized          no API key, or none that is in force
    ├── Forbidden             the caller lacks the scope
    ├── TooManyRequests       more calls than the key may make; says when to come back
    └── SlowRequest           a body that did not come in time

Each carries a code for programs, one sentence for people, and details for both.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class PromptctxError(Exception):
    """Base of all errors: `code` for programs, the sentence for people, `details` for both."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

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
    """`details["head"]` is the stream's actual head."""

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
    """`details["retry_after"]` is in seconds."""

    code = "too_many_requests"
    status = 429


class SlowRequest(PromptctxError):
    code = "slow_request"
    status = 408
