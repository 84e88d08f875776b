"""What an operator may set: `PROMPTCTX_*` variables over `promptctx.toml` over defaults.

    PROMPTCTX_DATABASE_URL=postgresql://…      database_url = "postgresql://…"

The file is looked for in the current directory; PROMPTCTX_CONFIG names another one. Modes of one's own are tables
`[modes.NAME]`; they are passed on as they are, since the domain knows what a mode may say.
"""

import json
import os
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from domain.errors import InvalidRequest
from domain.memorising.noticing import Rule

PREFIX = "PROMPTCTX_"
CONFIG_VARIABLE = "PROMPTCTX_CONFIG"
CONFIG_FILE = "promptctx.toml"


def _known_database(url: str) -> str:
    """Both spellings of PostgreSQL that people paste mean the one driver we use."""
    for spelling in ("postgres://", "postgresql://"):
        if url.startswith(spelling):
            url = "postgresql+psycopg://" + url.removeprefix(spelling)
    try:
        driver = make_url(url).drivername
    except ArgumentError:
        driver = ""
    if driver not in ("sqlite", "postgresql+psycopg"):
        raise ValueError("must look like sqlite:///file.db or postgresql://user@host/database")
    return url


def _known_broker(url: str) -> str:
    if not url.startswith(("redis://", "rediss://", "unix://", "amqp://", "amqps://")):
        raise ValueError("must look like redis://host:6379/0 or amqp://user:password@host//")
    return url


