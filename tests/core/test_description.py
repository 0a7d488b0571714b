"""A machine described: everything a reader in another language needs, and a fingerprint that changes with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from perago_core.machine.description import commands_of, describe, digest, mermaid
from perago_core.machine.engine import Table
from tests.core.machines import NAMES, load
from tests.core.toy import ROWS, TOY, Bake, Knead

TABLE = Table(TOY)


def test_a_description_says_everything() -> None:
    description = describe(TABLE)
    rows = description.pop("rows")
    assert description == {
        "machine": "toy",
        "initial": ["DOUGH"],
        "terminal": ["DONE"],
        "phases": {
            "DOUGH": {"waiting_for": "the dough", "commands": ["Knead"]},
            "OVEN": {"waiting_for": "the oven", "commands": ["Bake"]},
            "DONE": {"waiting_for": "nothing more", "commands": []},
        },
        "facts": {
            "flour": ["enough", "little"],
            "guests": ["yes", "no"],
            "crust": ["golden", "pale", "black"],
            "patience": ["left", "gone"],
        },
        "commands": {
            "Knead": {
                "fields": [],
                "done": ["Kneaded"],
                "not_done": [],
                "unknown": ["Unknown"],
                "repeatable": True,
            },
            "Bake": {
                "fields": ["degrees"],
                "done": ["Baked"],
                "not_done": ["NotDone"],
                "unknown": ["Unknown"],
                "repeatable": False,
            },
        },
        "interrupts": ["Rang"],
    }
    assert [row["id"] for row in rows] == [row.id for row in ROWS]
    assert rows[1] == {
        "id": "D2",
        "phase": "DOUGH",
        "event": "Kneaded",
        "when": {"flour": ["little"]},
        "next": "DOUGH",
        "ask": {"command": "Knead", "how": "knead"},
        "note": "it sticks: once more",
    }
    assert rows[2]["ask"] is None


def test_the_commands_come_in_the_order_of_the_phases() -> None:
    assert list(commands_of(TABLE)) == [Knead, Bake]


def test_a_picture_shows_the_rows_without_the_interruptions() -> None:
    assert mermaid(TABLE) == (
        "stateDiagram-v2\n"
        "    [*] --> DOUGH\n"
        "    DOUGH --> OVEN: D1 Kneaded\n"
        "    DOUGH --> DOUGH: D2 Kneaded\n"
        "    DOUGH --> DONE: D3 Unknown\n"
        "    OVEN --> DONE: O1 Baked, O2 Baked, O5 Unknown\n"
        "    OVEN --> DOUGH: O3 Baked, O4 NotDone\n"
        "    DONE --> [*]\n"
    )


def test_the_same_machine_has_the_same_fingerprint() -> None:
    assert digest(TABLE) == digest(Table(TOY))


@pytest.mark.parametrize("index", range(len(ROWS)))
def test_a_change_of_any_row_changes_the_fingerprint(index: int) -> None:
    rows = tuple(evolve(row, id="changed") if at == index else row for at, row in enumerate(ROWS))
    assert digest(Table(evolve(TOY, rows=rows))) != digest(TABLE)


def test_a_change_of_a_note_does_not_change_the_fingerprint() -> None:
    rows = tuple(evolve(row, note="said better") for row in ROWS)
    assert digest(Table(evolve(TOY, rows=rows))) == digest(TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_the_real_machines_can_be_written_as_json(name: str) -> None:
    description: dict[str, Any] = describe(load(name))
    assert json.loads(json.dumps(description)) == description
    assert description["machine"] == name
    assert len(description["rows"]) == len(load(name).definition.rows)
