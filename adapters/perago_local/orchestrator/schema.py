"""The tables of the embedded orchestrator, and the moment at which a call happens.

Times in milliseconds (``_at``) are records for people. Deadlines (``available_from``, ``respond_by``, ``end_by``) are
seconds of the clock all processes of the machine share, and only they decide anything.

A task can be handed out when ``available_from`` has come; handing it out clears that field. It is set again by a
requeue while the first worker still runs, which is how one task comes to have two workers.
"""

from __future__ import annotations

import sqlite3
from typing import Any, TypeAlias

from attrs import frozen

from perago_local.database import Part

Row: TypeAlias = sqlite3.Row | tuple[Any, ...]

PART = Part(
    name="orchestrator",
    version=2,
    upgrades={1: "ALTER TABLE step ADD COLUMN place TEXT NOT NULL DEFAULT 'before'"},
    schema="""
        CREATE TABLE definition (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE workflow (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            correlation TEXT NOT NULL,
            params TEXT NOT NULL,
            repository TEXT,
            branch TEXT,
            ref TEXT,
            status TEXT NOT NULL,
            reason TEXT NOT NULL DEFAULT '',
            created_at INTEGER NOT NULL,
            ended_at INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID;
        CREATE TABLE step (
            workflow TEXT NOT NULL REFERENCES workflow (id),
            position INTEGER NOT NULL,
            name TEXT NOT NULL,
            task TEXT NOT NULL,
            params TEXT,
            settings TEXT NOT NULL,
            number INTEGER NOT NULL DEFAULT 0,
            end_by REAL,
            place TEXT NOT NULL DEFAULT 'before',
            PRIMARY KEY (workflow, position)
        ) WITHOUT ROWID;
        CREATE TABLE task (
            id TEXT PRIMARY KEY,
            workflow TEXT NOT NULL,
            position INTEGER NOT NULL,
            retry_count INTEGER NOT NULL,
            status TEXT NOT NULL,
            input TEXT NOT NULL,
            scheduled_at INTEGER NOT NULL,
            started_at INTEGER NOT NULL DEFAULT 0,
            ended_at INTEGER NOT NULL DEFAULT 0,
            worker_id TEXT NOT NULL DEFAULT '',
            poll_count INTEGER NOT NULL DEFAULT 0,
            number INTEGER NOT NULL DEFAULT 0,
            available_from REAL,
            respond_by REAL,
            output TEXT,
            result_execution TEXT,
            result_ref TEXT,
            reason TEXT NOT NULL DEFAULT '',
            UNIQUE (workflow, position, retry_count),
            FOREIGN KEY (workflow, position) REFERENCES step (workflow, position)
        ) WITHOUT ROWID;
        CREATE INDEX task_available ON task (available_from) WHERE available_from IS NOT NULL;
        CREATE INDEX task_respond ON task (respond_by) WHERE respond_by IS NOT NULL;
        CREATE INDEX step_end ON step (end_by) WHERE end_by IS NOT NULL;
        CREATE INDEX workflow_status ON workflow (status);
        CREATE TABLE log (sequence INTEGER PRIMARY KEY, task TEXT NOT NULL, at INTEGER NOT NULL, line TEXT NOT NULL);
        CREATE INDEX log_task ON log (task)
    """,
    # After a restart of the machine no worker of before is alive: waiting is over, and what was handed out is lost.
    # How much of a total time-out had passed nobody knows; it is counted afresh.
    restarted="""
        UPDATE task SET available_from = 0 WHERE available_from IS NOT NULL;
        UPDATE task SET respond_by = 0 WHERE respond_by IS NOT NULL;
        UPDATE step SET end_by = :now + json_extract(settings, '$.total_timeout') WHERE end_by IS NOT NULL
    """,
)


@frozen
class Moment:
    """When a call happens: ``now`` decides, ``wall`` is written down."""

    now: float
    wall: int
