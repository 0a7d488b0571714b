"""Campaigns: the same outcome for the same number, whoever makes it in which company; and nothing made twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from attrs import evolve
from typer.testing import CliRunner

from perago_core.values import Backing
from perago_simulation.campaign import Campaign, CampaignError, Folder, Processes, Summary, carry_out
from perago_simulation.campaign.outcomes import make
from perago_simulation.campaign.plan import cut, missing
from perago_simulation.cli import app
from perago_simulation.runs.replay import model_of, read_line, replay, verdict
from perago_simulation.runs.schedule import Swarm, WorldCache, simulate
from perago_simulation.world.settings import setting

pq: Any = pytest.importorskip("pyarrow.parquet")
T = TypeVar("T")
R = TypeVar("R")

SOUND = Campaign(setting=setting(Backing.ATOMIC, crashes=1))
BROKEN = Campaign(setting=setting(Backing.SOFT, crashes=1, no_ops=True))


def here(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Do it in this process, the last first: an engine owes nobody an order."""
    return map(function, reversed(items))


def digests(folder: Folder) -> dict[int, int]:
    rows = pq.read_table(folder.outcomes).to_pylist()
    assert len({each["seed"] for each in rows}) == len(rows)
    return {each["seed"]: each["digest"] for each in rows}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, Summary]:
    folder = Folder(tmp_path_factory.mktemp("reference"))
    return folder, carry_out(BROKEN, folder, 600, here)


@pytest.mark.parametrize("piece", [600, 75, 7])
def test_every_schedule_has_one_digest_in_pieces_of_any_size(
    reference: tuple[Folder, Summary], tmp_path: Path, piece: int
) -> None:
    """Acceptance 10, S-39."""
    folder = Folder(tmp_path)
    assert carry_out(BROKEN, folder, 600, here, piece=piece) == reference[1]
    assert digests(folder) == digests(reference[0])


def test_other_processes_make_the_same_schedules(reference: tuple[Folder, Summary], tmp_path: Path) -> None:
    """Acceptance 10: processes of their own have other hash seeds and other worlds in memory."""
    folder = Folder(tmp_path)
    assert carry_out(BROKEN, folder, 600, Processes(2), piece=150) == reference[1]
    assert digests(folder) == digests(reference[0])


