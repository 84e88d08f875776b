"""Bodies in and out: bytes to values and back, with every text as it was."""

import json
import tempfile
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

from starlette.requests import Request
from starlette.responses import Response

from domain.errors import InvalidRequest, PayloadTooLarge

MiB = 1024 * 1024
MAX_JSON = 32 * MiB
MAX_DOCUMENT = 64 * MiB
MAX_DEPTH = 100
"""Levels of nesting in a JSON body: far more than real data has, far less than any recursion down the road bears."""

_KEPT_IN_MEMORY = MiB
_PATIENCE = 4
"""A body over the limit is read on, up to so many times the limit, and thrown away: whoever closes a connection into
which the other side still writes loses the answer on the way."""


class Reply(Response):
    """JSON as the engine gave it: no model in between that could lose a text."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


def to_json(value: Any) -> bytes:
    """UTF-8; a lone surrogate, which UTF-8 cannot hold, turns the whole of it to ASCII with `\\udXXX` escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


async def read_json_bytes(request: Request) -> bytes:
    """The body of a JSON call, whatever its content type says."""
    return b"".join([piece async for piece in _pieces(request, MAX_JSON, "Send fewer events in one call.")])


async def spool(request: Request) -> BinaryIO:
    """The body of an upload in a file of its own, so that a slow sender holds neither a thread nor a transaction."""
    file = tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY)  # noqa: SIM115 (whoever asked for it closes it)
    try:
        async for piece in _pieces(request, MAX_DOCUMENT, "Split the document."):
            file.write(piece)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file  # type: ignore[return-value]


async def _pieces(request: Request, limit: int, advice: str) -> AsyncIterator[bytes]:
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limit:
            yield piece
        elif size > limit * _PATIENCE:
            break
    if size > limit:
        raise PayloadTooLarge(f"The body is over the limit of {limit} bytes. {advice}", limit=limit)


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in a body. NaN and Infinity pass: the engine refuses them by the name of their field."""
    value = _parsed(data)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.", path="body")
    if _is_deeper(value, MAX_DEPTH):
        raise _too_deep()
    return value


def _parsed(data: bytes) -> Any:
    if not data.strip():
        raise InvalidRequest("The body is empty; send a JSON object.", path="body")
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: byte {error.start} is wrong.", path="body") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"The body is not JSON: {error.msg} at {place}.", path="body") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise InvalidRequest("The body holds a number of too many digits.", path="body") from None


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"The body is nested more than {MAX_DEPTH} levels deep.", path="body", limit=MAX_DEPTH)


def _is_deeper(value: Any, limit: int) -> bool:
    """Level by level, not by recursion: it is recursion that a hostile body wants to exhaust."""
    level = [value]
    for _ in range(limit):
        if not level:
            return False
        level = [item for one in level for item in _items(one) if type(item) is dict or type(item) is list]
    return bool(level)


def _items(value: Any) -> Any:
    return value.values() if type(value) is dict else value
