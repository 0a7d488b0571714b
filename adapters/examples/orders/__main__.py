"""The demo on the screen.

python -m examples.orders [--files] [--folder FOLDER] [--json]        from a source checkout; `make demo` does it
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from attrs import evolve
from rich.markup import escape
from rich.panel import Panel

from examples.orders.page import page
from examples.orders.result import look
from examples.orders.story import FILES, SPARK, DemoError, Edition, Ending, play
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json, teaching
from perago_worker.cli.project import Project
from perago_worker.cli.render import show
from perago_worker.cli.timeline import story_of, write_page


def demo(
    *,
    folder: Annotated[Path | None, typer.Option(help="Where to play; a new temporary folder if not given.")] = None,
    on_files: Annotated[bool, typer.Option("--files", help="Play on plain files, without Spark; quicker.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play a data pipeline in which a worker is killed and another comes back from the dead, and see what is left."""
    if not on_files and find_spec("pyspark") is None:
        raise CommandError("pyspark is not installed: `make setup` brings it; --files plays without it")
    place = Path(tempfile.mkdtemp(prefix="perago-demo-")) if folder is None else folder
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty: the demo wants a folder of its own")
    try:
        ending, story = _play(place, FILES if on_files else SPARK)
        project = Project(place)
        timeline = place / "timeline.html"
        write_page(story_of(project, ending.view.workflow_id), timeline)
        shown = timeline
        if not on_files:
            result = look(project.stack, ending)
            ending = evolve(ending, promises=(*ending.promises, *result.promises))
            shown = place / "result.html"
            shown.write_text(page(ending, result, story, timeline.name), encoding="utf-8")
    except DemoError as error:
        raise CommandError(f"the demo did not come to its end: {error} (in {place})") from None
    if as_json:
        print_json(_data(ending, place, shown, timeline))
    else:
        _print(ending, place, shown, timeline)
    raise typer.Exit(0 if ending.held else 1)


def _play(place: Path, edition: Edition) -> tuple[Ending, list[str]]:
    """Play it, and give what was told on the way."""
    begun = time.monotonic()
    story: list[str] = []
    with messages.status("starting a worker") as status:

        def tell(line: str) -> None:
            story.append(line)
            messages.print(f"[dim]{time.monotonic() - begun:5.1f} s[/dim]  {escape(line)}")

        def murmur(line: str) -> None:
            status.update(f"[dim]{time.monotonic() - begun:5.1f} s[/dim]  {escape(line)}")

        return play(place, edition, tell, murmur), story


def _print(ending: Ending, place: Path, shown: Path, timeline: Path) -> None:
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
    out.print()
    if shown != timeline:
        out.print(f"the result, as a page with a chart: {shown}")
    out.print(f"every step of it, to go through with the arrow keys: {timeline}")
    out.print(
        f"the data is an ordinary git repository: git --git-dir {place}/.perago/store/lake.git log --oneline main"
    )


def _data(ending: Ending, place: Path, shown: Path, timeline: Path) -> dict[str, object]:
    return {
        "held": ending.held,
        "promises": [{"says": each.says, "held": each.held} for each in ending.promises],
        "history": [commit.ref for commit in ending.history],
        "folder": str(place),
        "page": str(shown),
        "timeline": str(timeline),
    }


if __name__ == "__main__":
    typer.run(teaching(demo))
