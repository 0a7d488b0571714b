"""From Java's stack traces to the one line that says what to do.

A data source runs in processes that Spark starts; an exception raised there arrives as one of Spark, with our own
message somewhere inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from perago_spark.errors import DatasetError, WorkerError

_FRAME: Final = re.compile(r'  File "(?:.*/)?(?P<file>[^"/]+)", line (?P<line>\d+), in (?P<name>\S+)')
_OURS: Final = re.compile(r"perago_spark\.errors\.DatasetError: expected (.+?); found (.+)\. ([^\n]+?)\.\s*(?:\n|$)")
_PYTHON: Final = (
    "Set spark.pyspark.python in [spark.conf] to a Python like this one, with perago-core[spark], on every executor"
)
_EXECUTOR: Final = (
    "Give them more with spark.executor.memory and spark.executor.memoryOverhead in [spark.conf] (in local mode: "
    "spark.driver.memory), or more partitions to the data"
)
#: Spark's messages and what they mean; the first that matches counts, and its groups fill the braces.
_KNOWN: Final[Mapping[re.Pattern[str], DatasetError]] = {
    re.compile(pattern): meaning
    for pattern, meaning in {
        r'Cannot run program "([^"]+)"': DatasetError(
            "a Python that Spark can start for its workers", "nothing that runs at {0}", _PYTHON
        ),
        r"\[PYTHON_VERSION_MISMATCH\].*?version: (\S+) than that in driver: (\d+\.\d+)": DatasetError(
            "workers with the Python of the body, {1}", "Python {0} there", _PYTHON
        ),
        r"No module named 'pyarrow'": DatasetError(
            "pyarrow in the Python that Spark starts for its workers", "none there", _PYTHON
        ),
        r"No module named 'perago": DatasetError(
            "perago-core in the Python that Spark starts for its workers", "none there", _PYTHON
        ),
        r"ModuleNotFoundError: No module named '([^']+)'": DatasetError(
            "the module {0} in the Python that Spark starts for its workers",
            "none there",
            "Install it on every executor, or send it along with spark.submit.pyFiles in [spark.conf]",
        ),
        r"\[PACKAGE_NOT_INSTALLED\] (\w+) >= (\S+) must be installed": DatasetError(
            "{0} {1} or newer beside Spark", "none", "pip install 'perago-core[spark]'"
        ),
        r"DATA_SOURCE_NOT_FOUND": DatasetError(
            "a thread that belongs to a Spark session",
            "one without, so that Spark does not find the data source",
            "Call it from the thread of the body, or set the active session in your own",
        ),
        r'UNSUPPORTED_DATA_SOURCE_SAVE_MODE\].*?in the "(\w+)" mode': DatasetError(
            "mode 'append' or 'overwrite'",
            "{0}, which is what Spark takes if no mode is given",
            "Add .mode('append') or .mode('overwrite'), or write with ws.write(name, frame)",
        ),
        r"provided partitioning or clustering columns do not match": DatasetError(
            "a write without partitionBy",
            "one with",
            "Partition with ws.write(name, frame, partition_by=[...]); Spark has no such thing for data sources",
        ),
        # Which of them is said depends on whether Java's end or the word of it comes first.
        r"cancelled because SparkContext was shut down|Answer from Java side is empty"
        r"|Error while (?:sending or receiving|obtaining a new communication channel)": DatasetError(
            "a Spark that lives until the job is done",
            "one that shut down in the middle of it, as it does when it runs out of memory (java.lang.OutOfMemoryError "
            "is then in the task's log)",
            "Give it more with spark.driver.memory in [spark.conf], or more partitions to the data; and no "
            "spark.stop() in a thread of the body",
        ),
        r"SparkContext (?:was|has been) (?:stopped|shut ?down)|dagScheduler\(\)\" is null|stopped SparkContext": (
            DatasetError(
                "a running Spark", "one that was stopped", "Leave stopping to the worker: no spark.stop() in a body"
            )
        ),
        # In this order: an executor's error reaches the driver inside one of its own.
        r"ExecutorLostFailure[^\n]*?(?:OOM|[Oo]ut of memory|[Cc]ode(?: is|:)? (?:137|52)|memory limits)": (
            DatasetError("executors with enough memory", "one that was killed because it ran out of it", _EXECUTOR)
        ),
        r"(?:Lost task|in stage|executor \S+\):?)[^\n]*java\.lang\.OutOfMemoryError: ?([^\n]*)": DatasetError(
            "executors with enough memory", "a task that ran out of it: {0}", _EXECUTOR
        ),
        r"SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY": DatasetError(
            "executors with enough memory", "a task that could not get what it needs to sort or join", _EXECUTOR
        ),
        r"bigger than spark\.driver\.maxResultSize|Total size of serialized results": DatasetError(
            "a result that fits into the driver",
            "one larger than spark.driver.maxResultSize",
            "Write it with ws.write instead of collecting it, or raise spark.driver.maxResultSize in [spark.conf]",
        ),
        r"java\.lang\.OutOfMemoryError(?:: ([^\n]*))?": DatasetError(
            "a driver with enough memory",
            "one that ran out of it",
            "Give it more with spark.driver.memory in [spark.conf]; do not collect or broadcast what is large",
        ),
        r"SPARK_JOB_CANCELLED|OPERATION_CANCELL?ED|Job \d+ cancelled": DatasetError(
            "a job that runs to its end", "a cancelled one", "The attempt was lost or timed out"
        ),
        r"Python worker exited unexpectedly": DatasetError(
            "Python workers that live until their task is done",
            "one that was killed or has crashed, most often because memory ran out",
            "Give tasks less at a time with more partitions, or fewer slots; where one crashes is shown by "
            "spark.python.worker.faulthandler.enabled in [spark.conf]",
        ),
    }.items()
}


def explained(error: BaseException) -> Exception:
    """Return the exception to raise instead: ours if one is inside, a known cause, or the error itself."""
    if not isinstance(error, Exception):
        return RuntimeError(str(error))
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return error  # the body's own, even if it raised it because of an exception of Spark
    for text in _texts(error):
        ours = _OURS.search(text)
        if ours is not None:
            return DatasetError(*ours.groups())
    for text in _texts(error):
        for pattern, meaning in _KNOWN.items():
            match = pattern.search(text)
            if match is not None:
                groups = match.groups()
                return DatasetError(meaning.expected.format(*groups), meaning.found.format(*groups), meaning.fix)
    return next((WorkerError(raised) for text in _texts(error) if (raised := _raised(text))), error)


def _raised(text: str) -> str:
    """Return the last lines of a worker's traceback and their place in the source: what the user's function raised.

    They come last, after a page of Spark's own frames: shortening the whole text to a line would cut off exactly them.
    """
    _, mark, traceback = text.partition("from the Python worker:\n")
    lines = traceback.strip().splitlines()
    if not mark or not lines:
        return ""
    frames = [frame for line in lines if (frame := _FRAME.match(line))]
    place = "" if not frames else f" (line {frames[-1]['line']} of {frames[-1]['file']}, in {frames[-1]['name']})"
    message = next((at for at in reversed(range(len(lines))) if lines[at].startswith(" ")), -1) + 1
    return " ".join(lines[message:]) + place


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield str(at)
        at = at.__cause__ or at.__context__
