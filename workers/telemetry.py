"""Log lines: one event a line on stderr, with the ids that the task, the request and the console show.

What was said never gets into one. Callers log ids and counts; of an error that is not ours only the type and the places
are told, for its message may quote what it failed at.
"""

import logging
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any

import structlog

from domain.errors import PromptctxError

Line = MutableMapping[str, Any]


def configure(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            without_messages,
            structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event"), bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        # The stream of the moment: whoever redirects stderr later is followed.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def without_messages(logger: object, name: str, line: Line) -> Line:
    """An exception as its types and places, from the one that began it to the one that was caught."""
    given = line.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given
    if isinstance(error, BaseException):
        line["error"] = " < ".join(map(told, _causes(error)))
    return line


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def told(error: BaseException) -> str:
    """What may be kept of an error: its type and the last places, never its message, which may quote a payload."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    if isinstance(error, PromptctxError):
        kind += f"[{error.code}]"
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{kind} at {places}" if places else kind
