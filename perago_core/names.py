"""Staging names: letters, digits, ``_`` and ``-`` only, because stores refuse anything else (P-41, T-P3).

A name says for which target, logical task, attempt and execution it was made, so that whoever is about to move a target
finds by one listing every name by which somebody else may, and a person can tell at a glance whose leftovers they see.
The execution id makes it unique (S-31) and, being random, unguessable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from perago_core.answers import NotDoneError

if TYPE_CHECKING:
    from perago_core.values import Target

#: What every staging name begins with.
EVERY = "perago-"

#: What the branch of a run begins with. No staging name does, so that neither is taken for the other.
RUNS = "perago_run-"

_READABLE_MAX = 48
_RUN = re.compile(r"[A-Za-z0-9_-]{1,180}")
_OURS = re.compile(r"perago-[0-9a-f]{8}-([0-9a-f]{12}-[A-Za-z0-9_-]+)")
_RECOVERY = re.compile(r".+-[0-9]+-recovery-(.+)-[^-]+")
_TASK_ID = re.compile(r".+-[0-9]+-(?:r[0-9]+|recovery)-(.+)-[^-]+")


def staging_name(  # noqa: PLR0917  a name says all of it
    target: Target, logical_task: str, number: int, retry_count: int, task_id: str, execution: str
) -> str:
    """Name the staging branch of one execution."""
    return f"{task_prefix(target, logical_task)}{number}-r{retry_count}-{_slug(task_id)}-{_last(execution)}"


def recovery_name(target: Target, logical_task: str, number: int, task_id: str, nonce: str) -> str:
    """Name the anchor by which a recovery takes an ended attempt's publication back.

    It carries the number of the dead attempt, so the next attempt revokes it together with that attempt's own names,
    and the id of its task, so that other tasks' attempts do too: a relocation that was delayed on its way cannot land
    on what was published since.
    """
    return f"{task_prefix(target, logical_task)}{number}-recovery-{_slug(task_id)}-{_last(nonce)}"


def target_prefix(target: Target) -> str:
    """Return the prefix shared by the staging names of one target, and by no other branch's of its repository.

    Eight digits of a digest: should two branches ever share them, names of the other one that have ended go too, and
    a name whose task nobody knows, which fails closed.
    """
    return f"{EVERY}{_digest(target.branch, 8)}-"


def task_prefix(target: Target, logical_task: str) -> str:
    """Return the prefix shared by all staging names of one logical task on one target, and by no other task's."""
    return f"{target_prefix(target)}{_task_part(logical_task)}"


def is_staging_name(name: str) -> bool:
    """Return whether a name was made by ``staging_name``, or for a recovery: of whichever task."""
    return _OURS.fullmatch(name) is not None


def is_of_task(name: str, logical_task: str) -> bool:
    """Return whether a staging name belongs to this logical task, on whichever target."""
    ours = _OURS.fullmatch(name)
    return ours is not None and ours[1].startswith(_task_part(logical_task))


def attempt_number(name: str, logical_task: str) -> int | None:
    """Read the attempt number back from a staging name of this task; ``None`` for any other name."""
    ours = _OURS.fullmatch(name)
    part = _task_part(logical_task)
    if ours is None or not ours[1].startswith(part):
        return None
    number = ours[1].removeprefix(part).partition("-")[0]
    return int(number) if number.isdecimal() and number.isascii() else None


def task_id_of(name: str) -> str | None:
    """Read the id of the task a staging name was made for, or whose publication a recovery takes back; else ``None``.

    Letters that names cannot hold are lost: ask the orchestrator whether there is such a task, and it is this name's.
    """
    ours = _OURS.fullmatch(name)
    found = None if ours is None else _TASK_ID.fullmatch(ours[1])
    return None if found is None else found[1]


def is_recovery_name(name: str, task_id: str) -> bool:
    """Return whether a name is the anchor of a recovery that takes this task's publication back."""
    ours = _OURS.fullmatch(name)
    found = None if ours is None else _RECOVERY.fullmatch(ours[1])
    return found is not None and found[1] == _slug(task_id)


def run_branch(workflow_id: str) -> str:
    """Name the branch that one run writes to and nobody else; ``ValueError`` for an id that a name cannot hold.

    The id is in it as it is, so that whoever finds the branch can ask about its run.
    """
    if _RUN.fullmatch(workflow_id) is None:
        message = f"expected a workflow id of letters, digits, '_' and '-', at most 180, found {workflow_id[:200]!r}"
        raise ValueError(message)
    return f"{RUNS}{workflow_id}"


