"""The web application: `create_app` puts the gate, the endpoints and the problems together."""

import atexit

from fastapi import FastAPI

from web import mcp, openapi, problems
from web.api import api
from web.console.site import console
from web.gate import Gate
from web.health import health
from web.history import history
from web.live import live
from web.memory import memory
from web.otlp import traces
from web.reference import reference
from workers import assembly, telemetry
from workers.access import Access
from workers.engine import Engine
from workers.settings import Settings, load_settings

VERSION = "1"
"""Of the interface, as in /v1."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The engine's interface over HTTP. Whoever starts it starts and stops the engine too."""
    app = assemble()
    app.state.engine = engine
    app.state.settings = settings
    app.state.access = Access(engine.deps.database, settings)
    return app


def from_settings() -> FastAPI:
    """The application of one process among several, with an engine of its own that ends with the process."""
    settings = load_settings()
    telemetry.configure(settings.log_level)
    engine = assembly.build(settings)
    atexit.register(assembly.close, engine)
    assembly.settle_in(engine)
    return create_app(engine, settings)


def assemble() -> FastAPI:
    """The application without its engine: enough to describe itself."""
    app = FastAPI(
        title="promptctx",
        version=VERSION,
        redirect_slashes=False,
        lifespan=mcp.lifespan,
        docs_url=None,
        redoc_url=None,
        # Its own would tell of query strings, of bodies that were refused, and of errors' messages.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses=openapi.REFUSED,
        generate_unique_id_function=lambda route: route.name,
    )
    for router in (api, history, memory, traces, live, health, reference, console):
        app.include_router(router)
    app.router.routes.append(mcp.route)
    problems.install(app)
    app.add_middleware(Gate)
    app.openapi = lambda: openapi.describe(app)  # type: ignore[method-assign]
    return app
