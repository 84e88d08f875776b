"""Canonical JSON: RFC 8785 as the library writes it, and the two extensions that the library refuses."""

import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from worlds import characters, examples, json_values

from domain.canonical import canonical_json, content_hash, parse_json

scalar_text = st.text(st.characters(exclude_categories=("Cs",)))
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | scalar_text
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(scalar_text, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@examples(300)
@given(plain_json)
def test_plain_values_are_written_as_rfc_8785_says(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


def test_the_example_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_json(value) == expected.encode()


def test_keys_are_sorted_by_their_utf_16_units() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    order = [json.loads(f'"{key}"') if key.startswith("\\") else key for key in json.loads(canonical_json(value))]
    assert order == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("bits", "written"),
    [
        ("0000000000000000", "0"), ("8000000000000000", "0"), ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"), ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"), ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"), ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"), ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"), ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"), ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)  # fmt: skip
def test_numbers_of_the_rfcs_appendix(bits: str, written: str) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number) == written.encode()


@examples(200)
@given(st.integers())
def test_an_integer_of_any_size_is_written_as_its_digits(number: int) -> None:
    assert canonical_json(number) == str(number).encode()
    assert parse_json(canonical_json(number)) == number


@examples(200)
@given(st.text(characters))
def test_lone_surrogates_are_escaped_and_come_back(text: str) -> None:
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert parse_json(canonical_json(joined)) == joined
    canonical_json(joined).decode("utf-8")


def test_lone_surrogates_are_told_from_their_escape_written_out() -> None:
    assert canonical_json("\ud83d") == b'"\\ud83d"'
    assert canonical_json("\\ud83d") == b'"\\\\ud83d"'
    assert canonical_json({"\udfff": "x"}) == b'{"\\udfff":"x"}'


@examples(200)
@given(json_values)
def test_one_value_has_one_spelling(value: object) -> None:
    written = canonical_json(value)
    assert parse_json(written) == value
    assert canonical_json(parse_json(written)) == written
    turned = json.loads(json.dumps(value))
    assert content_hash(_reversed(turned)) == content_hash(value)


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"a": {"b": x}}])
def test_f35_what_is_no_json_number_is_refused(number: float, wrap: object) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        canonical_json(wrap(number))  # type: ignore[operator]


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), {1: 2}, {"a": {None: 1}}])
def test_what_is_no_json_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_tuples_are_arrays_and_booleans_are_no_numbers() -> None:
    assert canonical_json((1, (True,), [False])) == b"[1,[true],[false]]"
    assert canonical_json(1.0) == canonical_json(1) != canonical_json(True)
