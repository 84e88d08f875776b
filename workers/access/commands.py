"""`python -m workers keys …` and `audit`: what an operator does about access."""

import argparse
import json
from typing import Any

from workers.access import keys
from workers.access.scopes import MEANS, SCOPES
from workers.clock import SystemClock, format_time
from workers.settings import Settings
from workers.store import EVERY, Database, acts, migrate


def add_to(commands: Any) -> None:
    """The commands, below the program's own."""
    parser = commands.add_parser("keys", help="API keys: create, list, revoke", description="API keys of tenants.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    meanings = "; ".join(f"{scope}: {means}" for scope, means in MEANS.items())
    made = actions.add_parser("create", help="make a key, which is shown this once", epilog=meanings)
    made.add_argument("--tenant", default="default")
    made.add_argument("--name", required=True, help="whose it is, for lists")
    made.add_argument("--scopes", required=True, help=f"with commas, of {', '.join(SCOPES)}")
    made.add_argument("--days", type=_days, help="after which it expires; never if not given")
    made.set_defaults(run=create)
    made = actions.add_parser("list", help="all keys, without their secrets")
    made.add_argument("--tenant", help="all tenants when not given")
    made.set_defaults(run=listing)
    made = actions.add_parser("revoke", help="put a key out of force, within seconds")
    made.add_argument("key", help="its id, the part between the underscores")
    made.set_defaults(run=revoke)
    made = commands.add_parser("audit", help="what administrators did", description="Acts of administrators.")
    made.add_argument("--tenant", help="all tenants when not given")
    made.add_argument("--limit", type=int, default=100)
    made.set_defaults(run=audit)
    for one in (*actions.choices.values(), made):
        one.add_argument("--json", action="store_true")


def create(settings: Settings, asked: argparse.Namespace) -> int:
    with _store(settings) as database:
        row, token = keys.create(
            database, SystemClock(), asked.tenant, asked.name, asked.scopes.split(","), asked.days
        )  # fmt: skip
    if asked.json:
        print(json.dumps({**keys.in_words(row, row.created_at), "key": token}))
    else:
        print(f"{token}\n\nThis is the only time it is shown. Its id is {row.id}, its tenant {row.tenant}, its scopes")
        print(f"{', '.join(row.scopes)}. Clients take it from PROMPTCTX_API_KEY.")
    return 0


def listing(settings: Settings, asked: argparse.Namespace) -> int:
    with _store(settings) as database:
        found = [keys.in_words(row, SystemClock().now()) for row in keys.listing(database, asked.tenant)]
    if asked.json:
        print(json.dumps({"keys": found}))
    for one in () if asked.json else found:
        until = f" until {one['expires_at']}" if one["expires_at"] else ""
        print(f"{one['id']}  {one['tenant']}  {one['state']}{until}  {','.join(one['scopes'])}  {one['name']}")
    return 0


def revoke(settings: Settings, asked: argparse.Namespace) -> int:
    with _store(settings) as database:
        row = keys.revoke(database, SystemClock(), asked.key)
    print(json.dumps({"id": row.id, "state": "revoked"}) if asked.json else f"{row.id} ({row.name}) is revoked")
    return 0


def audit(settings: Settings, asked: argparse.Namespace) -> int:
    with _store(settings) as database, database.read(EVERY) as unit:
        found = [{**one, "at": format_time(one["at"])} for one in acts.listing(unit, asked.tenant, asked.limit)]
    if asked.json:
        print(json.dumps({"acts": found}))
    for one in () if asked.json else found:
        print(f"{one['at']}  {one['tenant']}  {one['by']}  {one['act']}  {json.dumps(one['about'])}")
    return 0


class _store:
    """The store of the settings, migrated; closed at the end."""

    def __init__(self, settings: Settings) -> None:
        migrate.check(settings.database_url)
        self._database = Database(settings.database_url)

    def __enter__(self) -> Database:
        return self._database

    def __exit__(self, *told: object) -> None:
        self._database.dispose()


def _days(given: str) -> int:
    days = int(given)
    if not 1 <= days <= 36500:
        raise ValueError
    return days
