"""Which paths of objects may be stored anywhere. They come from outside, and become files on somebody's disk."""

from __future__ import annotations

LONGEST = 1024


def problem_of(path: str) -> str | None:
    """Say why a path may not be stored, and what to do; ``None`` if it may. One ``/`` at its end marks a directory."""
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode; rename the file"
    if length > LONGEST:
        return f"it has {length} bytes, and at most {LONGEST} are allowed; shorten it"
    if "\0" in path:
        return "it contains a NUL character; rename the file"
    if path.startswith("/"):
        return "it is absolute; give it relative to the root of the repository"
    for name in path.removesuffix("/").split("/"):
        if name in {"", ".", ".."}:
            return f"it has {name!r} where a name should be; give the path in its shortest form"
    return None


def is_ignored(path: str) -> bool:
    """Say whether readers of the data leave a file out: Spark and Hive skip names that begin like this."""
    return path.rpartition("/")[2].startswith(("_", "."))
