"""Putting an engine together from settings. The one place that knows which parts there are."""

import contextlib
import gc
import threading

from domain.errors import InvalidRequest, PromptctxError
from domain.memorising.caring import LIFETIMES
from domain.modes import BUILTIN_MODES, ModeSpec, parse_modes
from workers import tracing
from workers.clock import Clock, SystemClock
from workers.dispatch import Bell, Dispatcher, Inline, Ring, Threads
from workers.dumps import Dumps
from workers.embeddings import EmbeddingEndpoint, Local, is_installed
from workers.engine import Deps, Engine
from workers.engine.meanings import Meanings
from workers.llm import Endpoint, Model, Prompt, load_prompt
from workers.settings import Settings, config_file
from workers.store import Database
from workers.store.sealing import Sealing

INDEX_AFTER = 5_000_000
"""Microseconds after which what was said is indexed for recall."""


def build(settings: Settings, *, dispatcher: Dispatcher | None = None, clock: Clock | None = None) -> Engine:
    """An engine that runs. Its dispatcher is started; `close` it at the end."""
    tracing.configure()
    chosen = dispatcher or make_dispatcher(settings)
    deps = Deps(
        database=Database(settings.database_url, settings.sync_mode, settings.database_connections, sealing(settings)),
        dispatcher=chosen,
        clock=clock or SystemClock(),
        modes=modes(settings),
        lease=int(settings.lease_seconds * 1_000_000),
        payload_limit=settings.payload_limit,
        rule_limit=settings.rule_limit,
        default_model=settings.default_model,
        locale=settings.locale,
        memory_rules=frozenset(settings.memory_rules),
        care_after=int(settings.memory_care_hours * 3_600_000_000),
        index_after=INDEX_AFTER,
        lifetimes={**LIFETIMES, **settings.memory_lifetimes},
        dumps=Dumps(settings.dump_dir, settings.dump_sessions),
        model=model(settings),
        recall_seconds=settings.llm_recall_timeout,
        meanings=meanings(settings),
        prompts=prompts(settings),
    )
    chosen.start(deps)
    return Engine(deps)


def model(settings: Settings) -> Model | None:
    """The model that may be asked, if there is one."""
    if not settings.llm_base_url or not settings.llm_model:
        return None
    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
    return Endpoint(settings.llm_base_url, settings.llm_model, key, settings.llm_timeout)


def prompts(settings: Settings) -> dict[str, Prompt]:
    """What a model is told to do, by what it is asked for."""
    wanted = {"extract": settings.llm_extract, "rewrite": settings.llm_rewrite, "rerank": settings.llm_rerank}
    tasks = ("summarize", *(name for name, asked in wanted.items() if asked))
    return {name: load_prompt(name, settings.llm_prompts) for name in tasks}


def meanings(settings: Settings) -> Meanings | None:
    """What recall finds by meaning with; None leaves it to words."""
    if settings.embeddings == "none" or (settings.embeddings == "local" and not is_installed()):
        return None
    if settings.embeddings == "local":
        return Meanings(Local())
    if not settings.embeddings_model:
        raise InvalidRequest(
            "PROMPTCTX_EMBEDDINGS names an endpoint: set PROMPTCTX_EMBEDDINGS_MODEL to the model to ask there.",
            setting="embeddings_model",
        )
    key = settings.embeddings_api_key.get_secret_value() if settings.embeddings_api_key else None
    return Meanings(EmbeddingEndpoint(settings.embeddings, settings.embeddings_model, key), settings.embeddings_timeout)


def sealing(settings: Settings) -> Sealing:
    master = settings.master_key.get_secret_value() if settings.master_key else None
    return Sealing(settings.encrypt == "subject", master)


def settle_in(engine: Engine) -> None:
    """For a process that will live long: what was loaded so far is there to stay, so the collector need not look at it
    again and again, and the ranks that tokens are counted with are loaded before the first prompt waits for them."""
    threading.Thread(target=_warm, args=(engine,), name="promptctx-warm", daemon=True).start()
    gc.collect()
    gc.freeze()


def _warm(engine: Engine) -> None:
    tokens = engine.deps.tokens
    with contextlib.suppress(PromptctxError):
        tokens.counter(tokens.choice(engine.deps.default_model).name)("warm")


def close(engine: Engine) -> None:
    """Also of an engine whose dispatcher has nothing to close."""
    stop = getattr(engine.deps.dispatcher, "close", None)
    if stop is not None:
        stop()
    engine.deps.database.dispose()
    tracing.flush()


def modes(settings: Settings) -> dict[str, ModeSpec]:
    """The built-in modes and the user's own, which may replace them."""
    return {**BUILTIN_MODES, **parse_modes(settings.modes, config_file())}


def make_dispatcher(settings: Settings) -> Dispatcher:
    if settings.dispatcher == "inline":
        return Inline()
    return Threads() if settings.dispatcher == "thread" else celery_bell(settings)


def celery_bell(settings: Settings) -> Bell:
    """Rings by Celery messages of two short arguments."""
    from workers.app import QUEUED, TRACE, make_app, queue_name

    if settings.broker_url is None:
        raise InvalidRequest("The dispatcher celery needs PROMPTCTX_BROKER_URL.", setting="broker_url")
    app = make_app(settings)

    def send(ring: Ring) -> None:
        tenant, stream, kind = ring
        if kind not in QUEUED:
            return
        app.send_task(
            f"promptctx.{kind}",
            args=(tenant, stream),
            queue=queue_name(settings, kind),
            retry=False,
            ignore_result=True,
            headers={TRACE: trace} if (trace := tracing.here()) else None,
        )

    return Bell(send)
