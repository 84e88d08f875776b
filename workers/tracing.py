"""Traces for OpenTelemetry: spans from a request to the task that it rings for, and to what the engine does there.

Off, unless OTEL_EXPORTER_OTLP_ENDPOINT says where spans go and the packages of the group `telemetry` are there. A span
tells ids, sizes and counts: never a text, a payload or an error's message.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import structlog

from domain.errors import PromptctxError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as Recorded
    from opentelemetry.trace import Tracer, TracerProvider

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SERVICE = "promptctx"

Fact = str | int | float | bool | None
Kind = Literal["internal", "server", "consumer"]

logger = structlog.get_logger(__name__)

_provider: "TracerProvider | None" = None
_tracer: "Tracer | None" = None


class Span:
    """What is being done. Silent while traces are off."""

    __slots__ = ("_recorded",)

    def __init__(self, recorded: "Recorded | None" = None) -> None:
        self._recorded = recorded

    def named(self, name: str) -> None:
        if self._recorded is not None:
            self._recorded.update_name(name)

    def tell(self, **facts: Fact) -> None:
        """Ids, sizes and counts, under `promptctx.`; names with `__` are those of OpenTelemetry, with dots for it."""
        if self._recorded is not None:
            self._recorded.set_attributes(_attributes(facts))


_SILENT = Span()


def configure() -> None:
    """Send spans where the environment says, if it says so; once for a process."""
    if _tracer is not None or not os.environ.get(ENDPOINT) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("traces are off: install the dependency group telemetry", setting=ENDPOINT)
        return
    named = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or SERVICE})
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)


def use(provider: "TracerProvider | None") -> None:
    """Give spans to this provider from now on; None switches them off."""
    global _provider, _tracer
    _provider = provider
    _tracer = provider.get_tracer(SERVICE) if provider is not None else None


def flush() -> None:
    """Send what was not sent yet: for a process that ends."""
    send = getattr(_provider, "force_flush", None)
    if send is not None:
        send(5000)


@contextmanager
def span(name: str, *, parent: str | None = None, kind: Kind = "internal", **facts: Fact) -> Iterator[Span]:
    """A span under the one that runs here, or under `parent` if that is of another trace: a request's, for its job."""
    if _tracer is None:
        yield _SILENT
        return
    from opentelemetry.trace import SpanKind, StatusCode

    context, links = _placed(parent)
    with _tracer.start_as_current_span(
        name, context, SpanKind[kind.upper()], _attributes(facts), links,
        record_exception=False, set_status_on_exception=False,
    ) as recorded:  # fmt: skip
        try:
            yield Span(recorded)
        except BaseException as error:
            ours = isinstance(error, PromptctxError)
            recorded.set_attribute("error.type", error.code if ours else type(error).__qualname__)  # type: ignore[attr-defined]
            if not ours:
                recorded.set_status(StatusCode.ERROR)
            raise


@contextmanager
def under(parent: str | None) -> Iterator[None]:
    """What is done here belongs to the trace of whoever rang for it."""
    if _tracer is None or parent is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(_read(parent))
    try:
        yield
    finally:
        context.detach(token)


def here() -> str | None:
    """The span that runs here, as `traceparent` of W3C: to be kept with work, or sent with a ring."""
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carried: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carried)
    return carried.get("traceparent")


def _placed(parent: str | None) -> "tuple[Context | None, list[Any]]":
    """The context that a span begins in, and a link to the one that it would have begun in otherwise."""
    from opentelemetry.trace import Link, get_current_span

    current = get_current_span().get_span_context()
    if parent is None or f"{current.trace_id:032x}" in parent:
        return None, []
    return _read(parent), [Link(current)] if current.is_valid else []


def _read(parent: str) -> "Context":
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


def _attributes(facts: dict[str, Fact]) -> dict[str, str | int | float | bool]:
    return {
        _name(key): value[:200] if isinstance(value, str) else value
        for key, value in facts.items()
        if value is not None
    }


def _name(key: str) -> str:
    return key.replace("__", ".") if "__" in key else f"promptctx.{key}"
