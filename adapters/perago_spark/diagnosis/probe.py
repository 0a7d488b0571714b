"""A trial of Spark on this machine, in a process of its own, for the doctor.

It starts Spark, asks a worker which Python it runs, and looks up the data source from a thread of a body.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from perago_core.errors import one_line
from perago_spark.errors import SparkUnavailableError
from perago_spark.process.java import java_environment
from perago_spark.process.pool import kill_tree
from perago_spark.process.settings import SparkSettings, read_settings

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perago_spark.diagnosis.probe import main; main()"
)
#: Begins each of our lines among those that Spark prints.
_MARK: Final = "perago-probe "


@frozen
class Probed:
    """One thing that was tried. ``fix`` is what to do if it is not fine."""

    what: str
    fine: bool
    found: str
    fix: str = ""


def probe(settings: SparkSettings, environment: Mapping[str, str], timeout: float = 300.0) -> Iterator[Probed]:
    """Start Spark as a body would have it and yield what was found; a failure is yielded as well, never raised."""
    search = json.dumps([str(Path(each).absolute()) for each in sys.path])
    try:
        java = {} if settings.remote else java_environment(environment)
        process = subprocess.Popen(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", _BOOT, search],
            env={**environment, **java, "PYTHONPATH": os.pathsep.join(json.loads(search))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except (SparkUnavailableError, OSError) as error:
        yield Probed("Spark starts", fine=False, found=one_line(str(error)), fix="Mend that first")
        return
    late = threading.Timer(timeout, kill_tree, (process.pid,))
    late.start()
    output, errors = process.communicate(settings.text())
    late.cancel()
    reports = [line.removeprefix(_MARK) for line in output.splitlines() if line.startswith(_MARK)]
    for line in reports:
        yield Probed(**json.loads(line))
    if process.returncode < 0:
        fix = "See whether the master or the server of [spark] can be reached from here, and answers"
        yield Probed("Spark answers", fine=False, found=f"no more answer after {timeout:g} s", fix=fix)
    elif not reports:
        last = one_line(errors.strip().rpartition("\n")[2] or f"exit code {process.returncode}")
        yield Probed("Spark starts", fine=False, found=last, fix="Correct [spark] in perago.toml")


def main() -> None:
    """Try it, in the process that ``probe`` started."""
    from perago_spark.process.session import open_spark  # noqa: PLC0415  importable without Spark

    settings = read_settings(sys.stdin.read())
    with tempfile.TemporaryDirectory() as scratch:
        spark = open_spark(settings, Path(scratch))
        session = spark.task_session("doctor", str(uuid.uuid4()))
        where = "a Connect server" if settings.remote else settings.master
        _report(Probed("Spark starts", fine=True, found=f"Spark {session.version} on {where}"))
        _report(_caught("Python of the workers", lambda: _workers(session)))
        _report(_caught("threads of a body", lambda: _thread(session)))


def _report(probed: Probed) -> None:
    sys.stdout.write(f"{_MARK}{json.dumps(asdict(probed))}\n")
    sys.stdout.flush()


def _caught(what: str, trial: Callable[[], Probed]) -> Probed:
    from perago_spark.diagnosis.failures import explained  # noqa: PLC0415  as above

    try:
        return trial()
    except Exception as error:  # noqa: BLE001  a doctor reports whatever it finds
        return Probed(what, fine=False, found=one_line(str(explained(error))), fix="See [spark] in perago.toml")


def _workers(session: Any) -> Probed:  # noqa: ANN401  a session of either kind
    """Ask a Python worker of Spark for its version and for what it can import."""

    def describe(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        from importlib import import_module  # noqa: PLC0415  runs in another process
        from importlib.util import find_spec  # noqa: PLC0415  as above

        pa: Any = import_module("pyarrow")
        for _batch in batches:
            ours = "perago_spark" if find_spec("perago_spark") else ""
            yield pa.RecordBatch.from_pydict(
                {
                    "python": [sys.version.split()[0]],
                    "path": [sys.executable],
                    "arrow": [pa.__version__],
                    "ours": [ours],
                }
            )

    (row,) = (
        session.range(0, 1, 1, 1)
        .mapInArrow(describe, "python string, path string, arrow string, ours string")
        .collect()
    )
    same = row["python"].split(".")[:2] == [str(each) for each in sys.version_info[:2]]
    here = sys.version.split()[0]
    return Probed(
        "Python of the workers",
        same and bool(row["ours"]),
        f"Python {row['python']}, pyarrow {row['arrow']}, {'with' if row['ours'] else 'without'} perago-core",
        f"Set spark.pyspark.python in [spark.conf] to a Python {here} with perago-core[spark]; now it is {row['path']}",
    )


def _thread(session: Any) -> Probed:  # noqa: ANN401  as above
    """Look the data source up from a thread that Spark has never seen, as threads of a body do.

    By a write: a read asks the session of the frame, a write that of the thread.
    """
    from perago_spark.process.session import activate  # noqa: PLC0415  as above

    messages: list[str] = []

    def look() -> None:
        activate(session)
        try:
            session.range(1).write.format("perago").mode("append").save()
        except Exception as error:  # noqa: BLE001  without options it must refuse; the question is who does
            messages.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    missing = any("DATA_SOURCE_NOT_FOUND" in message for message in messages)
    return Probed(
        "threads of a body",
        not missing,
        "Spark does not find the data source from there" if missing else "each finds the session and the data source",
        "Install perago-core with its package pyspark_perago where Spark runs",
    )
