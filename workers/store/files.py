"""Where a SQLite file lies, and what its errors mean: locks do not work over a network."""

import os
import re
from pathlib import Path

import sqlalchemy as sa

NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb", "smbfs", "smb3", "afs", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse",
    "fuse.rclone", "fuse.juicefs", "fuse.glusterfs", "glusterfs", "beegfs", "gpfs", "orangefs", "coda", "ncpfs",
    "ceph", "fuse.ceph", "lustre", "davfs", "fuse.davfs2", "vboxsf", "fuse.vmhgfs-fuse",
})  # fmt: skip
"""File systems of other machines, by the names that the kernel has for them."""

_OCTAL = re.compile(r"\\([0-7]{3})")

MOUNTS = Path("/proc/self/mounts")


def network_file_system(file: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of the file's file system if it is another machine's; None if it is ours, or nobody can tell."""
    try:
        return network_kind(os.path.realpath(file), mounts.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def network_kind(real: str, mounts: str) -> str | None:
    """The same of an absolute path without links, by a table of mounts as the kernel writes it: of the places that the
    path is below the longest counts, of several mounts there the last."""
    place, kind = "", ""
    for line in mounts.splitlines():
        _, written, found, *_ = [*line.split(" "), "", "", ""]
        mounted = _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), written)  # a space is written as \040
        if mounted and len(mounted) >= len(place) and f"{real}/".startswith(mounted.rstrip("/") + "/"):
            place, kind = mounted, found
    return kind if kind in NETWORK else None


def path_of(url: sa.URL) -> Path | None:
    """The file of a SQLite URL."""
    return Path(url.database).expanduser() if url.get_backend_name() == "sqlite" and url.database else None


def sentence(url: sa.URL, reason: str) -> str | None:
    """What an error of SQLite means for whoever runs it; None when its own words will do."""
    file = path_of(url)
    if file is None:
        return None
    if "locked" in reason or "busy" in reason:
        return (
            f"{file} is locked by another program for 15 s now: close what holds it open (`fuser {file}` names it),"
            " such as a database browser or a backup that copies the file."
        )
    if "readonly" in reason or "unable to open" in reason:
        return f"{file} cannot be written ({reason}): give its folder and it to the user that runs this."
    if "not a database" in reason or "malformed" in reason:
        return f"{file} is no SQLite database or is damaged ({reason}): restore a backup, or name another file."
    return None
