"""``perago demo``: the story on the screen."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel

from perago_worker.cli.console import AsJson, CommandError, Project, add_commands, messages, out, print_json
from perago_worker.cli.showing import show
from perago_worker.cli.telling import story_of, write_page
from perago_worker.demo import DemoError, Ending, play


def add_to(app: typer.Typer, panel: str) -> None:
    """Add the command."""
    add_commands(app, panel, demo=demo)


def demo(
    *,
    folder: Annotated[Path | None, typer.Option(help="Where to play; a new temporary folder if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a pipeline in which a worker is killed and another comes back from the dead, and see what is left."""
    place = Path(tempfile.mkdtemp(prefix="perago-demo-")) if folder is None else folder
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty: the demo wants a folder of its own")
    begun = time.monotonic()
    with messages.status("starting a worker") as status:

        def tell(line: str) -> None:
            messages.print(f"[dim]{time.monotonic() - begun:5.1f} s[/dim]  {line}")
            status.update("waiting for what happens next")

        try:
            ending = play(place, tell)
        except DemoError as error:
            raise CommandError(f"the demo did not come to its end: {error} (in {place})") from None
    page = place / "timeline.html"
    write_page(story_of(Project(place), ending.view.workflow_id), page)
    if as_json:
        print_json(_data(ending, place, page))
    else:
        _print(ending, place, page)
    raise typer.Exit(0 if ending.held else 1)


def _print(ending: Ending, place: Path, page: Path) -> None:
    out.print()
    show(ending.view, as_json=False)
    out.print()
    accepted = {each.ref: f"{each.step}, attempt {each.number}" for each in ending.view.attempts if each.ref}
    lines = [
        f"[yellow]●[/yellow] {commit.ref[:8]}  {accepted.get(commit.ref, 'the first commit')}"
        for commit in ending.history
    ]
    out.print(Panel("\n[yellow]│[/yellow]\n".join(lines), title="lake/main", expand=False))
    for each in ending.promises:
        mark = "[green]held[/green]  " if each.held else "[red]BROKEN[/red]"
        out.print(f"{mark}  {each.says}{'' if each.held else f'; found {each.found}'}")
    out.print(f"\nevery step of it, to go through with the arrow keys: {page}")
    out.print(
        f"the data is an ordinary git repository: git --git-dir {place}/.perago/store/lake.git log --oneline main"
    )


def _data(ending: Ending, place: Path, page: Path) -> dict[str, object]:
    return {
        "held": ending.held,
        "promises": [{"says": each.says, "held": each.held} for each in ending.promises],
        "history": [commit.ref for commit in ending.history],
        "folder": str(place),
        "timeline": str(page),
    }
