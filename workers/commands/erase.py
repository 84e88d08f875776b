"""Commands that erase: a subject, with a dry run first, and the account of what was erased."""

import argparse
import json
from pathlib import Path
from typing import Any

from domain.errors import InvalidRequest
from workers import assembly
from workers.commands import Command
from workers.commands.care import opened
from workers.commands.screen import shown_progress
from workers.settings import Settings

Json = dict[str, Any]


def add(command: Command) -> None:
    made = command("erase", erase, "erase all that a subject ever said, and all that was made from it")
    made.add_argument("subject", nargs="?", metavar="SUBJECT")
    made.add_argument("--tenant", default="default")
    made.add_argument("--reason", default="", help="stands in the log; name no person in it")
    made.add_argument("--dry-run", action="store_true", help="only tell what would be erased")
    made.add_argument("--again", metavar="FILE", help="what `erasures --json` told, after a restore of an older backup")
    made.add_argument("--json", action="store_true")
    made = command("erasures", erasures, "who was erased, and when; keep it with the backups")
    made.add_argument("--tenant", default="default")
    made.add_argument("--json", action="store_true")


def erase(settings: Settings, asked: argparse.Namespace) -> int:
    if (asked.subject is None) == (asked.again is None):
        raise InvalidRequest("Name a SUBJECT, or a file with --again.")
    wanted = _told_before(Path(asked.again)) if asked.again else [_asked(asked)]
    engine = opened(settings)
    for one in wanted:
        try:
            with shown_progress("erasing") as progress:
                told = engine.erase(one["tenant"], one["subject"], one["reason"], progress, dry_run=asked.dry_run)
        except InvalidRequest:
            if asked.again:
                continue  # a backup from before that subject came
            raise
        print(json.dumps(told) if asked.json else _sentence(told))
    assembly.close(engine)
    return 0


def _asked(asked: argparse.Namespace) -> Json:
    return {"tenant": asked.tenant, "subject": asked.subject, "reason": asked.reason}


def _told_before(path: Path) -> list[Json]:
    try:
        return [{name: one[name] for name in ("tenant", "subject", "reason")} for one in json.loads(path.read_bytes())]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{path} is not what `erasures --json` writes ({type(error).__name__}).") from None


def _sentence(told: Json) -> str:
    verb = "would erase" if told["dry_run"] else "erased"
    return (
        f"{verb} {told['events']:,} events in {told['streams']} streams and {told['prompts']:,} prompts of"
        f" {told['subject']} ({told['tenant']}); sessions: {', '.join(told['sessions']) or 'none'}"
    )


def erasures(settings: Settings, asked: argparse.Namespace) -> int:
    engine = opened(settings)
    found = engine.erasures(asked.tenant)
    assembly.close(engine)
    if asked.json:
        print(json.dumps(found))
    for one in () if asked.json else found:
        print(f"{one['started_at']} {one['subject']}: {'finished' if one['finished_at'] else 'NOT FINISHED'}")
    return 0
