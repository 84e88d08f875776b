"""Evidence recall: the share of questions for which all the messages that answer them stand in the prompt.

    python -m benchmarks.recall --dataset beam --path ../shared/corpus/beam-100k --budgets 1000,2000,4000,8000 --json

All that is shown besides the question counts against the budget, in o200k_base. A message is inside (`all`) if its
whole text stands there, white space normalised; `passage` asks for 60 % of its tokens.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.recalling.datasets import DATASETS, Conversation, Question
from benchmarks.recalling.methods import BASELINES, Method, Ordered, Promptctx
from domain.recall.passages import passages
from domain.text import inline
from workers.embeddings import Embedder, Local, is_installed
from workers.tokens import Tokens

Json = dict[str, Any]

ENOUGH = 0.6
SENTENCE = 160
_SPACE = re.compile(r"\s+")
_count = Tokens().counter("o200k_base")


def normal(text: str) -> str:
    """White space normalised, and what a prompt does to data so that it stays data undone on both sides."""
    return _SPACE.sub(" ", inline(text).replace(" ⏎ ", " ")).strip()


@lru_cache(1 << 16)
def _parts(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((part, _count(part)) for part in map(normal, passages(text, SENTENCE)))


def held(text: str, shown: str) -> float:
    """The share of a message's tokens that stand in what was shown, sentence by sentence."""
    parts = _parts(text)
    return sum(tokens for part, tokens in parts if part in shown) / (sum(tokens for _, tokens in parts) or 1)


class Tally:
    """Shares of questions by column."""

    def __init__(self) -> None:
        self._asked: dict[str, list[tuple[bool, bool]]] = defaultdict(list)

    def add(self, category: str, whole: bool, passage: bool) -> None:
        self._asked[category].append((whole, passage))

    def shares(self, column: str) -> Json:
        rows = [row for found in self._asked.values() for row in found]
        place = ("all", "passage").index(column)
        by_category = {
            name: round(sum(row[place] for row in found) / len(found), 4) for name, found in sorted(self._asked.items())
        }
        return {
            "all": round(sum(row[0] for row in rows) / len(rows), 4),
            "passage": round(sum(row[1] for row in rows) / len(rows), 4),
            **by_category,
        }


def measure(
    conversations: Iterable[Conversation],
    budgets: Sequence[int],
    column: str,
    progress: bool,
    embedder: Embedder | None,
    hops: int | None = None,
) -> Json:
    tallies: dict[str, dict[int, Tally]] = defaultdict(lambda: defaultdict(Tally))
    times: list[float] = []
    fills: dict[int, list[float]] = defaultdict(list)
    over = questions = messages = 0
    for conversation in conversations:
        questions, messages = questions + len(conversation.questions), messages + len(conversation.turns)
        with tempfile.TemporaryDirectory() as folder:
            ours = Promptctx(conversation, Path(folder), embedder, hops)
            methods: dict[str, Method] = {"promptctx": ours}
            methods |= {name: Ordered(conversation, _count, rank) for name, rank in BASELINES.items()}
            texts = {turn.id: turn.text for turn in conversation.turns}
            for question in conversation.questions:
                for name, method in methods.items():
                    for budget in budgets:
                        used = _ask(method, question, budget, texts, tallies[name][budget])
                        over += used > budget
                        if method is ours:
                            fills[budget].append(used / budget)
            times += ours.times
            ours.engine.deps.database.dispose()
        if progress:
            print(f"{conversation.name}: {len(conversation.questions)} questions", file=sys.stderr, flush=True)
    return {
        "results": {
            name: {str(budget): tally.shares(column) for budget, tally in by_budget.items()}
            for name, by_budget in tallies.items()
        },
        "ms_p50": round(1000 * statistics.median(times), 1) if times else None,
        "ms_p95": round(1000 * sorted(times)[int(len(times) * 0.95)], 1) if times else None,
        "fill": {str(budget): round(statistics.mean(used), 3) for budget, used in fills.items()},
        "over_budget": over,
        "questions": questions,
        "messages": messages,
    }


def _ask(method: Method, question: Question, budget: int, texts: dict[str, str], tally: Tally) -> int:
    """Scores one answer, one over the budget as none; the tokens that it shows."""
    shown = method.shown(question.text, budget)
    tokens = _count(shown)
    over = tokens > budget
    found = normal(shown)
    shares = [held(texts[name], found) for name in sorted(question.gold)]
    whole = all(normal(texts[name]) in found for name in question.gold)
    tally.add(question.category, whole and not over, all(share >= ENOUGH for share in shares) and not over)
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--dataset", required=True, choices=sorted(DATASETS))
    parser.add_argument("--path", required=True, type=Path, help="a file or folder of the data set")
    parser.add_argument("--budgets", default="1000,2000,4000,8000", help="tokens, with commas")
    parser.add_argument("--embeddings", choices=["local", "none"], default="local" if is_installed() else "none")
    parser.add_argument("--hops", type=int, help="over how many facts recall goes; as the mode says if not given")
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    given = parser.parse_args()
    if not given.path.exists():
        parser.error(f"{given.path} is not there; name the folder or file of the data set.")
    budgets = [int(one) for one in given.budgets.split(",")]
    column = "passage" if given.dataset == "beam" else "all"
    embedder = Local() if given.embeddings == "local" else None
    found = measure(DATASETS[given.dataset](given.path), budgets, column, not given.json, embedder, given.hops)
    if given.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"{found['questions']} questions over {found['messages']} messages; share with the whole evidence, in %")
    for name, rows in found["results"].items():
        print(f"{name:24}" + "".join(f"{100 * rows[str(budget)][column]:8.1f}" for budget in budgets))
    print(f"compile p50 {found['ms_p50']} ms, p95 {found['ms_p95']} ms; over budget: {found['over_budget']}")
    print("budget used: " + "  ".join(f"{budget}: {100 * used:.1f} %" for budget, used in found["fill"].items()))


if __name__ == "__main__":
    main()
