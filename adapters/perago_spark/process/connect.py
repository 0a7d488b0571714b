"""Spark on a server this process is connected to. Each task has a session of its own there, released when it is over.

What sessions of a server share, such as cached tables, belongs to all its users and is left alone.
"""

from __future__ import annotations

import os
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectedSession

from perago_spark.process.settings import TASK_DEFAULTS, SparkSettings, check_address, refused
from perago_spark.source.data_source import PeragoSource


class ConnectedSpark:
    """A connection to a server. Killing this process does not end its jobs there; interrupting them does."""

    def __init__(self, settings: SparkSettings) -> None:
        check_address(settings.remote)
        self._conf = {**TASK_DEFAULTS, **settings.conf}
        self._base = _connected(settings.remote)
        # For builders in a body: else theirs would start a Spark of its own in this process.
        os.environ.update(SPARK_REMOTE=settings.remote, SPARK_CONNECT_MODE_ENABLED="1")
        self._session: ConnectedSession | None = None

    def task_session(self, group: str) -> SparkSession:
        """Make the session of one task, with the data source in it, and the one that a builder in the body returns."""
        session = self._base.newSession()
        for key, value in self._conf.items():
            session.conf.set(key, value)
        session.addTag(f"perago-{group}")
        session.dataSource.register(PeragoSource)
        _make_default(session)
        self._session = session
        return cast("SparkSession", session)

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
        _make_default(self._base)
        return "the body closed the connection" if self._base.is_stopped else None


def _connected(remote: str) -> ConnectedSession:
    try:
        return ConnectedSession.builder.remote(remote).create()
    except Exception as error:  # noqa: BLE001  whatever it is, it may quote the address, and nobody was asked yet
        raise refused(f"one that PySpark cannot use: {type(error).__name__}") from None


def _make_default(session: ConnectedSession) -> None:
    """Make this the session that a builder gives, and the calling thread's."""
    kind: Any = ConnectedSession
    kind._default_session = kind._active_session.session = session  # noqa: SLF001  Spark has no other way to say it
