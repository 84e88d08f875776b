"""Metrics for Prometheus: what compiles do in this process, and how much of the store's work waits.

No label names a tenant, a session or anything that was said. Where several processes of a host compile, as the children
of a Celery worker do, PROMETHEUS_MULTIPROC_DIR names a folder that they share.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from domain.errors import InvalidRequest

Json = Mapping[str, Any]
Health = Callable[[], Json]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOKENS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)

_compiles = Counter("promptctx_compiles", "Compile jobs that ended, by how.", ["outcome"])
_seconds = Histogram("promptctx_compile_seconds", "From a job's start to its stored prompt.", buckets=SECONDS)
_tokens = Histogram("promptctx_prompt_tokens", "Tokens of a prompt, by zone.", ["zone"], buckets=TOKENS)
_trims = Counter("promptctx_trims", "Prompts whose history was cut anew.")
_rolled_back = Counter("promptctx_trims_rolled_back", "Rounds of a trim that failed a check and were undone.")
_collapses = Counter("promptctx_anchor_collapses", "Anchors that changed and no event tells why.")


def compiled(report: Json, seconds: float, *, trimmed: bool) -> None:
    """One prompt made and stored."""
    _compiles.labels("prompt").inc()
    _seconds.observe(seconds)
    for zone, tokens in report["zones"].items():
        _tokens.labels(zone).observe(tokens)
    _trims.inc(trimmed)
    _rolled_back.inc(len(report["trim"]["rolled_back"]))
    _collapses.inc(sum(one.startswith("anchor collapse") for one in report["warnings"]))


def answered() -> None:
    """A job whose prompt was stored before."""
    _compiles.labels("known").inc()


def failed(code: str) -> None:
    _compiles.labels(code).inc()


_GAUGES = {
    "due": ("promptctx_backlog", "Pieces of work that anyone may do now."),
    "oldest_due_seconds": ("promptctx_backlog_age_seconds", "How long the oldest of them waits."),
    "parked": ("promptctx_parked", "Pieces of work that stopped at an error and wait for a person."),
    "lag": ("promptctx_projection_lag_events", "Events that are in the log and not in the read-models yet."),
}


class _Waiting:
    def __init__(self, health: Health) -> None:
        self._health = health

    def describe(self) -> Any:
        """Nothing is asked of the store before somebody reads."""
        return ()

    def collect(self) -> Any:
        health = self._health()
        for name, (metric, about) in _GAUGES.items():
            yield GaugeMetricFamily(metric, about, value=float(health[name]))


def render(health: Json) -> bytes:
    """The page that Prometheus reads."""
    return generate_latest(_registry(lambda: health))


def serve(host: str, port: int, health: Health) -> int:
    """Serve the page from a thread of this process, for workers; the port, which 0 leaves to the system."""
    try:
        server, _ = start_http_server(port, host, _registry(health))
    except OSError as error:
        raise InvalidRequest(
            f"Port {port} of {host} cannot be used for metrics ({error.strerror}): choose another with"
            " PROMPTCTX_METRICS_PORT, one for each worker of a host."
        ) from None
    return int(server.server_port)


def _registry(health: Health) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Waiting(health))
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        for one in (_compiles, _seconds, _tokens, _trims, _rolled_back, _collapses):
            registry.register(one)
    return registry
