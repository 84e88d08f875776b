"""`python -m benchmarks.replays` on one real log: another process, another database, a rebuild, a bundle."""

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import replays

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tau-bench"


@pytest.mark.benchmarks
def test_every_prompt_of_a_log_replays_everywhere(postgres_server: str) -> None:
    report = replays.run(Namespace(corpus=EXAMPLES, sessions=1, turns=1))
    assert report["failures"] == []
    assert report["prompts"] > 0
    assert set(report["replays"]) == set(replays.PLACES)
    assert set(report["replays"].values()) == {report["prompts"]}
