"""What other tools kept when they compacted their context, and what promptctx keeps at the same budget.

    python -m benchmarks.compactions --corpus DIR --json

docs/compactions.md says how to read it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compaction import page
from benchmarks.compaction.judging import judged, row
from benchmarks.trajectory import reporting
from benchmarks.trajectory.sessions import opened
from domain.snapshots import COMPILER
from promptctx.importers import ImportFailed
from workers.tokens import Tokens

ENCODING = "o200k_base"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compactions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--corpus", type=Path, default=Path(__file__).parents[2] / "shared" / "corpus", help="a folder of agent logs")
    add("--json", action="store_true", help="print JSON")
    add("--doc", type=Path, metavar="FILE", help="write tables and examples into a page of the documentation")
    asked = parser.parse_args(arguments)
    try:
        report = _report(asked.corpus)
    except ImportFailed as error:
        parser.error(str(error))
    print(json.dumps(report, ensure_ascii=False, indent=1) if asked.json else page.terminal(report["compactions"]))
    if asked.doc:
        rows = report["compactions"]
        parts = {"logs": page.logs(rows), "table": page.table(rows)}
        parts["examples"] = f"```text\n{page.examples(rows)}\n```"
        reporting.write(asked.doc, parts.get)
    return 0


def _report(corpus: Path) -> dict[str, Any]:
    rows, skipped = [], []
    for found in judged(opened(corpus, Tokens().counter(ENCODING), ENCODING)):
        if isinstance(found, str):
            skipped.append(found)
            print(f"SKIPPED {found}", file=sys.stderr)
        else:
            rows.append(row(found))
            print(f"{found.session.source} {found.session.id}: judged", file=sys.stderr)
    return {"version": f"compiler {COMPILER}", "encoding": ENCODING, "compactions": rows, "skipped": skipped}


if __name__ == "__main__":
    sys.exit(main())
