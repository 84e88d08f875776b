"""Histories of real agents, and the prompts that promptctx makes of them: docs/before-and-after.md.

    python -m benchmarks.showcase --corpus DIR                                   prints them
    python -m benchmarks.showcase --corpus DIR --doc docs/before-and-after.md    writes them into the page

The same logs and the same code give the same page, byte for byte.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.trajectory import reporting, showing
from benchmarks.trajectory.methods import Promptctx
from benchmarks.trajectory.sessions import load
from promptctx.importers import ImportFailed
from workers.tokens import Tokens

ENCODING = "o200k_base"


@dataclass(frozen=True, slots=True)
class Shown:
    """One prompt of the page: `which` is SESSION,SEQ,CELL as in `benchmarks.trajectories --show`."""

    name: str
    source: str
    which: str


SHOWN = (
    Shown("airline", "tau-bench", "airline-task-13,48,25%"),
    Shown("coding", "mini-swe-agent", "django-11001,42,10%"),
    Shown("chinese", "deer-flow", "5aa47db1,30,4000"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.showcase", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    corpus = Path(__file__).parents[2] / "shared" / "corpus"
    parser.add_argument("--corpus", type=Path, default=corpus, help="a folder of agent logs that holds the ones shown")
    parser.add_argument("--doc", type=Path, metavar="FILE", help="the page to write them into, instead of printing")
    asked = parser.parse_args(arguments)
    try:
        found = dict(prompts(asked.corpus))
    except ImportFailed as error:
        parser.error(str(error))
    if asked.doc:
        reporting.write(asked.doc, {name: f"````text\n{text}\n````" for name, text in found.items()}.get)
    else:
        print("\n\n".join(found.values()))
    return 0


def prompts(corpus: Path) -> Iterator[tuple[str, str]]:
    """Each prompt that is shown by its name, beside the history it stands for."""
    count = Tokens().counter(ENCODING)
    for one in SHOWN:
        folder = corpus / one.source
        if not folder.is_dir():
            raise ImportFailed(f"{folder}: not there; give a folder with {one.source} in it as --corpus.")
        named = one.which.split(",")[0]
        sessions = load(corpus, count, ENCODING, [one.source], named)
        yield one.name, showing.prompt(sessions, Promptctx(), one.which)


if __name__ == "__main__":
    sys.exit(main())
