"""Spark in this process: one context, one fresh session for each task.

A new session has its own temporary views, registered functions and SQL settings. So nothing has to be cleaned that a
task did to its session: the next task never sees it. What sessions do share is reset by ``tidy``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Protocol, cast

from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectedSession

from perago_spark.process.connect import session_address
from perago_spark.process.java import start_java
from perago_spark.process.settings import TASK_DEFAULTS, SparkSettings, check_address, refused
from perago_spark.source.data_source import PeragoSource


class Spark(Protocol):
    """The Spark that a warm process keeps from one task to the next."""

    def task_session(self, group: str, session: str) -> SparkSession:
        """Make the session of one task, with nothing of an earlier one; on a server under this id."""
        ...

    def interrupt(self) -> None:
        """End every job of the task that runs, also those of threads that its body has started."""
        ...

    def tidy(self) -> str | None:
        """Reset what sessions share; return what could not be reset: the process must then not be used again."""
        ...


def open_spark(settings: SparkSettings, scratch: Path) -> Spark:
    """Start Spark in this process, or connect it to a server."""
    if not settings.remote:
        return OwnSpark(open_session(settings, scratch))
    from perago_spark.process.session import ConnectedSpark  # noqa: PLC0415  only who connects needs its packages

    return ConnectedSpark(settings)


def open_session(settings: SparkSettings, scratch: Path) -> SparkSession:
    """Start Spark in this process."""
    # It would make a builder connect to that server, whatever master it is given.
    os.environ.pop("SPARK_REMOTE", None)
    _choose_python(settings)
    named = {"spark.app.name": "perago", "spark.master": settings.master}
    conf = {**named, **_defaults(settings.master, scratch), **settings.conf}
    start_java(conf, scratch)
    builder = SparkSession.builder
    # Once more, through the gateway: Java may have been running before, or the user's arguments set other values.
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _choose_python(settings: SparkSettings) -> None:
    """Choose the Python of Spark's workers: by default Spark takes the first python3 on the PATH, without our packages.

    In the environment, before Java is started: Spark 4.3.0 reads ``spark.pyspark.python`` only if spark-submit started
    the driver. Set in the session's own settings, it was ignored without any message.
    """
    same = sys.executable if settings.master.startswith("local") else None
    python = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or same
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    # People set it to start a notebook, and Spark would start one for each data source.
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)


def _defaults(master: str, scratch: Path) -> dict[str, str]:
    local = {
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
        # A stream's checkpoint is part of every commit, and what was before is in the commits before.
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.asyncLogPurge.enabled": "false",
        **TASK_DEFAULTS,
    }


class OwnSpark:
    """A context in this process. ``base`` is the session that those of tasks come from; no task ever has it."""

    def __init__(self, base: SparkSession) -> None:
        self._base = base
        inner: Any = base
        inner._jsparkSession.sharedState()  # noqa: SLF001  made now: it adds a setting of its own to Hadoop's
        self._hadoop = self._hadoop_settings()

    def task_session(self, group: str, session: str) -> SparkSession:
        """Make the session of one task and make it the one this thread finds. Here it needs no id.

        It must also be the session that ``SparkSession.builder.getOrCreate()`` gives to the body, which would otherwise
        change the settings of the session that all later tasks come from.
        """
        del session
        made = self._base.newSession()
        activate(made)
        _make_default(made)
        self._base.sparkContext.setJobGroup(group, f"perago {group}", interruptOnCancel=True)
        return made

    def interrupt(self) -> None:
        """Cancel every job of this process."""
        self._base.sparkContext.cancelAllJobs()

    def tidy(self) -> str | None:
        """Reset what sessions share; return what could not be reset."""
        base, context = self._base, self._base.sparkContext
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
        _make_default(base)
        left = context.statusTracker().getActiveJobsIds()
        if left:
            return f"the body left {len(left)} running job(s)"
        return None if self._hadoop.equals(self._hadoop_settings()) else "the body changed Hadoop's settings"

    def _hadoop_settings(self) -> Any:  # noqa: ANN401  a map in Java, where it stays: it may hold secrets
        """Copy Hadoop's settings: all sessions share them, and keys of a store are among them."""
        inner: Any = self._base.sparkContext
        return inner._jsc.hadoopConfiguration().getValByRegex("")  # noqa: SLF001  Spark has no other way to ask


