"""A ledger that does not grow for ever: what workers and ``perago gc`` collect, and what they leave."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done, Unknown
from perago_core.ledger.retention import Retention
from perago_core.results import Completed
from perago_worker.config.load import SettingsError, load
from perago_worker.ops import retention
from perago_worker.ops.retention import EVERY, LedgerCollector, collect_ledger
from perago_worker.stack import Stack
from tests.worker.clocks import Wall
from tests.worker.embedded import Embedded, Faulty, always, embedded

DAY = 24 * 3600.0


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "kept") as made:
        yield made


def keys(worker: Embedded, prefix: str) -> list[str]:
    assert worker.stack.coordination is not None
    listed = worker.stack.coordination.list(prefix)
    assert isinstance(listed, Done)
    return [entry.key for entry in listed.value]


def later(worker: Embedded, days: float) -> tuple[Stack, Wall]:
    clock = Wall(ahead=days * DAY)
    return evolve(worker.stack, clock=clock), clock


def publish(worker: Embedded, collector: LedgerCollector | None = None) -> None:
    worker.start("write", worker.head())
    assert isinstance(worker.run(collectors=() if collector is None else (collector,)).result, Completed)


def test_a_worker_collects_between_two_tasks_what_is_over_and_keeps_the_evidence(worker: Embedded) -> None:
    publish(worker)
    publish(worker)
    assert len(keys(worker, "settled/")) == len(keys(worker, "audit/")) == 2
    stack, clock = later(worker, 31)
    collector = LedgerCollector(stack, Retention())
    publish(worker, collector)
    collector.collect_now_and_then()
    assert len(keys(worker, "audit/")) == 3
    first = len(keys(worker, "settled/"))
    # It begins anywhere and goes round: two parts are the whole, and they are not asked for at once.
    clock.ahead += EVERY
    collector.collect_now_and_then()
    assert keys(worker, "settled/") == []
    assert first <= 3
    publish(worker, collector)
    assert len(keys(worker, "settled/")) == 1, "not again before its time"


def test_a_ledger_that_does_not_answer_is_no_trouble_of_the_task(
    worker: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    deaf: Any = Faulty(worker.stack.coordination, list=always(Unknown("silence")))
    with caplog.at_level(logging.WARNING):
        publish(worker, LedgerCollector(evolve(worker.stack, coordination=deaf), Retention()))
    assert "old records stay in the ledger for now: silence" in caplog.text
    assert isinstance(collect_ledger(evolve(worker.stack, coordination=deaf), Retention()), Unknown)


def test_without_a_ledger_there_is_nothing_to_collect(worker: Embedded) -> None:
    without = evolve(worker.stack, coordination=None)
    LedgerCollector(without, Retention()).collect_now_and_then()
    collected = collect_ledger(without, Retention())
    assert isinstance(collected, Done)
    assert collected.value.looked_at == 0


def test_all_of_it_is_collected_part_by_part(worker: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        publish(worker)
    monkeypatch.setattr(retention, "PART", 2)
    stack, _ = later(worker, 366)
    would = collect_ledger(stack, Retention(), dry_run=True)
    assert len(keys(worker, "")) > 5
    done = collect_ledger(stack, Retention())
    assert would == done
    assert isinstance(done, Done)
    assert (done.value.settlements, done.value.audits) == (3, 3)
    assert (keys(worker, "settled/"), keys(worker, "audit/")) == ([], [])


def test_how_long_is_a_setting(tmp_path: Path) -> None:
    def kept(toml: str) -> Retention:
        (tmp_path / "perago.toml").write_text(f"[coordination]\n{toml}", encoding="utf-8")
        return load(tmp_path, {}, {}).coordination.retention()

    assert kept("") == Retention()
    assert kept("settled_days = 1\naudit_days = inf") == Retention(round(DAY * 1000), None)
    for contradiction in ("settled_days = 400", "settled_days = inf", "settled_days = 0.5"):
        with pytest.raises(SettingsError, match=r"settled_days|raise audit"):
            kept(contradiction)
