"""MCP over streamable HTTP at `/mcp`: the client's own definition of the tools, asking this application.

Each call goes through the API with the key of whoever called, so that scopes, walls and limits are those of the API.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastapi import FastAPI
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from promptctx import AsyncClient
from promptctx.mcp import build
from web.access import token_in

PATH = "/mcp"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """While the application runs, so does what answers at `/mcp`."""

    def client(ctx: Context[Any, Any]) -> AsyncClient:
        key = token_in((ctx.headers or {}).get("authorization", ""))
        # The name is one that a server on its own machine answers to; nothing leaves the process.
        return AsyncClient("http://127.0.0.1", api_key=key, transport=httpx2.ASGITransport(app), timeout=60.0)

    server = build(client)
    app.state.mcp = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True,
        # The gate has looked at host and origin before.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )  # fmt: skip
    async with server.session_manager.run():
        yield


class _Door:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served: ASGIApp = scope["app"].state.mcp
        await served(scope, receive, send)


route = Route(PATH, _Door(), name="mcp", include_in_schema=False)
