"""What goes wrong with one execution: it is interrupted, refused, too late, or its request lands when nobody waits."""

from __future__ import annotations

import pytest

from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.runs.path import RunPath
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting
from perago_simulation.world.state import COMPLETED, ENDED, FAILED, FAILED_FOR_GOOD

WAY = ("hand out", "ReloadTask TaskReloaded", "OpenStaging StagingOpened", "Upload Uploaded", "CommitStaging Staged")


def taken(path: RunPath, *moves: str) -> RunPath:
    for move in moves:
        path = path.take(move)
    return path


def phase(path: RunPath) -> Phase:
    state = path.world.runs[0].state
    assert state is not None
    assert isinstance(state.phase, Phase)
    return state.phase


def test_a_sender_that_is_interrupted_leaves_its_publication_on_its_way() -> None:
    """Rule 4: whether it lands is open, so the name goes and whatever is asked afterwards is asked in doubt."""
    path = RunPath(Model(setting(Backing.SOFT, attempts=1, interrupts=1)))
    sent = taken(path, *WAY, "ReloadTask TaskReloaded", "ReadHead HeadSeen", "e0 Publish")
    told = sent.take("run out of time")
    assert phase(told) is Phase.REPORT
    assert [request.awaited for request in told.world.requests] == [False]
    landed = taken(told, "store begin", "store install")
    assert landed.world.head == "M0"
    assert landed.world.runs[0] == told.world.runs[0]


def test_a_request_that_was_held_up_lands_after_its_sender_has_ended() -> None:
    """T-P2: the name is made when nobody is left to remove it; the clean-up has tried before."""
    path = RunPath(Model(setting(Backing.SOFT, attempts=1, crashes=0, losses=1, late_landings=1)))
    ended = taken(path, "hand out", "ReloadTask TaskReloaded", "OpenStaging held up", "Report", "CleanUp")
    assert ended.world.runs[0].fate is ENDED
    assert not ended.world.names
    assert not ended.model.at_rest(ended.world)
    landed = ended.take("network land")
    assert landed.world.names == ((0, "A"),)
    assert landed.model.at_rest(landed.world)


def test_a_body_may_write_before_it_ends_and_its_name_is_kept() -> None:
    """CW-06: the path of every Spark write; a second wish changes nothing, and the name is opened once."""
    path = RunPath(Model(setting(Backing.CONDITIONAL, attempts=1, bodies=True)))
    early = taken(path, "hand out", "PrepareWorkspace", "RunBody wants to write", "ReloadTask", "OpenStaging")
    again = early.take("ResumeBody wants to write")
    assert again.world == early.world
    done = taken(again, "ResumeBody changed", "ReloadTask")
    assert phase(done) is Phase.UPLOAD
    assert done.world.names == ((0, "A"),)


def test_a_body_that_fails_for_good_is_not_tried_again() -> None:
    """S-36: one that only fails is."""
    path = RunPath(Model(setting(Backing.SOFT, attempts=2, bodies=True, refusals=1)))
    running = taken(path, "hand out", "PrepareWorkspace")
    plain = taken(running, "RunBody fails", "Report", "CleanUp")
    assert plain.world.tasks[0].status is FAILED
    assert not plain.model.at_rest(plain.world)
    terminal = taken(running, "RunBody fails for good", "Report", "CleanUp")
    assert terminal.world.tasks[0].status is FAILED_FOR_GOOD
    assert terminal.model.at_rest(terminal.world)


def test_an_attempt_of_an_older_epoch_does_not_publish_and_the_next_one_does() -> None:
    """S-26: with a ledger whoever settles intents is told the epoch, and refuses beside workers of another one."""
    path = RunPath(Model(setting(Backing.SOFT, attempts=2, ledger=True, epochs=1)))
    told = taken(path, *WAY, "ReloadTask TaskReloaded", "new epoch", "SettleIntents")
    state = told.world.runs[0].state
    assert state is not None
    (report,) = state.pending
    assert isinstance(report, m.Report)
    after = taken(told, "Report", "CleanUp", "hand out", *WAY[1:], "ReloadTask TaskReloaded", "SettleIntents")
    assert isinstance(after.world.runs[1].state, type(state))
    assert after.world.runs[1].state.phase is Phase.INTENT


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
def test_a_clock_that_shows_the_deadline_to_be_over_keeps_everybody_from_publishing(backing: Backing) -> None:
    """Nothing is sent past the deadline counted from the last good heartbeat, and nothing is said either."""
    found = explore(setting(backing, attempts=1, crashes=0, pauses=False, lateness=1))
    assert (found.complete, found.broken()) == (True, {})
    path = RunPath(Model(setting(backing, attempts=1, crashes=0, pauses=False, lateness=1))).take("hand out")
    while phase(path) is not Phase.HEAD:
        path = path.take("e0")
    late = path.take("HeadSeen, late")
    assert phase(late) is Phase.CLEAN_UP
    assert late.world.tasks[0].status is not COMPLETED
