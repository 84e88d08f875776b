"""Tools that record themselves."""

import pytest

from promptctx import Session
from promptctx.adapters.plain import recorded


def test_a_tool_is_registered_and_its_results_and_errors_are_recorded(session: Session) -> None:
    @recorded(session)
    def weather(city: str, days: int = 1) -> dict[str, int]:
        """Looks it up."""
        if city == "Atlantis":
            raise LookupError("no such city")
        return {"temp": 22, "days": days}

    session.assistant("", tool_calls=[{"id": one, "name": "weather", "arguments": {}} for one in ("c1", "c2")])
    assert weather("Beijing", call_id="c1") == {"temp": 22, "days": 1}
    with pytest.raises(LookupError):
        weather("Atlantis", call_id="c2")
    events = list(session.events())
    tool = next(one.payload for one in events if one.kind == "tool.registered")
    assert (tool["name"], tool["description"], list(tool["required"])) == ("weather", "Looks it up.", ["city"])
    assert tool["parameters"]["properties"] == {"city": {"type": "string"}, "days": {"type": "integer"}}
    results = [one.payload for one in events if one.kind == "tool.result"]
    assert [(one["call_id"], one.get("status", "ok")) for one in results] == [("c1", "ok"), ("c2", "error")]
