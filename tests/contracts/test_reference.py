"""docs/reference.md is what the code gives, and what the code gives leaves nothing public without a word."""

import re
from pathlib import Path

import pytest

import promptctx
from domain.events import PAYLOADS
from promptctx.testing import FakeServer
from promptctx.verbs import Verbs
from tools.reference import page, source
from tools.reference.client import ADAPTERS
from workers.settings import PREFIX, Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
SDK = Path(promptctx.__file__).parent
CLASSES = [getattr(promptctx, name) for name in promptctx.__all__] + [FakeServer]


def test_the_page_is_the_one_in_docs() -> None:
    """After a change: `python -m tools.reference > docs/reference.md`."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_every_public_name_kind_and_setting_stands_in_it() -> None:
    told = page()
    assert [name for name in promptctx.__all__ if not re.search(rf"\b{name}\b", told)] == []
    assert [kind for kind in PAYLOADS if f"### {kind}\n" not in told] == []
    assert [name for name in Settings.model_fields if f"`{PREFIX}{name.upper()}`" not in told] == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_method_says_what_it_does(kind: type) -> None:
    assert [member.name for member in source.methods(kind) if not member.about] == []


def test_every_kind_of_event_and_every_setting_says_what_it_is() -> None:
    assert [kind for kind, model in PAYLOADS.items() if not model.__doc__] == []
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_adapter_shows_what_is_used_of_it() -> None:
    found = {path.stem for path in (SDK / "adapters").glob("[a-z]*.py")}
    assert found == set(ADAPTERS)
    for name in ("importers", "exporters", *(f"adapters.{one}" for one in ADAPTERS)):
        told, members = source.module(f"promptctx.{name}")
        assert told.count("\n    ") >= 2, f"{name}: its docstring shows it in use"
        assert members
        assert [member.name for member in members if not member.about] == []


def test_a_method_is_shown_as_it_was_written() -> None:
    shown = {member.name: member.signature for member in source.methods(Verbs)}
    assert shown["pin"] == "pin(event: str | Receipt, **options: EventOptions) -> Receipt"
    assert shown["id"] is None
    assert str(shown["remember"]).startswith("remember(\n    text: str, *, id: str | None = None,")
