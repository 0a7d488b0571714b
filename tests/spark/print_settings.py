"""Starts Spark with the settings that come in, uses a worker, and says what is in force. Then waits to be let go."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from perago_spark.process.java import java_environment
from perago_spark.process.session import open_session
from perago_spark.process.settings import read_settings


def main() -> None:
    os.environ.update(java_environment(os.environ))
    settings = read_settings(sys.stdin.readline())
    session = open_session(settings, Path(sys.argv[1]))
    context: Any = session.sparkContext

    def same(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        yield from batches

    frame: Any = session.range(2)
    told = {
        "conf": dict(context.getConf().getAll()),
        "hadoop": context._jsc.hadoopConfiguration().get("fs.s3a.secret.key"),
        "java": context._jvm.System.getProperty("perago.own"),
        "rows": frame.mapInArrow(same, frame.schema).count(),
        "words": os.environ.get("PYSPARK_SUBMIT_ARGS"),
    }
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    session.stop()


if __name__ == "__main__":
    main()
