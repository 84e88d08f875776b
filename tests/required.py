"""What a test needs and this machine lacks: a reason to skip it aloud, or to fail where everything is required."""

import os
from typing import NoReturn

import pytest

REQUIRED = os.environ.get("PROMPTCTX_REQUIRE_SERVICES", "") not in ("", "0")


def unavailable(what: str, variable: str) -> NoReturn:
    reason = f"NOT TESTED: {what}; set {variable}"
    if REQUIRED:
        pytest.fail(f"PROMPTCTX_REQUIRE_SERVICES is set, but {reason}", pytrace=False)
    pytest.skip(reason)
