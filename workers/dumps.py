"""Prompts as JSON files in a folder, for whoever wants to read along. They are copies: nothing is read from them."""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

LONGEST = 120
"""Characters of a name that are kept as they are; file systems end at 255 bytes."""

_LONE = re.compile("[\ud800-\udfff]")
# A name that begins with a dot is hidden, and `.` and `..` are other folders.
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]|^\.")


class Dumps:
    """Where prompts are dumped, and those of which sessions: patterns as of file names. Without a folder, none."""

    def __init__(self, folder: Path | None = None, sessions: Sequence[str] = ("*",)) -> None:
        self.folder = folder
        self._sessions = tuple(sessions)

    def wants(self, session: str) -> bool:
        return self.folder is not None and any(fnmatchcase(session, pattern) for pattern in self._sessions)

    def path(self, tenant: str, session: str, version: int) -> Path:
        assert self.folder is not None
        return self.folder / safe_name(tenant) / safe_name(session) / f"v{version:04}.json"

    def write(self, tenant: str, session: str, version: int, value: Any) -> None:
        """The file is there whole or not at all. Raises OSError."""
        path = self.path(tenant, session, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_text(value).encode())
            os.replace(made, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(made)
            raise

    def forget(self, tenant: str, session: str, version: int) -> None:
        """Whatever the patterns are now: the file may be from when they were others. Raises OSError."""
        if self.folder is not None:
            self.path(tenant, session, version).unlink(missing_ok=True)


def _text(value: Any) -> str:
    """JSON to be read by people; only lone surrogates, which no file can hold, are escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def safe_name(name: str) -> str:
    """A name as one that no file system takes for anything else: percent-encoded, and cut with a hash if it is long."""
    raw = name.encode("utf-8", "surrogatepass")
    encoded = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
    return encoded if len(encoded) <= LONGEST else f"{encoded[:LONGEST]}~{sha256(raw).hexdigest()[:16]}"
