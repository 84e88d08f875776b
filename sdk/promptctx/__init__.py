"""promptctx: append what your agent does, get back a prompt that fits, and see why.

    from promptctx import Client

    client = Client()
    s = client.session("s-1", subject="u-1", mode="react", model="gpt-4o")
    s.user("What is the weather in Beijing?")
    prompt = s.compile(budget=8000).result(timeout=10)

`AsyncClient` is the same for asyncio, `promptctx.testing.FakeServer` a server for tests of agents.
"""

from promptctx.client import AsyncClient, Client
from promptctx.errors import (
    BrokerUnavailable,
    ConcurrencyConflict,
    ContextOverflow,
    EventConflict,
    Forbidden,
    InvalidEvent,
    InvalidRequest,
    PayloadTooLarge,
    PromptctxError,
    ReplayMismatch,
    ServerUnavailable,
    SlowRequest,
    SnapshotRedacted,
    StoreUnavailable,
    Timeout,
    TooManyPins,
    TooManyRequests,
    TooManyRules,
    Unauthorized,
    UnknownDocument,
    UnknownJob,
    UnknownMemory,
    UnknownSession,
    UnknownSnapshot,
)
from promptctx.outbox import Outbox, OutboxSession
from promptctx.prompt import AsyncJob, AsyncPrompt, Job, Prompt
from promptctx.session import AsyncBatch, AsyncSession, Batch, Session
from promptctx.values import Document, EventRecord, PromptInfo, Receipt, Replay, SessionInfo, State, Stats

__all__ = [
    "AsyncBatch",
    "AsyncClient",
    "AsyncJob",
    "AsyncPrompt",
    "AsyncSession",
    "Batch",
    "BrokerUnavailable",
    "Client",
    "ConcurrencyConflict",
    "ContextOverflow",
    "Document",
    "EventConflict",
    "EventRecord",
    "Forbidden",
    "InvalidEvent",
    "InvalidRequest",
    "Job",
    "Outbox",
    "OutboxSession",
    "PayloadTooLarge",
    "Prompt",
    "PromptInfo",
    "PromptctxError",
    "Receipt",
    "Replay",
    "ReplayMismatch",
    "ServerUnavailable",
    "Session",
    "SessionInfo",
    "SlowRequest",
    "SnapshotRedacted",
    "State",
    "Stats",
    "StoreUnavailable",
    "Timeout",
    "TooManyPins",
    "TooManyRequests",
    "TooManyRules",
    "Unauthorized",
    "UnknownDocument",
    "UnknownJob",
    "UnknownMemory",
    "UnknownSession",
    "UnknownSnapshot",
]
