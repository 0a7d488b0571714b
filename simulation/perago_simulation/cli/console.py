"""What goes where: results to the standard output, progress and remarks to the standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from perago_report import Story, page

T = TypeVar("T")
R = TypeVar("R")

#: So many items are not worth a process.
_FEW = 2

results = Console()
remarks = Console(stderr=True)


def write_json(data: object) -> None:
    """Write a result as JSON, for programs and for people."""
    results.print_json(json.dumps(data, ensure_ascii=False))


def write_page(told: Story, path: Path) -> None:
    """Write a run as a page, which opens on the step that breaks the property."""
    path.write_text(page(told), encoding="utf-8")
    remarks.print(f"wrote {path}: step through it with the arrow keys", soft_wrap=True)


@contextmanager
def spinning(says: str) -> Generator[Callable[[str], None]]:
    """Show that something is going on, and what; the function given changes the words."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=remarks, transient=True) as progress:
        task = progress.add_task(says)
        yield lambda words: progress.update(task, description=words)


def counted(says: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Return the items, and show how many of them there have been."""
    words = (SpinnerColumn(), TextColumn("{task.description}"))
    numbers = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*words, *numbers, console=remarks, transient=True) as progress:
        yield from progress.track(items, total=total, description=says)


def in_processes(
    says: str, function: Callable[[T], R], items: Sequence[T], begin: Callable[[], object] | None = None
) -> list[R]:
    """Do this to each item, two at a time, in the order of the items; ``begin`` is done first in each process."""
    if len(items) <= _FEW:
        return list(counted(says, map(function, items), len(items)))
    # Spawned, not forked: a forked child would inherit whatever threads and locks the caller happens to have.
    with ProcessPoolExecutor(2, get_context("spawn"), begin) as pool:
        return list(counted(says, pool.map(function, items), len(items)))
