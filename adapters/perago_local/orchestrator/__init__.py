"""The orchestrator on SQLite: one file that every worker of a machine opens, and no process of its own.

``port`` answers the calls of workers and operators; each is one transaction. ``schema`` has the tables, ``workflow``
the values a workflow is made of, ``progress`` what is scheduled when a task ends or its time is over, ``deliveries``
what a worker does to one task, ``operations`` what an operator does to workflows, ``views`` what people read.
"""

from perago_local.orchestrator.port import SqliteOrchestrator

__all__ = ["SqliteOrchestrator"]