def test_forgetting_what_was_seen_changes_nothing(reference: tuple[Folder, Summary], tmp_path: Path) -> None:
    folder = Folder(tmp_path)

    def forgetful(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        from perago_simulation.campaign import outcomes  # noqa: PLC0415  its memory is what is looked at

        for each in items:
            outcomes.worlds_of.cache_clear()
            yield function(each)

    assert carry_out(BROKEN, folder, 600, forgetful, piece=100) == reference[1]


def test_a_seeded_bug_is_found_and_its_line_replays(reference: tuple[Folder, Summary]) -> None:
    """Acceptance 10: the plain head check is not enough, and the data set holds the way to see it."""
    _, summary = reference
    assert "S-02b" in {each.property for each in summary.broken}
    for each in summary.broken:
        line = read_line(each.line)
        model = model_of(line)
        found = verdict(model, replay(model, line.choices))
        assert found is not None
        assert found.property == each.property
        assert len(line.choices) == each.steps


def test_a_campaign_makes_the_runs_that_simulate_makes(reference: tuple[Folder, Summary]) -> None:
    runs = simulate(WorldCache(BROKEN.model()), Swarm(), 600, stop_after=600)
    assert sum(each.schedules for each in reference[1].broken) == len(runs.failures)
    assert reference[1].steps == runs.steps


def test_nothing_breaks_where_nothing_can_and_crashes_fall_into_many_windows(tmp_path: Path) -> None:
    summary = carry_out(SOUND, Folder(tmp_path), 2_000, here)
    assert summary.broken == ()
    assert sum(summary.outcomes.values()) == summary.schedules == 2_000
    assert set(summary.outcomes) == {"completes", "fails closed"}
    met = {name for name in summary.faults if name.startswith("crash at ")}
    assert {"crash at PUBLICATION", "crash at REPORT", "crash at COMMIT", "crash at CLEAN_UP"} <= met


def test_a_stopped_campaign_goes_on_with_what_is_missing(reference: tuple[Folder, Summary], tmp_path: Path) -> None:
    folder, made = Folder(tmp_path), list[tuple[int, int]]()

    def stopping(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        for number, each in enumerate(items):
            if number == 3:
                raise KeyboardInterrupt
            yield function(each)

    def counting(function: Callable[[Any], R], items: Sequence[Any]) -> Iterator[R]:
        made.extend(each[1] for each in items)
        return map(function, items)

    with pytest.raises(KeyboardInterrupt):
        carry_out(BROKEN, folder, 600, stopping, piece=100)
    assert folder.done() == [(0, 100), (100, 200), (200, 300)]
    (folder.outcomes / ".schedules-000000000300-000000000400.parquet.1").write_bytes(b"half of a file")
    assert carry_out(BROKEN, folder, 600, counting, piece=250, resume=True) == reference[1]
    assert made == [(300, 550), (550, 600)]
    assert digests(folder) == digests(reference[0])


def test_more_schedules_may_be_wanted_later_and_fewer_are_summed_up(
    reference: tuple[Folder, Summary], tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    short = carry_out(BROKEN, folder, 250, here, piece=100)
    assert carry_out(BROKEN, folder, 600, here, piece=100, resume=True) == reference[1]
    assert carry_out(BROKEN, folder, 250, here, resume=True) == short


def test_a_folder_belongs_to_one_campaign(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    carry_out(SOUND, folder, 10, here)
    with pytest.raises(CampaignError, match=r"found one with 10 schedules\. Go on with it by --resume"):
        carry_out(SOUND, folder, 10, here)
    with pytest.raises(CampaignError, match="found another seed"):
        carry_out(evolve(SOUND, seed=1), folder, 10, here, resume=True)
    with pytest.raises(CampaignError, match="found another of"):
        carry_out(BROKEN, folder, 10, here, resume=True)


def test_outcomes_that_do_not_come_out_again_are_not_gone_on_with(tmp_path: Path) -> None:
    """Resuming on a changed simulator would mix two campaigns under one name."""
    folder = Folder(tmp_path)
    carry_out(SOUND, folder, 20, here)
    other = make((evolve(SOUND, seed=1), (0, 20)))
    folder.store(other)
    with pytest.raises(CampaignError, match="the simulator has changed since"):
        carry_out(SOUND, folder, 40, here, resume=True)


def test_ranges_are_cut_and_gaps_are_found() -> None:
    assert list(cut([(0, 25), (40, 41)], 10)) == [(0, 10), (10, 20), (20, 25), (40, 41)]
    assert list(missing([], 5)) == [(0, 5)]
    assert list(missing([(10, 20), (0, 5), (15, 30)], 40)) == [(5, 10), (30, 40)]
    assert list(missing([(10, 20)], 10)) == [(0, 10)]
    assert list(missing([(10, 20)], 8)) == [(0, 8)]
    assert list(missing([(0, 50)], 40)) == []


def run(*arguments: str) -> Any:  # noqa: ANN401  click's own result
    return CliRunner().invoke(app, ["campaign", *arguments])


def test_the_command_writes_a_data_set_and_says_what_broke(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    told = run("--schedules", "3e2", "--out", folder, "--no-ops", "--crashes", "1", "--processes", "1", "--json")
    assert told.exit_code == 1, told.output
    found = json.loads(told.stdout)
    assert found["schedules"] == 300
    assert found["broken"][0]["line"].startswith("run ")
    assert pq.read_table(f"{folder}/outcomes").num_rows == 300
    again = run("--schedules", "300", "--out", folder, "--no-ops", "--crashes", "1", "--resume")
    assert again.exit_code == 1
    assert f"perago replay '{found['broken'][0]['line']}'" in again.stdout
    assert found["digest"] in again.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--schedules", "1.5"], "expected a whole number"),
        (["--schedules", "many"], "expected a whole number"),
        (["--on", "spork"], "expected processes"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    told = run("--out", str(tmp_path / "out"), *arguments)
    assert told.exit_code == 2
    assert says in " ".join(told.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
