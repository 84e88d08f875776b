"""`promptctx.toml`: its table `[client]` says where the server is and how long to try; the rest is the server's own."""

import os
import tomllib
from pathlib import Path
from typing import Any

from promptctx import errors

VARIABLE = "PROMPTCTX_CONFIG"
FILE = "promptctx.toml"
KINDS: dict[str, tuple[type, ...]] = {"url": (str,), "timeout": (int, float), "retries": (int,), "spool": (str,)}

TEMPLATE = """\
# Settings of promptctx, read by the client, the command line and the server where they are started.
# PROMPTCTX_CONFIG names another file. What stands here gives way to a PROMPTCTX_* variable, and that to an argument.

[client]
# Where the server is (PROMPTCTX_URL). `make up` starts one on this machine.
url = "{url}"

# The key, if the server wants one, is never kept here: set PROMPTCTX_API_KEY.

# Seconds to wait for each answer.
# timeout = 10.0

# How often a lost connection or a busy server is tried again.
# retries = 4

# A folder where promptctx.Outbox keeps events while the server is away; they go out when it is back.
# spool = ".promptctx-spool"

# What the server is set to stands above the table [client], or in a file of its own, by the names that
# `python -m workers doctor` shows, such as
# database_url = "sqlite:///promptctx.db"
# port = 8765
"""


def read() -> dict[str, Any]:
    """The table `[client]`; empty if there is no file. Raises InvalidRequest with one sentence about a wrong one."""
    chosen = os.environ.get(VARIABLE)
    path = Path(chosen or FILE)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("client", {})
    except FileNotFoundError:
        if chosen:
            raise errors.InvalidRequest(f"{VARIABLE} names {path}, which is not there.") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise errors.InvalidRequest(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise errors.InvalidRequest(f"{path} can't be read: {error.strerror}.") from None
    if not isinstance(found, dict):
        raise errors.InvalidRequest(f"{path}: [client] is a table.")
    for key, value in found.items():
        if key == "api_key":
            raise errors.InvalidRequest(f"{path}: a key does not belong into a file; set PROMPTCTX_API_KEY.")
        if key not in KINDS:
            raise errors.InvalidRequest(f"{path}: [client] has no setting {key!r}; it has {', '.join(KINDS)}.")
        if (
            not isinstance(value, KINDS[key])
            or isinstance(value, bool)
            or (isinstance(value, int | float) and value < 0)
        ):
            raise errors.InvalidRequest(f"{path}: client.{key} is not a {KINDS[key][-1].__name__} as it should be.")
    return found
