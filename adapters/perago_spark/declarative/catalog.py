"""The tables of a pipeline as statements that make them: Spark's own catalog ends with its process.

One file for each table, ``catalog/default.orders.sql``: what ``SHOW CREATE TABLE`` says. The next run gives them to
Spark again, over the files that are there, and Spark goes on where it was.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perago_spark.api.columns import quoted
from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Formats whose tables are their files. The log of any other may name the folder it was written in.
FORMATS: Final = ("parquet", "orc", "json", "csv", "text")
_USING: Final = re.compile(r"^USING (\w+)", re.MULTILINE)


def restore_catalog(spark: SparkSession, catalog: Path, tables: Path) -> None:
    """Make the tables that are on record. Their folders are out of the way meanwhile: Spark wants an empty place."""
    for statement in sorted(catalog.glob("*.sql")):
        database, _, name = statement.stem.partition(".")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
        folder = tables / name if database == "default" else tables / f"{database}.db" / name
        aside = folder.with_name(f".{name}.aside")
        if folder.exists():
            folder.rename(aside)
        spark.sql(statement.read_text(encoding="utf-8"))
        if aside.exists():
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
            spark.catalog.refreshTable(f"{quoted(database)}.{quoted(name)}")


def keep_catalog(spark: SparkSession, catalog: Path) -> tuple[str, ...]:
    """Write down how to make each table there is, and return their names."""
    found = {f"{database}.{name}": _statement(spark, database, name) for database, name in _tables(spark)}
    shutil.rmtree(catalog, ignore_errors=True)
    catalog.mkdir(parents=True)
    for name, statement in found.items():
        (catalog / f"{name}.sql").write_text(f"{statement.strip()}\n", encoding="utf-8")
    return tuple(sorted(found))


def _tables(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Return the tables that are files here. Views have none, and every run makes them anew."""
    for database in spark.catalog.listDatabases():
        for table in spark.catalog.listTables(database.name):
            if table.tableType == "EXTERNAL":
                raise DatasetError(
                    "tables below the workspace, which appear when the run is accepted",
                    f"{database.name}.{table.name} with a LOCATION of its own, which everybody saw at once",
                    "Leave the location out",
                )
            if table.tableType == "MANAGED":
                yield database.name, table.name


def _statement(spark: SparkSession, database: str, name: str) -> str:
    statement = str(spark.sql(f"SHOW CREATE TABLE {quoted(database)}.{quoted(name)}").collect()[0][0])
    using = _USING.search(statement)
    provider = using.group(1).lower() if using else "none"
    if provider not in FORMATS:
        raise DatasetError(
            f"a table in one of the formats {', '.join(FORMATS)}",
            f"{database}.{name} in {provider}",
            "Declare another format for it",
        )
    return statement
