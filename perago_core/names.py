"""Staging names: letters, digits, ``_`` and ``-`` only, because stores refuse anything else (P-41, T-P3).

A name says which logical task, attempt and execution it belongs to, so that older ones can be found and revoked by
listing, and a person can tell at a glance whose leftovers they see. The execution id makes it unique (S-31) and, being
random, unguessable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perago_core.values import Target

_READABLE_MAX = 48


def staging_name(logical_task: str, number: int, retry_count: int, task_id: str, execution: str) -> str:
    """Name the staging branch of one execution."""
    return f"{task_prefix(logical_task)}{number}-r{retry_count}-{_slug(task_id)}-{_slug(execution)}"


def task_prefix(logical_task: str) -> str:
    """Give the prefix shared by all staging names of one logical task, and by no other task's.

    The readable part alone is not enough: ``a.b`` and ``a-b`` reduce to the same letters. The digest tells them apart,
    and it comes first, where it has a fixed length: after the readable part, a task named ``a-<digest of a>-7`` would
    pass for attempt 7 of ``a``.
    """
    import hashlib  # noqa: PLC0415  costs 5 ms, which whoever only steps a machine need not pay

    digest = hashlib.sha256(logical_task.encode()).hexdigest()[:12]
    return f"perago-{digest}-{_slug(logical_task)}-"


def is_staging_name(name: str) -> bool:
    """Say whether a name was made by ``staging_name``, or for a recovery: of whichever task."""
    return re.fullmatch(r"perago-[0-9a-f]{12}-[A-Za-z0-9_-]+", name) is not None


def attempt_number(name: str, logical_task: str) -> int | None:
    """Read the attempt number back from a staging name of this task; ``None`` for any other name."""
    prefix = task_prefix(logical_task)
    if not name.startswith(prefix):
        return None
    number = name.removeprefix(prefix).partition("-")[0]
    return int(number) if number.isdecimal() and number.isascii() else None


def task_id_of(name: str) -> str | None:
    """Read the task id back from a staging name; ``None`` for a recovery's, and for any other name.

    Letters that names cannot hold are lost: ask the orchestrator whether there is such a task, and it is this name's.
    """
    found = re.fullmatch(r"perago-[0-9a-f]{12}-.+-[0-9]+-r[0-9]+-(.+)-[^-]+", name)
    return None if found is None else found[1]


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_READABLE_MAX]


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


def escape(part: str) -> str:
    """Write any string as one part of a key: letters, digits, ``_``, ``.``, ``-`` stay, all else becomes ``%XX``.

    The separator never survives, so the keys of ``repo/main`` and ``repo/main/eu`` share no prefix (T-O8).
    """
    return re.sub(r"[^A-Za-z0-9_.-]", _percent, part)


def unescape(part: str) -> str:
    """Give back what ``escape`` was given."""
    return re.sub(r"(?:%[0-9A-F]{2})+", _plain, part)


def target_key(target: Target) -> str:
    """Name a target inside a key; two targets never share a name nor a prefix ending in ``/`` (W-18)."""
    return f"{escape(target.repository)}/{escape(target.branch)}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _plain(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass")
