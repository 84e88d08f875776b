"""The commands of `python -m workers`, by what they are for. Each module puts its own on the parser with `add`."""

import argparse
from collections.abc import Callable
from typing import Any, Protocol

from workers.settings import Settings

Run = Callable[[Settings, Any], int]


class Command(Protocol):
    """Makes a command: its name, what runs it, and one line about it."""

    def __call__(self, name: str, run: Run, about: str) -> argparse.ArgumentParser: ...
