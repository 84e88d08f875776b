"""Token counts are exact, for any text, without a network."""

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from domain.errors import InvalidRequest, PromptctxError
from workers import tokens as tokens_module
from workers.tokens import EncodingChoice, Tokens, unpack_ranks

ROOT = Path(__file__).resolve().parents[2]
ENCODINGS = ["o200k_base", "cl100k_base"]
SMALL = Tokens(piece=7)  # so small that nearly every text is cut

# What the patterns treat specially: spaces of all sorts, line ends, slashes, contractions, digits, marks, scripts.
CHARACTERS = [
    *" \t\n\r/'sStdmlvreDZa1290²Ⅷ_-.!{}\"，。（“中文字かカ가яſǅʰ",
    *"\u0301\u00a0\u3000\u0085\u001c\u200d\ufeff\u2028\ud83d\ude00",
    *("   ", "\r\n", "'re", "'LL", "<|endoftext|>", "1234567", "aaaaaaaaaa", "==========", "👨‍👩‍👧"),
    *(" " * 10, "\n" * 8),
]
texts = st.lists(st.sampled_from(CHARACTERS), max_size=60).map("".join) | st.text(max_size=200)


def reference(encoding: str, text: str) -> int:
    SMALL.counter(encoding)  # tells tiktoken where the rank file is
    return len(tiktoken.get_encoding(encoding).encode_ordinary(text))


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=texts)
@example(text="a   1   b")
@example(text="x" * 20 + "\n/" + "y" * 20)
@example(text="!" * 20 + "\n" * 20 + "   1")
@example(text="\ud83d" * 10 + "\ude00" * 10)
def test_a_text_counts_the_same_in_pieces_as_whole(encoding: str, text: str) -> None:
    assert SMALL.counter(encoding)(text) == reference(encoding, text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(unit=texts.filter(bool), times=st.integers(2, 40))
def test_a_long_repetitive_text_counts_the_same_in_pieces_as_whole(encoding: str, unit: str, times: int) -> None:
    assert SMALL.counter(encoding)(unit * times) == reference(encoding, unit * times)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", ["a", "=", "\n", "7", "中", "aA", "'s", "</s>", "word ", "今天，很好。"])
def test_hundreds_of_thousands_of_the_same_count_exactly(encoding: str, text: str) -> None:
    text *= 200_000 // len(text)
    assert Tokens().counter(encoding)(text) == reference(encoding, text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("tail", ["", "x", "1", "\n", " \n x"])
def test_a_megabyte_of_spaces_is_counted_where_tiktoken_panics(encoding: str, tail: str) -> None:
    count = Tokens().counter(encoding)
    bearable = " " * 400_000
    assert count(bearable + tail) == reference(encoding, bearable + tail)
    assert count(bearable * 3 + tail) == pytest.approx(count(bearable) * 3, abs=4)


def test_no_text_makes_the_count_raise() -> None:
    count = Tokens().counter("o200k_base")
    hostile = [" \t" * 600_000, "\u3000" * 1_000_000, "\ud800" * 100_000, "\x00" * 500_000, "'" * 500_000, "́" * 500_000]
    assert all(count(text) > 0 for text in hostile)
    assert count("") == 0


def test_a_word_longer_than_a_million_characters_is_counted_in_parts() -> None:
    text = "ab" * 600_000
    exact = reference("o200k_base", text)
    assert exact <= Tokens().counter("o200k_base")(text) <= exact + 4


def test_special_tokens_are_ordinary_text() -> None:
    assert Tokens().counter("o200k_base")("<|endoftext|>") > 1


def test_a_text_seen_before_is_not_encoded_again_and_memory_is_bounded() -> None:
    encoded: list[str] = []

    def count(text: str) -> int:
        encoded.append(text)
        return len(text)

    remembered = tokens_module._remembering(count, limit=10_000)
    for number in range(200):
        assert remembered(f"{number:0100}") == 100
        assert remembered(f"{number:0100}") == 100
    assert len(encoded) == 200
    remembered(f"{199:0100}")
    assert len(encoded) == 200, "the newest is remembered"
    remembered(f"{0:0100}")
    assert len(encoded) == 201, "the oldest is forgotten"
    remembered("x" * 20_000)
    remembered("x" * 20_000)
    assert len(encoded) == 203, "a text over the limit is never kept"


def test_many_threads_count_the_same_texts_alike() -> None:
    tokens = Tokens(cache_bytes=20_000)
    wanted = {f"text {n} " * 20: reference("o200k_base", f"text {n} " * 20) for n in range(100)}
    wrong: list[str] = []

    def work() -> None:
        count = tokens.counter("o200k_base")
        wrong.extend(text for _ in range(20) for text, expected in wanted.items() if count(text) != expected)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (None, "o200k_base"),
        *((model, "o200k_base") for model in ("gpt-4o", "gpt-4o-mini-2024-07-18", "GPT-4o", "gpt-4.1", "gpt-4.1-nano")),
        *((model, "o200k_base") for model in ("gpt-5", "gpt-oss-20b", "o1", "o3-mini", "o4-mini")),
        *((model, "o200k_base") for model in ("openai/gpt-4o", "ft:gpt-4o:org::x")),
        *((model, "cl100k_base") for model in ("gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "gpt-35-turbo")),
        *((model, "cl100k_base") for model in ("azure/gpt-4", "ft:gpt-3.5-turbo:org::x", "text-embedding-3-small")),
    ],
)
def test_models_with_a_public_encoding_are_exact(model: str | None, name: str) -> None:
    assert Tokens().choice(model) == EncodingChoice(name, exact=True, safety_factor=1.0)


@pytest.mark.parametrize(
    ("model", "factor"),
    [
        ("claude-sonnet-4-5", 1.25),
        ("us.anthropic.claude-3-5-haiku-v1:0", 1.25),
        ("gemini-2.5-pro", 1.15),
        ("deepseek-chat", 1.15),
        ("qwen3-max", 1.15),
        ("oracle-9", 1.15),
        ("gpt-4.9-imagined", 1.15),
        ("", 1.15),
    ],
)
def test_other_models_get_a_named_stand_in_with_a_safety_factor(model: str, factor: float) -> None:
    choice = Tokens().choice(model)
    assert choice == EncodingChoice("o200k_base", exact=False, safety_factor=factor, known="claude" in model)


def test_an_unknown_encoding_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="'p50k_base'; there are cl100k_base, o200k_base"):
        Tokens().counter("p50k_base")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_rank_file_lies_where_the_installed_tiktoken_looks_for_it(encoding: str, tmp_path: Path) -> None:
    source = inspect.getsource(getattr(openai_public, encoding))
    address = re.search(r'"(\w+://[^"]+)"', source)
    expected_hash = re.search(r'expected_hash="(\w+)"', source)
    assert address
    assert expected_hash
    file = unpack_ranks(encoding, tmp_path) / hashlib.sha1(address[1].encode()).hexdigest()
    assert hashlib.sha256(file.read_bytes()).hexdigest() == expected_hash[1]
    assert list(tmp_path.iterdir()) == [file], "no temporary file stays"


def test_a_broken_rank_file_is_replaced_and_an_intact_one_is_left_alone(tmp_path: Path) -> None:
    (file,) = unpack_ranks("cl100k_base", tmp_path).iterdir()
    intact = file.stat().st_mtime_ns
    unpack_ranks("cl100k_base", tmp_path)
    assert file.stat().st_mtime_ns == intact
    file.write_bytes(b"half a fi")
    unpack_ranks("cl100k_base", tmp_path)
    assert file.stat().st_size > 1_000_000


def test_no_place_for_the_rank_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PromptctxError, match="No folder can be written for the rank file of o200k_base"):
        unpack_ranks("o200k_base", tmp_path / "file" / "folder")


def test_processes_that_start_together_on_an_empty_cache_all_count_offline(tmp_path: Path) -> None:
    program = "from workers.tokens import Tokens; print(Tokens().counter('cl100k_base')('hello world'))"
    proxy = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = os.environ | proxy | {"TIKTOKEN_CACHE_DIR": str(tmp_path / "ranks"), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    started = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in started]
    assert [output.strip() for output, _ in results] == ["2"] * 4, json.dumps(results)
