"""``perago init``: a small working project."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from perago_worker.cli.console import AsJson, CommandError, out, print_json

_TEMPLATE = ("perago.toml", "pipeline.py")
_BUCKETS = ("s3://", "az://", "gs://", "file:")
#: Who may use the bucket is said by the variables its cloud knows, never in this file.
_ON_A_BUCKET = """
[store]
kind = "bucket"
url = {url}

[coordination]
kind = "bucket"
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path(),
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Tasks on Spark data sets instead of folders.")] = False,
    store: Annotated[
        str,
        typer.Option(
            help="A bucket, such as s3://name/prefix, or a folder, file:///path or file:path below the project, for "
            "data and coordination; without it, git repositories and SQLite on this machine."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write a small working project: a configuration and three tasks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder} cannot be made: {error.strerror}; choose another folder") from None
    if store and not store.startswith(_BUCKETS):
        raise CommandError(f"expected a bucket such as s3://name/prefix, found {store!r}: use {', '.join(_BUCKETS)}")
    if store.startswith("file://") and not store.startswith("file:///"):
        path = store.removeprefix("file://")
        raise CommandError(
            f"expected a folder of this machine, found {store!r}, which names one of another machine: use "
            f"file:{path} below the project, or file:///{path}"
        )
    template = files("perago_worker") / "template" / ("spark" if spark else "")
    texts = {name: (template / name).read_text(encoding="utf-8") for name in _TEMPLATE}
    if store:
        texts["perago.toml"] += _ON_A_BUCKET.format(url=json.dumps(store, ensure_ascii=False))
    there = [name for name, text in texts.items() if _holds_another(folder / name, text)]
    if there:
        raise CommandError(f"{folder} already holds {' and '.join(there)}: choose another folder, or remove them first")
    for name, text in reversed(texts.items()):
        _write_whole(folder / name, text)
    if as_json:
        print_json({"wrote": [str(folder / name) for name in _TEMPLATE]})
        return
    out.print(f"wrote {', '.join(str(folder / name) for name in _TEMPLATE)}")
    where = "" if folder == Path() else f"cd {folder} && "
    out.print(f"next: [bold]{where}perago run orders[/bold]")


def _holds_another(path: Path, text: str) -> bool:
    """Return whether something else is there. What an ``init`` that was killed has written is written again."""
    try:
        return path.read_bytes() != text.encode()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there with all of it or not at all, the configuration last: with it a project begins.

    Counterexample, seen: an ``init --store`` that was killed left a configuration without the store, in which
    everything worked, on this machine; and the next one refused to write over it.
    """
    half = path.with_name(f".{path.name}.half")
    half.write_text(text, encoding="utf-8")
    half.replace(path)
