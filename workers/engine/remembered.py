"""What is remembered, as it is shown: memories, and what was decided about them."""

from typing import Any

from domain.events import Event, MemoryDecided
from domain.memorising.deciding import REASONS
from workers.clock import format_time

Json = dict[str, Any]


def decided(event: Event) -> Json:
    """A decision as it is shown, with its reason as a sentence."""
    told = event.payload
    assert isinstance(told, MemoryDecided)
    return {
        "event_id": event.event_id, "seq": event.seq, "at": format_time(event.recorded_at), "act": told.act,
        "reason": told.reason, "sentence": REASONS.get(told.reason, told.reason), "text": told.text,
        "before": told.before, "memory": told.memory_id, "about": told.about, "method": told.method,
        "derived_from": list(told.derived_from),
    }  # fmt: skip