def _patterns(value: object) -> object:
    """A list, as JSON if it comes in a variable, or plainly with commas."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return tuple(pattern.strip() for pattern in value.split(",") if pattern.strip())


def _rules(value: object) -> object:
    return () if value == "off" else _patterns(value)


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class Settings(BaseSettings):
    """All settings with their defaults: embedded, on a SQLite file, reachable from this machine only."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    database_url: Annotated[str, AfterValidator(_known_database)] = Field("sqlite:///promptctx.db", repr=False)
    """SQLite for one machine, or PostgreSQL: `postgresql://user@host/database`."""
    sync_mode: Annotated[Literal["NORMAL", "FULL"], BeforeValidator(_upper)] = "NORMAL"
    """Of SQLite: `FULL` waits for the disk at each append, so that a power cut loses nothing."""
    database_connections: int = Field(20, ge=2, le=1000)
    """The most connections of a process to PostgreSQL at a time."""

    dispatcher: Literal["inline", "thread", "celery"] = "thread"
    """How work reaches a worker: at once in the call, a thread of the same process, or Celery."""
    broker_url: Annotated[str, AfterValidator(_known_broker)] | None = Field(None, repr=False)
    """Redis or RabbitMQ, for Celery: `redis://host:6379/0`, `amqp://user:password@host//`."""
    queue_prefix: str = Field("promptctx", pattern=r"^[A-Za-z0-9_.-]{1,60}$")
    """Of all queues and keys on the broker: deployments that share one need names of their own."""
    lease_seconds: float = Field(60.0, ge=1, le=3600)
    """After so many seconds without progress, work is taken over from a process that may be dead."""

    host: str = "127.0.0.1"
    """The address to serve on. One that other machines reach makes keys required."""
    port: int = Field(8765, ge=0, le=65535)
    """0 takes any free one."""
    payload_limit: int = Field(1024 * 1024, ge=1024)
    """The most bytes of one event's payload; what is larger is uploaded as a document."""
    rate_limit: int = Field(12_000, ge=0)
    """Calls of each key, a minute; 0 is no limit."""
    rule_limit: int = Field(20_000, ge=1)
    """Characters of all `block` constraints of a session together: they are in every prompt, whatever the budget."""
    body_timeout: float = Field(30.0, gt=0, le=3600)
    """Seconds that a sender may take for a piece of a request's body."""
    encrypt: Literal["off", "subject"] = "off"
    """Whether payloads are sealed with a key of their subject."""
    master_key: SecretStr | None = Field(None, min_length=32)
    """What these keys are wrapped with."""
    require_keys: bool = False
    """Whether every call needs a key, on a private address too."""
    root_key: SecretStr | None = Field(None, min_length=32)
    """A key with every scope of the tenant `default`, for a first set-up."""
    ready_backlog_seconds: float = Field(300.0, gt=0)
    """Seconds that work may wait until the server says that it is not ready."""
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Where a worker process serves its metrics; none of them does without it, and 0 takes any free port."""
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = "INFO"
    """What gets into the log."""

    default_model: str = "gpt-4o"
    """The model whose tokens are counted where neither request nor session names one."""
    locale: Literal["zh", "en"] = "zh"
    """The language of headings where neither request nor session names one."""
    modes: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Modes of one's own, as tables `[modes.NAME]` of the file."""

    memory_rules: Annotated[tuple[Rule, ...], NoDecode, BeforeValidator(_rules)] = ("remember", "profile")
    """What is remembered without being told so by an event; `off` is none."""
    memory_care_hours: float = Field(24.0, ge=0, le=10_000)
    """Hours after which what was written to a memory is cared for; 0 is never."""
    memory_lifetimes: dict[str, Annotated[int, Field(ge=1, le=100_000)]] = Field(default_factory=dict)
    """Days that memories live, by category."""

    dump_dir: Path | None = None
    """A folder where each prompt is written as a file when it is compiled."""
    dump_sessions: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_patterns)] = ("*",)
    """The sessions whose prompts are written there, by patterns with `*`."""

    llm_base_url: str | None = None
    """An OpenAI-compatible endpoint for summaries and facts; without it the built-in rules work."""
    llm_api_key: SecretStr | None = None
    """Its key."""
    llm_model: str | None = None
    """Its model."""
    llm_timeout: float = Field(30.0, gt=0, le=600)
    """Seconds that a whole answer may take."""
    llm_extract: bool = True
    """Whether it is asked what is worth remembering as well."""
    llm_rewrite: bool = False
    """Whether each prompt that recalls asks it to put the query in other words first."""
    llm_rerank: bool = False
    """Whether each prompt that recalls asks it which of the passages found answer best."""
    llm_recall_timeout: float = Field(3.0, gt=0, le=60)
    """Seconds that a prompt waits for these two, both together, before it goes without."""
    llm_prompts: Path | None = None
    """A folder with prompts of one's own, under the names of those in workers/prompts."""
    embeddings: str = Field("local", pattern=r"^(local|none|https?://\S+)$")
    """What recall finds by meaning with: `local` (a small model in numpy), `none`, or the base URL of an endpoint that
    speaks OpenAI's embeddings."""
    embeddings_model: str | None = None
    """The endpoint's model."""
    embeddings_api_key: SecretStr | None = None
    """The endpoint's key."""
    embeddings_timeout: float = Field(1.0, gt=0, le=60)
    """Seconds that a prompt waits for the endpoint to tell what its query means, before words alone decide."""

    @property
    def is_public(self) -> bool:
        """Whether other machines may reach the server."""
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    @property
    def keys_required(self) -> bool:
        return self.require_keys or self.is_public

    @model_validator(mode="after")
    def _model_is_whole(self) -> Self:
        if bool(self.llm_base_url) != bool(self.llm_model):
            raise ValueError("a model needs PROMPTCTX_LLM_BASE_URL and PROMPTCTX_LLM_MODEL; set or unset both")
        return self

    @model_validator(mode="after")
    def _celery_has_a_broker(self) -> Self:
        if self.dispatcher == "celery" and self.broker_url is None:
            raise ValueError(
                "dispatcher=celery needs a broker; set PROMPTCTX_BROKER_URL, as in redis://127.0.0.1:6379/0"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over variables, variables over the file. No .env: that file is Compose's."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _read_config())


def load_settings(**overrides: Any) -> Settings:
    """The settings in force, `overrides` (as from a command line) first. Raises InvalidRequest, one sentence."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"Setting {_spelled(path)}{message}.", setting=path) from None


def masked(url: str) -> str:
    """A database or broker URL that may be shown: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(unreadable URL)"


def _spelled(path: str) -> str:
    return f"{path} ({PREFIX}{path.partition('.')[0].upper()}): " if path else ""


def config_file() -> str:
    """The file that settings are read from, if it is there."""
    return os.environ.get(CONFIG_VARIABLE) or CONFIG_FILE


def _read_config() -> dict[str, Any]:
    chosen = os.environ.get(CONFIG_VARIABLE)
    path = Path(config_file())
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        found.pop("client", None)  # what the client reads of the same file
        return found
    except FileNotFoundError:
        if chosen:
            raise InvalidRequest(f"{CONFIG_VARIABLE} names {path}, which is not there.") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.") from None