def run_of(branch: str) -> str | None:
    """Read back whose branch this is; ``None`` for a branch that is no run's."""
    workflow_id = branch.removeprefix(RUNS)
    return workflow_id if branch.startswith(RUNS) and _RUN.fullmatch(workflow_id) is not None else None


def branch_of_a_run(target: Target) -> str:
    """Return the branch of a target back that is a run's, or raise ``NotDoneError``: no other is made or removed so."""
    if run_of(target.branch) is None:
        message = f"expected the branch of a run, which begins with {RUNS}, found {target}: it is not ours to change"
        raise NotDoneError(message)
    return target.branch


def _task_part(logical_task: str) -> str:
    """Name a logical task inside a staging name.

    The readable part alone is not enough: ``a.b`` and ``a-b`` reduce to the same letters. The digest tells them apart,
    and it comes first, where it has a fixed length: after the readable part, a task named ``a-<digest of a>-7`` would
    pass for attempt 7 of ``a``.
    """
    return f"{_digest(logical_task, 12)}-{_slug(logical_task)}-"


def _digest(text: str, length: int) -> str:
    import hashlib  # noqa: PLC0415  costs 5 ms, which whoever only steps a machine need not pay

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_READABLE_MAX]


def _last(text: str) -> str:
    """Write what ends a name: without ``-``, so that where the task id before it ends is certain."""
    return _slug(text).replace("-", "_")


_MESSAGE = re.compile(r"(?:Revert [^ ]+: )?(.+) attempt [0-9]+ \((.+)\)")
_REVERT = re.compile(r"Revert [^ ]+: .+ attempt [0-9]+ \(.+\)")
_PUBLISHED = "Publish "


def commit_message(logical_task: str, number: int, task_id: str) -> str:
    """Write the message of a staged commit: for people, and to know whom to ask about it."""
    return f"{logical_task} attempt {number} ({task_id})"


def revert_message(reverted: str, logical_task: str, number: int, task_id: str) -> str:
    """Write the message of a commit that undoes a publication: of the same task, whose claims say that it does."""
    return f"Revert {reverted}: {commit_message(logical_task, number, task_id)}"


def says_revert(message: str) -> bool:
    """Return whether a commit says that it undoes a publication, by its own words or by the name it came from."""
    words = message.partition("\n")[0]
    named = _OURS.fullmatch(words.removeprefix(_PUBLISHED))
    return _REVERT.fullmatch(words) is not None or (named is not None and _RECOVERY.fullmatch(named[1]) is not None)


def task_in(message: str) -> str | None:
    """Read back of which logical task a commit says it is; ``None``: of none, it is a stranger's.

    What it says gives nobody a right. It says whom to ask: one that lies is asked about in vain.
    """
    found = _MESSAGE.fullmatch(message.partition("\n")[0])
    return None if found is None else found[1]


def merge_message(name: str) -> str:
    """Write the message of a commit that a store makes of a staged one and that does not repeat its words."""
    return f"{_PUBLISHED}{name}"


#: What a commit that was published above unaccepted work says so with.
_OVER = "Perago-Over: "


def over_message(message: str, over: Iterable[str]) -> str:
    """Let a message say above which publications that nobody had accepted its commit was published; or stay as it is.

    It is part of the commit, so that no writer can die between the one and the other.
    """
    named = " ".join(over)
    return f"{message.rstrip()}\n\n{_OVER}{named}\n" if named else message


def over_in(message: str) -> tuple[str, ...]:
    """Read back above which unaccepted publications a commit was published, the newest first."""
    said = (each.removeprefix(_OVER) for each in message.splitlines()[1:] if each.startswith(_OVER))
    return tuple(next(said, "").split())


def says_another(message: str, logical_task: str) -> bool:
    """Return whether a commit says that it is another logical task's: in its own words, or by the name it came from.

    One that says nothing we understand does not; nor does one of the task itself.
    """
    task = task_in(message)
    if task is not None:
        return task != logical_task
    name = message.partition("\n")[0].removeprefix(_PUBLISHED)
    return is_staging_name(name) and not is_of_task(name, logical_task)


def task_id_in(message: str) -> str | None:
    """Read back from which task a commit says it comes, by its own words or by the name it was published under.

    As with ``task_in``, it only says whom to ask.
    """
    words = message.partition("\n")[0]
    if words.startswith(_PUBLISHED):
        return task_id_of(words.removeprefix(_PUBLISHED))
    found = _MESSAGE.fullmatch(words)
    return None if found is None else found[2]


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
    """Return whether readers of the data leave a file out: Spark and Hive skip names that begin like this."""
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
