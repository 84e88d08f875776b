"""Who is calling: one place, so that keys can come without a change to any endpoint."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from workers.engine import Engine


@dataclass(frozen=True, slots=True)
class Caller:
    """`may_loosen` is the scope `policy`. An event whose actor is an agent or a tool never has it, whoever calls."""

    tenant: str = "default"
    may_loosen: bool = True


async def caller() -> Caller:
    """Without keys the server is its user's own: one tenant, all rights."""
    return Caller()


async def engine(request: Request) -> Engine:
    found: Engine = request.app.state.engine
    return found


Callers = Annotated[Caller, Depends(caller)]
Engines = Annotated[Engine, Depends(engine)]
