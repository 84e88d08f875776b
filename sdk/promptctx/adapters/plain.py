"""No framework: tools that record themselves, and a run as a block.

    from promptctx import Client
    from promptctx.adapters.plain import recorded

    s = Client().session("s-1")

    @recorded(s)
    def weather(city: str) -> dict: ...

    weather("Beijing", call_id="c1")       # a tool.result for the call, errors included

The session gets the tool's name, docstring and parameters, so that prompts offer it to the model.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from promptctx.session import Session

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Tool(Protocol[R_co]):
    """A tool that takes the id of the call it answers."""

    def __call__(self, *args: Any, call_id: str, **kwargs: Any) -> R_co: ...


def recorded(session: Session) -> Callable[[Callable[P, R]], Tool[R]]:
    """Makes of a function a tool: it is registered with its name, docstring and parameters, and each call's result, or
    what it raised, is recorded as the answer to `call_id`."""

    def wrap(tool: Callable[P, R]) -> Tool[R]:
        name = getattr(tool, "__name__", "tool")
        parameters = schema(tool)
        session.tool(name, inspect.getdoc(tool) or "", parameters, required=parameters["required"])

        @functools.wraps(tool)
        def call(*args: Any, call_id: str, **kwargs: Any) -> R:
            try:
                result = tool(*args, **kwargs)
            except Exception as error:
                session.tool_result(call_id, f"{type(error).__name__}: {error}", status="error", name=name)
                raise
            session.tool_result(call_id, result, name=name)
            return result

        return call

    return wrap


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """A JSON schema of a function's parameters, as far as plain types tell it."""
    given = inspect.signature(tool, eval_str=True).parameters.values()
    named = [one for one in given if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    properties = {one.name: {"type": kind} if (kind := _TYPES.get(one.annotation)) else {} for one in named}
    required = [one.name for one in named if one.default is one.empty]
    return {"type": "object", "properties": properties, "required": required}
