"""The reference answerer: the Python core behind JSON lines, as ``check_vectors.py`` speaks them.

An implementation in another language does the same: hold one state; on ``start`` begin a machine, on ``event`` advance
it or refuse; answer each line with one line. Values are written as ``perago_core.codec`` writes them, a refusal by its
classification alone.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from perago_core import attempt, lease, policy, recovery
from perago_core.answers import Event
from perago_core.errors import CodecError, ProtocolError
from perago_core.machine import codec
from perago_core.machine.engine import Table
from perago_core.machine.rows import State, Step
from perago_core.value import Value

MODULES = {"attempt": attempt, "policy": policy, "lease": lease, "recovery": recovery}


def told(value: object) -> Any:  # noqa: ANN401  what JSON can hold
    """Write a value without what is each program's own: the prose of a refusal, and what its driver saw ports do wrong.

    Binding are the classification of a refusal and all else of an outcome, which is what a machine says.
    """
    return json.loads(json.dumps(codec.plain(value)), object_hook=_without_prose)


def _without_prose(each: dict[str, Any]) -> dict[str, Any]:
    match each.get("type"):
        case "Refusal":
            return {key: each[key] for key in ("type", "classification")}
        case "Outcome":
            return {key: value for key, value in each.items() if key != "faults"}
        case _:
            return each


class Answerer:
    """One machine in one state."""

    table: Table[Any, Any]
    state: State[Any, Any]

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Begin or advance; what is not allowed, or no value at all, is refused and changes nothing."""
        try:
            state, commands = self._begin(question) if "start" in question else self._advance(question)
        except (ProtocolError, CodecError) as problem:
            return {"refused": str(problem)}
        self.state = state
        answer = {"phase": state.phase.name, "commands": [told(each) for each in commands]}
        return {**answer, "outcome": told(self.outcome(state))} if self.table.is_terminal(state) else answer

    def _begin(self, question: dict[str, Any]) -> Step[Any, Any]:
        name = question["machine"]
        self.table = getattr(MODULES[name], name.upper())
        self.outcome = MODULES[name].outcome
        return self.table.start(codec.load({"schema": codec.SCHEMA, **question["start"]}, Value))

    def _advance(self, question: dict[str, Any]) -> Step[Any, Any]:
        return self.table.step(self.state, codec.load({"schema": codec.SCHEMA, **question["event"]}, Event))


if __name__ == "__main__":
    answerer = Answerer()
    for line in sys.stdin:
        print(json.dumps(answerer.answer(json.loads(line))), flush=True)
