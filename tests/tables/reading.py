"""Reading what is published without our code: git checks a commit out, and other people's programs read the folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from perago_core.values import CommitRef
from tests.spark.lake import Lake
from tests.support.servers.environments import interpreter
from tests.tables import iceberg

_PROGRAM = """
import json, sys
from deltalake import DeltaTable
for folder in sys.argv[1:]:
    table = DeltaTable(folder)
    print(json.dumps([table.version(), table.to_pyarrow_table().to_pylist()]))
"""
_PYICEBERG = """
import json, pathlib, sys
from pyiceberg.table import StaticTable
metadata = pathlib.Path(sys.argv[1], "metadata")
version = (metadata / "version-hint.text").read_text().strip()
table = StaticTable.from_metadata(f"{metadata}/v{version}.metadata.json")
print(json.dumps(table.scan().to_arrow().to_pylist()))
"""
_SPARK = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for pair in sys.argv[2:]:
    builder = builder.config(*pair.split("=", 1))
rows = builder.getOrCreate().read.format("iceberg").load(sys.argv[1]).collect()
print(json.dumps([row.asDict() for row in rows]))
"""


def checked_out(lake: Lake, ref: CommitRef, folder: Path) -> Path:
    """Have git write the files of a commit into a folder, as anybody would."""
    folder.mkdir(parents=True)
    repository = lake.folder / f"{lake.target.repository}.git"
    packed = subprocess.run(  # noqa: S603  our own words
        ["git", "-C", str(repository), "archive", str(ref)],  # noqa: S607  the git of the machine
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)  # noqa: S603, S607  as above
    return folder


def read_by_deltalake(*tables: Path) -> list[tuple[int, list[dict[str, Any]]]]:
    """Have ``deltalake``, which knows neither Spark nor us, read tables: the version of each, and its rows."""
    command = [str(interpreter("tables")), "-c", _PROGRAM, *map(str, tables)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    assert said.returncode == 0, said.stderr[-2000:]
    return [tuple(json.loads(line)) for line in said.stdout.splitlines()]


def read_by_pyiceberg(root: Path, table: str) -> list[dict[str, Any]]:
    """Have ``pyiceberg``, which knows neither Spark nor us, read a table from the root of a checkout."""
    return _printed([str(interpreter("tables")), "-c", _PYICEBERG, table], root)


def read_by_iceberg_on_spark(root: Path, table: str) -> list[dict[str, Any]]:
    """Have a Spark of its own read a table from the root of a checkout."""
    settings = [f"{key}={value}" for key, value in iceberg.settings().items()]
    return _printed([sys.executable, "-c", _SPARK, f"./{table}", *settings], root)


def _printed(command: list[str], root: Path) -> list[dict[str, Any]]:
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    assert said.returncode == 0, said.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(said.stdout.splitlines()[-1])
    return rows
