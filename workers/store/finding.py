"""Finding a text in the payloads of a session's snapshots, without putting them together: what many versions say is
stored once, and so it is looked at once."""

from collections.abc import Collection, Sequence

from workers.store import log, packing, snapshots
from workers.store.database import Unit
from workers.store.packing import Packed, Place, strings
from workers.store.snapshots import SnapshotRow


class Finder:
    """Looks for one text in the snapshots of one session."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[Place, bool] = {}

    def look(self, unit: Unit, tenant: str, rows: Sequence[SnapshotRow]) -> dict[str, bool | None]:
        """By id whether the payload holds the text, None for an erased one. Pruned ones are left out."""
        found: dict[str, bool | None] = {}
        stored = snapshots.bodies(unit, tenant, [row.id for row in rows])
        for row in rows:
            if (packed := stored.get(row.id)) is None:
                found[row.id] = None
                continue
            opened = packing.opened(packed)
            if "payload" in opened.skeleton:
                found[row.id] = self._holds(unit, row, opened)
        return found

    def _holds(self, unit: Unit, row: SnapshotRow, opened: Packed) -> bool:
        said = [opened.place_of(one) for one in strings(opened.skeleton["payload"])]
        if any(self._text in one for one in said if isinstance(one, str)):
            return True
        places = {one for one in said if not isinstance(one, str)}
        self._learn(unit, row, places - self._known.keys())
        return any(self._known[place] for place in places)

    def _learn(self, unit: Unit, row: SnapshotRow, new: Collection[Place]) -> None:
        hashes = [place for place in new if isinstance(place, bytes)]
        for name, text in snapshots.stored_texts(unit, row.tenant, row.stream, hashes).items():
            self._known[name] = self._text in text
        parts = [place for place in new if not isinstance(place, bytes)]
        seqs = {seq for seq, _ in parts}
        events = log.said(unit, row.tenant, row.stream, seqs, seqs)
        for seq, place in parts:
            event_id, texts = events[seq]
            said = event_id if place is None else next(iter(texts[place : place + 1]), None)
            self._known[seq, place] = self._text in (said or "")
