"""What changed since schema 1, and nothing else: its table and its vectors, through a mapping of their events.

Schema 1 had a class of its own for everything that may be not done or unknown: 76 that only retyped the two answers of
a port. The files in ``schema_1`` are as they were then. Every row is still there under its id, and every vector still
takes the same rows to the same commands and the same end, but for what ``CHANGED`` names: since decision 33
``conditional`` lists the claims past the barrier, and a lost read-back is looked for at the head; since decision 30 a
no-op on ``atomic`` makes an anchor too. Since decision 44 an attempt adopts unless its task says otherwise: what is
followed here is one that replaces, and for it nothing has changed but that its claim keeps its result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perago_core.answers import Event
from perago_core.errors import CodecError, ProtocolError
from perago_core.machine import codec
from perago_core.machine.description import describe
from perago_core.value import Value
from specs.reference import MODULES, told
from tests.specs.vectors import MACHINES

HERE = Path(__file__).parent / "schema_1"
#: What each backing was said to be guarded by.
BACKING = {"nothing": "soft", "claim": "atomic", "revocation": "conditional", "lease": "locked"}
#: That a record cannot be read is an answer, not a failure to answer.
STILL_THERE = {"DecisionUnreadable"}
#: What subjects and events say since: a tick wanted nothing but the time (ADR 28), maintenance was taken at its word
#: (ADR 36), and what was abandoned was replaced (ADR 44).
ADDED_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "Attempt": {"on_abandoned": "replace"},
    "lease.Ticked": {"need": 0},
    "attempt.BodyDone": {"content": {"type": "Content", "before": "rows", "after": "rows"}},
}

#: The phases only an attempt that adopts comes to (decision 44).
ADOPTING = {"EARLIER_CLAIMS", "EARLIER_OWNERS", "EARLIER_HEAD", "RIVALS"}
#: Its rows in the other phases, and what else was added.
ADDED = {"attempt": {"K4", "Q4", "A3", "N2", "N3", "H7", "H8", "PX2"}}
#: A row under another name, because it is now one of two.
RENAMED = {"PX1": "PX1"}
#: The rows that lead elsewhere since (decisions 30 and 33), and those that went with them.
CHANGED = {"attempt": {"F6", "F7", "K1", "Q1", "A1", "A2", "LG3", "NG3", "IG3", "YX1"}}
REMOVED = {"attempt": {"LG2", "NG2", "IG2", "F5"}}
#: The rows that lead where they led, but for attempts that adopt.
GUARDED = {"attempt": {"N1", "NG1", "NG3", "PX1"}}
#: How many vectors of the attempt go another way from one of these rows on; the others are followed to their end.
DIVERTED = {"attempt": 73}

#: Recovery has other rules since decision 29 and the policy since decision 25: nothing of what they were is compared.
each_machine = pytest.mark.parametrize("name", [name for name in MACHINES if name not in {"policy", "recovery"}])


@cache
def table(name: str) -> Mapping[str, Any]:
    machine: Mapping[str, Any] = json.loads((HERE / "table.json").read_text("utf-8"))[name]
    return machine


@cache
def kinds(name: str) -> Mapping[str, str]:
    """Which of the two answers each retyped class was."""
    commands = table(name)["commands"].values()
    not_done = {kind: "NotDone" for command in commands for kind in command["not_done"] if kind not in STILL_THERE}
    return {**not_done, **{kind: "Unknown" for command in commands for kind in command["unknown"]}}


def translated(name: str, event: Mapping[str, Any]) -> dict[str, Any]:
    kind = kinds(name).get(event["type"].removeprefix(f"{name}."))
    if kind is None:
        return {**event, **ADDED_FIELDS.get(event["type"], {})}
    common = {"type": kind, "reason": event.get("reason", ""), "operations": 1, "left": event.get("left_behind", [])}
    times = {"now": event.get("now", 0), "until": event.get("attempt_until", "inf")}
    return {**common, **times} if kind == "Unknown" else common


def named(command: dict[str, Any]) -> dict[str, Any]:
    """Say a command as schema 1 did: claims kept no result, and an atomic plan had no name there, because nobody could
    revoke one (ADR 22).
    """
    if "claim" in command and command["claim"] is not None:
        command = {**command, "claim": {name: each for name, each in command["claim"].items() if name != "result"}}
    plan = command.get("plan")
    if plan is None or plan["condition"] != "head and claim":
        return command
    return {**command, "plan": named({**plan, "name": None})}


def row_of(row: Mapping[str, Any], event: str) -> tuple[Any, ...]:
    guard = {
        "backing" if fact == "guarded_by" else fact: {BACKING.get(each, each) for each in values}
        for fact, values in row["when"].items()
    }
    return row["phase"], event, guard, row["next"], row["ask"]


@each_machine
def test_every_row_is_still_there_under_its_id(name: str) -> None:
    before = {
        RENAMED.get(row["id"], row["id"]): row_of(row, kinds(name).get(row["event"], row["event"]))
        for row in table(name)["rows"]
    }
    rows = [row for row in describe(MACHINES[name])["rows"] if row["phase"] not in ADOPTING]
    after = {row["id"]: row_of(row, row["event"]) for row in rows}
    assert after.keys() - before.keys() == ADDED.get(name, set())
    assert before.keys() - after.keys() == REMOVED.get(name, set())
    changed = CHANGED.get(name, set()) | GUARDED.get(name, set())
    assert {row for row in after if row in before and after[row] != before[row]} == changed


def test_76_classes_only_retyped_an_answer() -> None:
    assert sum(len(kinds(name)) for name in MACHINES) == 76


@each_machine
def test_every_vector_of_schema_1_gives_the_same_verdicts(name: str) -> None:
    stored = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    diverted = 0
    for vector in (*stored["vectors"], *stored["refused"]):
        machine = MACHINES[name]
        subject = {"schema": codec.SCHEMA, **vector["subject"], **ADDED_FIELDS.get(vector["subject"]["type"], {})}
        state, commands = machine.start(codec.load(subject, Value))
        assert [told(each) for each in commands] == vector["start"]["commands"]
        for step in vector["steps"]:
            try:
                event = codec.load({"schema": codec.SCHEMA, **translated(name, step["event"])}, Event)
                fired = machine.fire(state, event)
            except (ProtocolError, CodecError):
                assert step.get("refused"), vector["name"]
                continue
            state = fired.state
            found = (fired.row.id, state.phase.name, [named(told(each)) for each in fired.commands])
            if found != (RENAMED.get(step["row"], step["row"]), step["phase"], step["commands"]):
                assert step["row"] in CHANGED.get(name, set()) | REMOVED.get(name, set()), vector["name"]
                diverted += 1
                break
            if "outcome" in step:
                end = told(MODULES[name].outcome(state))
                assert {key: each for key, each in end.items() if key != "adopted"} == step["outcome"], vector["name"]
    assert diverted == DIVERTED.get(name, 0)
