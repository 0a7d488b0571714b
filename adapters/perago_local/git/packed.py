"""The file ``packed-refs``, in which git keeps many refs at once after a ``git gc`` or ``git pack-refs``."""

from __future__ import annotations

from collections.abc import Collection


def without(content: bytes, refs: Collection[str]) -> bytes:
    """Give the file without these refs. A line ``^id`` says what the tag in the line before it points at."""
    names = {ref.encode() for ref in refs}
    kept: list[bytes] = []
    dropping = False
    for line in content.splitlines(keepends=True):
        if not line.startswith(b"^"):
            dropping = line.rstrip(b"\n").partition(b" ")[2] in names
        if not dropping:
            kept.append(line)
    return b"".join(kept)


def names(content: bytes, prefix: str) -> set[str]:
    """Name the refs in the file that begin like this."""
    wanted = b" " + prefix.encode()
    return {line.partition(b" ")[2].decode() for line in content.splitlines() if line[40:].startswith(wanted)}
