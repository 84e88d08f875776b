"""Settings: variables over the file over defaults; every mistake is one clear sentence."""

from pathlib import Path

import pytest

from domain.errors import InvalidRequest
from workers.settings import Settings, load_settings, masked


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> None:
    Path("promptctx.toml").write_text(text, encoding="utf-8")


def test_without_anything_set_it_runs_embedded() -> None:
    settings = load_settings()
    assert settings.database_url == "sqlite:///promptctx.db"
    assert (settings.dispatcher, settings.broker_url) == ("thread", None)
    assert (settings.host, settings.port) == ("127.0.0.1", 8765)
    assert (settings.payload_limit, settings.sync_mode) == (1_048_576, "NORMAL")
    assert (settings.default_model, settings.locale, settings.modes) == ("gpt-4o", "zh", {})


def test_an_argument_wins_over_a_variable_and_a_variable_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write("port = 1111\nhost = '0.0.0.0'\nlocale = 'en'\n")
    monkeypatch.setenv("PROMPTCTX_PORT", "2222")
    monkeypatch.setenv("PROMPTCTX_HOST", "::1")
    settings = load_settings(port=3333)
    assert (settings.port, settings.host, settings.locale) == (3333, "::1", "en")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTCTX_BROKER_URL", "")
    monkeypatch.setenv("PROMPTCTX_PORT", "")
    assert load_settings() == Settings()


def test_modes_of_ones_own_come_through_as_written() -> None:
    write("[modes.support]\nbase = 'chat'\n[modes.support.slots.recall]\ntoken_budget = 400\ncategories = ['fact']\n")
    assert load_settings().modes == {
        "support": {"base": "chat", "slots": {"recall": {"token_budget": 400, "categories": ["fact"]}}}
    }


def test_another_file_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text("port = 4444")
    monkeypatch.setenv("PROMPTCTX_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().port == 4444


@pytest.mark.parametrize("url", ["postgres://u@h/d", "postgresql://u@h/d", "postgresql+psycopg://u@h/d"])
def test_every_spelling_of_postgresql_means_the_same_driver(url: str) -> None:
    assert load_settings(database_url=url).database_url == "postgresql+psycopg://u@h/d"


@pytest.mark.parametrize("mode", ["full", "FULL", "Full"])
def test_names_in_capitals_may_be_written_small(mode: str) -> None:
    assert load_settings(sync_mode=mode, log_level="debug").sync_mode == "FULL"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("port", "abc", r"Setting port \(PROMPTCTX_PORT\): Input should be a valid integer"),
        ("port", 70000, r"Setting port .* less than or equal to 65535"),
        ("payload_limit", -1, "Setting payload_limit"),
        ("sync_mode", "OFF", "'NORMAL' or 'FULL'"),
        ("dispatcher", "cron", "'inline', 'thread' or 'celery'"),
        ("locale", "fr", "'zh' or 'en'"),
        ("database_url", "mysql://root@h/d", "must look like sqlite:///file.db or postgresql://"),
        ("database_url", "nonsense", "must look like sqlite:///file.db"),
        ("broker_url", "kafka://h", "must look like redis://host:6379/0 or amqp://"),
        ("dispatcher", "celery", "dispatcher=celery needs a broker; set PROMPTCTX_BROKER_URL"),
        ("modes", {"chat": 3}, r"Setting modes\.chat"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(name: str, value: object, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as caught:
        load_settings(**{name: value})
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 1", r"Setting prot \(PROMPTCTX_PROT\): Extra inputs are not permitted"),
        ("port = ", "promptctx.toml is not valid TOML"),
        ("result_backend = 'redis://h'", "Setting result_backend"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    write(text)
    with pytest.raises(InvalidRequest, match=sentence):
        load_settings()


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("promptctx.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequest, match=r"promptctx\.toml is not valid TOML"):
        load_settings()
    monkeypatch.setenv("PROMPTCTX_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(InvalidRequest, match=r"gone\.toml, which is not there"):
        load_settings()


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTCTX_LLM_API_KEY", "sk-very-secret")
    monkeypatch.setenv("PROMPTCTX_DATABASE_URL", "postgresql://user:hunter2@host/db")
    monkeypatch.setenv("PROMPTCTX_BROKER_URL", "amqp://user:hunter2@host//")
    settings = load_settings()
    assert "secret" not in repr(settings)
    assert "hunter2" not in repr(settings)
    assert settings.llm_api_key is not None
    assert settings.llm_api_key.get_secret_value() == "sk-very-secret"
    assert masked(settings.database_url) == "postgresql+psycopg://user:***@host/db"
    assert "hunter2" not in masked("amqp://user:hunter2@host//")
    with pytest.raises(InvalidRequest) as caught:
        load_settings(database_url="mysql://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)
