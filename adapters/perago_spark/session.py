"""Spark sessions: one context for a process, one fresh session for each task.

A new session has its own temporary views, registered functions and SQL settings. So nothing has to be cleaned that a
task did to its session: the next task never sees it. What sessions do share is put back by ``tidy``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from perago_spark.settings import SparkSettings


def open_session(settings: SparkSettings, scratch: Path) -> SparkSession:
    """Start Spark in this process."""
    builder = SparkSession.builder.appName("perago").master(settings.master)
    for key, value in {**_defaults(settings.master, scratch), **settings.conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _defaults(master: str, scratch: Path) -> dict[str, str]:
    local = {
        # Else workers are whichever python3 comes first on the PATH, without our packages.
        "spark.pyspark.python": sys.executable,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
    }
    return {
        **(local if master.startswith("local") else {}),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # A third of the cost of a Python task.
        "spark.python.unix.domain.socket.enabled": "true",
        # A task that was told to end has this long; the default is as long as a lost attempt has in all.
        "spark.python.task.killTimeout": "500ms",
        # A copy of a slow task does the work twice, and a denied commit counts as a failure of the task.
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
    }


def task_session(base: SparkSession, group: str) -> SparkSession:
    """Make the session of one task and make it the one this thread finds.

    Spark looks data sources up in the active session of the calling thread; a thread without one fails with
    DATA_SOURCE_NOT_FOUND. It must also be the session that ``SparkSession.builder.getOrCreate()`` gives to the body,
    which would otherwise change the settings of the session that all later tasks come from.
    """
    session = base.newSession()
    activate(session)
    for_everyone(session)
    base.sparkContext.setJobGroup(group, f"perago {group}", interruptOnCancel=True)
    return session


def activate(session: SparkSession) -> None:
    """Make this the session of the calling thread."""
    inner: Any = session
    java = inner._get_j_spark_session_class(inner._jvm)  # noqa: SLF001  Spark has no other way to say it
    java.setActiveSession(inner._jsparkSession)  # noqa: SLF001  as above


def for_everyone(session: SparkSession) -> None:
    """Make this the session that a builder gives, and threads without one."""
    inner: Any = session
    java = inner._get_j_spark_session_class(inner._jvm)  # noqa: SLF001  Spark has no other way to say it
    java.setDefaultSession(inner._jsparkSession)  # noqa: SLF001  as above
    kind: Any = SparkSession
    kind._instantiatedSession = kind._activeSession = session  # noqa: SLF001  as above


def interrupt(base: SparkSession) -> None:
    """Cancel every job of this process, also those of threads that a body has started."""
    base.sparkContext.cancelAllJobs()


def tidy(base: SparkSession) -> str | None:
    """Put back what sessions share; say what could not be, because then the process must not be used again."""
    context = base.sparkContext
    inner: Any = context
    if inner._jsc is None or inner._jsc.sc().isStopped():  # noqa: SLF001  Spark has no other way to ask
        return "the body stopped Spark"
    for query in base.streams.active:
        query.stop()
    base.catalog.clearCache()
    for each in list(inner._jsc.getPersistentRDDs().values()):  # noqa: SLF001  as above
        each.unpersist()
    for view in base.catalog.listTables("global_temp"):
        if view.isTemporary and view.namespace == ["global_temp"]:
            base.catalog.dropGlobalTempView(view.name)
    for_everyone(base)
    left = context.statusTracker().getActiveJobsIds()
    return f"the body left {len(left)} running job(s)" if left else None