def activate(session: SparkSession) -> None:
    """Make this the session of the calling thread.

    Spark's writer looks data sources up in the active session of the calling thread, whatever session the frame is of;
    a thread without one fails with DATA_SOURCE_NOT_FOUND. A session that is connected to a server has no thread there,
    and needs none.
    """
    inner: Any = session
    if not is_connected(session):
        java = inner._get_j_spark_session_class(inner._jvm)  # noqa: SLF001  Spark has no other way to say it
        java.setActiveSession(inner._jsparkSession)  # noqa: SLF001  as above


def is_connected(session: object) -> bool:
    """Whether a session is one of Spark Connect. Its class is no subclass of the one that it is annotated with."""
    return not isinstance(session, SparkSession)


def sees_folders(session: SparkSession) -> bool:
    """Whether the tasks of a Spark see the folders of this machine."""
    return not is_connected(session) and str(session.sparkContext.master).startswith("local")


def _make_default(session: SparkSession) -> None:
    """Make this the session that a builder gives, and threads without one."""
    inner: Any = session
    java = inner._get_j_spark_session_class(inner._jvm)  # noqa: SLF001  Spark has no other way to say it
    java.setDefaultSession(inner._jsparkSession)  # noqa: SLF001  as above
    kind: Any = SparkSession
    kind._instantiatedSession = kind._activeSession = session  # noqa: SLF001  as above


# ---- Spark on a server this process is connected to. Each task has a session there, released when it is over.
#
# What sessions of a server share, such as cached tables, belongs to all its users and is left alone.


class ConnectedSpark:
    """A connection to a server. Killing this process does not end its jobs there; interrupting them does.

    Whoever kills it has them interrupted (``connect``); if that one is gone, the process does it before it ends.
    """

    def __init__(self, settings: SparkSettings) -> None:
        check_address(settings.remote)
        self._conf = {**TASK_DEFAULTS, **settings.conf}
        self._remote = settings.remote
        self._base = _connected(settings.remote)
        # For builders in a body: else theirs would start a Spark of its own in this process.
        os.environ.update(SPARK_REMOTE=settings.remote, SPARK_CONNECT_MODE_ENABLED="1")
        self._session: ConnectedSession | None = None

    def task_session(self, group: str, session: str) -> SparkSession:
        """Make the session of one task, with the data source in it, and the one that a builder in the body returns."""
        # Under an id that whoever ends a killed body knows (``connect``).
        made = _connected(session_address(self._remote, session))
        for key, value in self._conf.items():
            made.conf.set(key, value)
        made.addTag(f"perago-{group}")
        made.dataSource.register(PeragoSource)
        _make_remote_default(made)
        self._session = made
        return cast("SparkSession", made)

    def interrupt(self) -> None:
        """Interrupt every operation of the task's session, on the server."""
        if self._session is not None:
            self._session.interruptAll()

    def tidy(self) -> str | None:
        """Release the task's session, and with it whatever it holds on the server."""
        if self._session is not None:
            self._session.interruptAll()
            self._session.stop()
        self._session = None
        _make_remote_default(self._base)
        return "the body closed the connection" if self._base.is_stopped else None


def _connected(remote: str) -> ConnectedSession:
    try:
        return ConnectedSession.builder.remote(remote).create()
    except Exception as error:  # noqa: BLE001  whatever it is, it may quote the address, and nobody was asked yet
        raise refused(f"one that PySpark cannot use: {type(error).__name__}") from None


def _make_remote_default(session: ConnectedSession) -> None:
    """Make this the session that a builder gives, and the calling thread's."""
    kind: Any = ConnectedSession
    kind._default_session = kind._active_session.session = session  # noqa: SLF001  Spark has no other way to say it
