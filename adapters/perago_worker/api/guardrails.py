"""Guardrails: what must be in a workspace before the body runs (``pre``) and after it (``post``).

A guardrail is any callable that takes the workspace folder. Returning ``False`` or raising is a violation; anything
else is not. The four here look at the shape of the files, never at what is in them. They count files only, and nothing
of ours: what the worker keeps for itself is never in the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from perago_worker.api.errors import GuardrailViolationError, TaskDefinitionError

#: Takes what the body is given: a folder, or the data sets of a Spark task.
Guardrail: TypeAlias = Callable[[Any], object]

#: How many offending files a message names.
_NAMED = 3


@frozen
class RequireFile:
    """There is a file at this path. Made by ``require_file``."""

    path: str

    def __call__(self, workspace: Path) -> None:
        """Raise unless it is so."""
        found = workspace / self.path
        if not found.is_file() or found.is_symlink():
            what = "something else" if found.exists() or found.is_symlink() else "nothing"
            raise GuardrailViolationError(
                f"expected a file {self.path!r}; found {what} there. Write it, or drop the check"
            )


@frozen
class RequireDir:
    """There is a folder at this path. Made by ``require_dir``."""

    path: str

    def __call__(self, workspace: Path) -> None:
        """Raise unless it is so."""
        found = workspace / self.path
        if not found.is_dir() or found.is_symlink():
            what = "something else" if found.exists() or found.is_symlink() else "nothing"
            raise GuardrailViolationError(
                f"expected a folder {self.path!r}; found {what} there. Make it, or drop the check"
            )


@frozen
class RequireGlob:
    """So many files match. Made by ``require_glob``."""

    pattern: str
    at_least: int
    at_most: int | None

    def __call__(self, workspace: Path) -> None:
        """Raise unless it is so."""
        count = len(_matches(workspace, self.pattern))
        if count < self.at_least or (self.at_most is not None and count > self.at_most):
            wanted = f"at least {self.at_least}" if self.at_most is None else f"{self.at_least} to {self.at_most}"
            raise GuardrailViolationError(
                f"expected {wanted} files like {self.pattern!r}; found {count}. Write them, or correct the pattern"
            )


@frozen
class ForbidGlob:
    """No file matches. Made by ``forbid_glob``."""

    pattern: str

    def __call__(self, workspace: Path) -> None:
        """Raise unless it is so."""
        found = _matches(workspace, self.pattern)
        if found:
            named = ", ".join(repr(name) for name in found[:_NAMED]) + (" and more" if len(found) > _NAMED else "")
            raise GuardrailViolationError(f"expected no file like {self.pattern!r}; found {named}. Delete them first")


def require_file(path: str) -> Guardrail:
    """Want a file at this path, relative to the workspace."""
    return RequireFile(_inside(path))


def require_dir(path: str) -> Guardrail:
    """Want a folder at this path, relative to the workspace. An empty folder passes, but no store keeps it."""
    return RequireDir(_inside(path))


def require_glob(pattern: str, min: int = 1, max: int | None = None) -> Guardrail:  # noqa: A002  the familiar names
    """Want at least ``min`` and at most ``max`` files that match; ``**`` stands for any number of folders."""
    if min < 0 or (max is not None and max < min):
        raise TaskDefinitionError(
            f"require_glob wants 0 <= min <= max; found min={min}, max={max}. Correct the numbers"
        )
    return RequireGlob(_inside(pattern), min, max)


def forbid_glob(pattern: str) -> Guardrail:
    """Want no file that matches."""
    return ForbidGlob(_inside(pattern))


def check(guardrail: Guardrail, workspace: object) -> str | None:
    """Ask one guardrail; say what it objects to, or ``None``."""
    try:
        verdict = guardrail(workspace)
    except GuardrailViolationError as violation:
        return str(violation)
    except Exception as error:  # noqa: BLE001  a check that raises anything objects
        return f"{_name(guardrail)} raised {type(error).__name__}: {error}"
    return f"{_name(guardrail)} returned False" if verdict is False else None


def _name(guardrail: Guardrail) -> str:
    return str(getattr(guardrail, "__qualname__", type(guardrail).__name__))


def _matches(workspace: Path, pattern: str) -> list[str]:
    found = (path for path in workspace.glob(pattern) if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(workspace).as_posix() for path in found)


def _inside(path: str) -> str:
    """Refuse, where it is declared, a path that could look outside the workspace."""
    if not path or path.startswith("/") or "\0" in path or ".." in re.split(r"[/\\]", path):
        raise TaskDefinitionError(
            f"a guardrail wants a path inside the workspace, like 'out/data.csv'; found {path!r}. Write it relative"
        )
    return path
