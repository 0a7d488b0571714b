"""``perago import``: files of this machine onto a branch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perago_worker.cli.console import AsJson, CommandError
from perago_worker.cli.project import project_of
from perago_worker.cli.run import run_one
from perago_worker.pipelines.import_task import NAME, import_into


def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files, and folders with all that is in them.")],
    *,
    to: Annotated[str, typer.Option(metavar="REPOSITORY/BRANCH/FOLDER", help="Where they go, e.g. lake/main/raw.")],
    replace: Annotated[bool, typer.Option("--replace", help="Remove what else is in that folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring files onto a branch: one publication, fenced as any other, with what they were recorded beside them."""
    repository, _, rest = to.partition("/")
    branch, _, folder = rest.partition("/")
    if not (repository and branch and folder.strip("/")):
        raise CommandError(f"expected --to REPOSITORY/BRANCH/FOLDER, e.g. lake/main/raw; found {to!r}")
    missing = [str(each) for each in files if not each.exists()]
    if missing:
        raise CommandError(f"expected files or folders; found nothing at {', '.join(missing)}")
    params = {"files": [str(each.resolve()) for each in files], "replace": replace}
    run_one(
        project_of(context), NAME, params, f"{repository}/{branch}", extra={NAME: import_into(folder.strip("/"))}
    ).tell(as_json=as_json)
