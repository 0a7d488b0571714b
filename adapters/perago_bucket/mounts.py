"""On what file system a folder is, and what follows for those who share it."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

_MOUNTS = Path("/proc/self/mountinfo")
#: File systems that a server has, which machines may see each in its own way.
_SHARED = re.compile(r"nfs.*|cifs|smb.*|9p|ceph|lustre|gpfs|afs|beegfs.*|glusterfs|fuse(\..*)?|virtiofs")


@frozen
class Mount:
    """A mounted file system: where, of which kind, and how it was mounted."""

    at: Path
    kind: str
    options: frozenset[str]

    @property
    def is_shared(self) -> bool:
        """Return whether other machines may have it too."""
        return _SHARED.fullmatch(self.kind) is not None


def mount_of(folder: Path, listed: str | None = None) -> Mount | None:
    """Return what a folder is on, or would be once it is made; ``None``: the system does not say."""
    try:
        lines = (_MOUNTS.read_text(encoding="utf-8") if listed is None else listed).splitlines()
    except OSError:
        return None
    place = folder.resolve()
    found: Mount | None = None
    for line in lines:
        # Fields, then optional ones up to a dash, then the kind, the device and the options of the server.
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 6 or len(rest) < 3:  # noqa: PLR2004  as proc(5) has it
            continue
        at = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two on the same folder the later one is seen.
        if place.is_relative_to(at) and (found is None or at.is_relative_to(found.at)):
            found = Mount(at, rest[0], frozenset((*fields[5].split(","), *rest[2].split(","))))
    return found


def described(folder: Path, listed: str | None = None) -> str:
    """Say what a folder is for whoever keeps data in it."""
    mount = mount_of(folder, listed)
    if mount is None:
        return f"a folder, {folder}, on a file system that the machine does not name"
    if not mount.is_shared:
        return f"a folder on {mount.kind}: for the workers of this machine"
    said = f"a folder on {mount.kind}: proved from this machine alone"
    if "noac" in mount.options:
        return f"{said}, and names are not cached (noac)"
    return f"{said}. Machines that share it may cache names and see an old head: mount it with noac on all of them"
