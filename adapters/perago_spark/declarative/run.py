"""``run_pipeline``: what ``spark-pipelines run`` does, in a workspace.

Plain ``spark-pipelines`` refreshes a view by TRUNCATE and append, table after table: a reader sees an empty one, or a
new one beside an old one. Here the whole run works on this attempt's own folder, and becomes visible in one commit.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from perago_spark.declarative.catalog import keep_catalog, restore_catalog
from perago_spark.declarative.paths import keep_logs, restore_logs
from perago_spark.errors import DatasetError, SparkUnavailableError
from perago_spark.process.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
#: Hadoop takes braces for a pattern, and Spark's pipelines quote a space twice: the tables would be somewhere else.
_PLAIN: Final = re.compile(r"[\w./+@=-]+")
_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"
#: What a project may not set: with it the tables would lie elsewhere, or be seen before they are accepted.
_OURS: Final = ("spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.catalog.")
#: How many of the last lines are searched for the reason of a failure.
_LAST: Final = 60


def run_pipeline(
    project: str | Path,
    workspace: Path,
    *,
    full_refresh: Sequence[str] = (),
    full_refresh_all: bool = False,
    refresh: Sequence[str] = (),
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Run a project of Spark Declarative Pipelines in a workspace, and return the names of the tables there are then.

    ``project`` is the folder with its ``spark-pipeline.yml``, or that file. Tables are below ``tables/``, one folder
    each, checkpoints below ``storage/``, whatever the file says; what makes the tables again is in ``catalog/``.
    """
    if find_spec("pyspark.pipelines") is None:
        raise SparkUnavailableError("expected Spark 4.1 or newer, which has pipelines; found an older one. Upgrade it")
    spec = _spec(Path(project))
    folder = workspace.resolve()
    if not _PLAIN.fullmatch(str(folder)):
        raise DatasetError(
            "a workspace whose path is letters, digits and . _ - + @ =",
            str(folder),
            "Let worker.root be such a folder: Spark's pipelines write beside one with a space in it",
        )
    tables, storage, catalog = folder / "tables", folder / "storage", folder / "catalog"
    options = {"full_refresh": list(full_refresh), "full_refresh_all": full_refresh_all, "refresh": list(refresh)}
    with _serving(tables, master, conf or {}) as (spark, environment):
        restore_logs(folder, tables, storage)
        restore_catalog(spark, catalog, tables)
        _run(spec, storage, options, environment)
        names = keep_catalog(spark, catalog)
    keep_logs(folder, tables, storage)
    return names


def _spec(project: Path) -> Path:
    """Find the specification, and refuse one under which tables would not be the workspace's."""
    import yaml  # noqa: PLC0415  only who runs such a project needs it

    found = [project] if project.is_file() else [each for name in _NAMES if (each := project / name).is_file()]
    if len(found) != 1:
        raise DatasetError(
            f"one {' or '.join(_NAMES)} in {project}",
            f"{len(found)}",
            "Make one with: spark-pipelines init --name NAME",
        )
    said: Any = yaml.safe_load(found[0].read_text(encoding="utf-8"))
    if not _is_mapping(said):
        raise DatasetError(f"settings in {found[0].name}", type(said).__name__, "Write name, storage and libraries")
    catalog = said.get("catalog") or "spark_catalog"
    if catalog != "spark_catalog":
        raise DatasetError(
            "tables in spark_catalog, which is the workspace's", f"catalog: {catalog}", "Leave the line out"
        )
    configuration: dict[str, Any] = said.get("configuration") or {}
    ours = sorted(key for key in configuration if key.startswith(_OURS))
    if ours:
        raise DatasetError(
            "a configuration that leaves the place of the tables to the task", ", ".join(ours), "Leave it out"
        )
    return found[0].resolve()


def _is_mapping(said: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(said, dict)


@contextmanager
def _serving(tables: Path, master: str, conf: Mapping[str, str]) -> Generator[tuple[SparkSession, dict[str, str]]]:
    """Start Spark with a Connect server on this machine only; yield its session and what a client's process needs.

    Both share one catalog, in memory: tables made in the one are there in the other. Places are given to Hadoop as they
    are: it takes an address in per cent for the name of a folder.
    """
    from perago_spark.process.java import java_environment  # noqa: PLC0415  Spark is imported when it is needed
    from perago_spark.process.session import open_session  # noqa: PLC0415  as above

    os.environ.update(java_environment(os.environ))
    token = secrets.token_urlsafe(24)
    ours = {
        "spark.plugins": _PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        "spark.sql.warehouse.dir": f"file://{tables}",
        "spark.sql.catalogImplementation": "in-memory",
    }
    tables.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="perago-pipeline-") as scratch:
        spark = open_session(SparkSettings(master, {**conf, **ours}), Path(scratch))
        try:
            inner: Any = spark
            service = getattr(inner._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")  # noqa: SLF001
            port = int(getattr(service, "MODULE$").localPort())
            # PySpark sends a token without TLS to "localhost" only, by that name.
            server = {"SPARK_REMOTE": f"sc://localhost:{port}", "SPARK_CONNECT_MODE_ENABLED": "1"}
            yield spark, {**os.environ, **server, "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
        finally:
            spark.stop()


def _run(spec: Path, storage: Path, options: Mapping[str, object], environment: dict[str, str]) -> None:
    """Run the project in a process of its own. What it prints, this one prints; if it fails, its reason is raised."""
    words = [
        sys.executable,
        "-m",
        "perago_spark.declarative.child",
        str(spec),
        f"file://{storage}",
        json.dumps(options),
    ]
    last: deque[str] = deque(maxlen=_LAST)
    with subprocess.Popen(  # noqa: S603  our own interpreter and module
        words, cwd=spec.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)  # noqa: T201  the body's own output
            last.append(line.strip())
    if running.returncode:
        raise DatasetError(
            "a pipeline that runs to its end", _reason(last) or f"exit {running.returncode}", "See the task's log"
        )


def _reason(lines: Sequence[str]) -> str:
    """Return the error a traceback ends with, or else the last line with a word in it."""
    told = [line for line in lines if line]
    errors = [line for line in told if "Exception: " in line or "Error: " in line or "FAILED" in line]
    return (errors or told or [""])[-1]
