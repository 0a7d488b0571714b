"""The server dies by SIGKILL while it publishes, and comes back on the same data."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perago_core.failpoints import Failpoint
from perago_core.results import Completed
from perago_core.values import Backing
from tests.lakefs.cutting import HANDLED, play
from tests.lakefs.matrix_stack import POLICIES
from tests.lakefs.scene import Scene, doing
from tests.support.crash.matrix import Verdict, figures
from tests.support.crash.seeds import FULL, seed
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.sharing import demand

ROUNDS = range(40 if FULL else 8)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LakeFS, Scene]]:
    """Give a server of its own, that may be killed."""
    demand(LAKEFS)
    folder: Path = tmp_path_factory.mktemp("lakefs")
    with LakeFS(folder=folder) as server:
        yield server, Scene.on(server)


def killing(server: LakeFS, after: float) -> Callable[[], None]:
    """Kill the server a moment after this is called, and bring it back."""

    def act() -> None:
        time.sleep(after)
        server.kill()

    return threading.Thread(target=act).start


@pytest.mark.parametrize("number", ROUNDS)
def test_a_server_killed_while_it_publishes_shows_the_publication_or_not_and_the_retry_tells_which(
    mortal: tuple[LakeFS, Scene], number: int
) -> None:
    """CW-13, S-01, S-03."""
    server, scene = mortal
    scene.input = scene.head()
    task, chance = f"killed/{number}", random.Random(number)
    reached: Callable[[Failpoint], None] = doing("store.publish.before", killing(server, chance.random() * 0.012))
    first = scene.run(scene.attempt(1, task=task), {"data.txt": b"first %d" % number}, reached)
    until = time.monotonic() + 60
    while server.process is not None:
        assert time.monotonic() < until
        time.sleep(0.01)
    server.start()
    if isinstance(first.result, Completed):
        assert scene.history() == [first.result.ref, scene.input], "what was accepted is there after the restart"
        return
    second = scene.run(scene.attempt(2, task=task), {"data.txt": b"second %d" % number})
    assert isinstance(second.result, Completed), (first, second)
    assert scene.history() == [second.result.ref, scene.input]
    assert scene.file() == b"second %d" % number


@pytest.mark.parametrize("backing", [Backing.SOFT, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_a_server_that_is_away_is_no_disproof_and_no_publication(
    mortal: tuple[LakeFS, Scene], backing: Backing
) -> None:
    """T-W1: silence is not a disproof."""
    server, scene = mortal
    scene.input = before = scene.head()
    server.kill()
    outcome = scene.run(scene.attempt(task=f"away/{backing.value}", backing=backing), {"data.txt": b"lost"})
    probed = scene.store.probe()
    server.start()
    assert not isinstance(outcome.result, Completed)
    assert type(probed).__name__ == "Unknown", probed
    assert scene.head() == before


# ---- lakeFS dies of SIGKILL under the publications of a real worker, and comes back (CW-17, CW-18, N-04).
#
# ``PERAGO_CRASH_SEED`` draws the same moment again, ``PERAGO_MATRIX=full`` kills more servers.


DEATHS = 10 if FULL else 1


@pytest.mark.parametrize("backing", POLICIES)
def test_nothing_accepted_is_lost_when_the_server_is_killed_under_publications(tmp_path: Path, backing: str) -> None:
    """S-01 to S-06, S-19, S-21, S-33, L-01, without a residual: the requests of a dead server have died with it."""
    demand(LAKEFS)
    drawn = seed()
    chance = random.Random(drawn)
    verdicts: list[Verdict] = []
    for number in range(DEATHS):
        verdicts += play(tmp_path / str(number), POLICIES[backing], chance)
    print(f"\nlakeFS killed, {backing} (seed {drawn}): {figures(verdicts)}")  # noqa: T201  the figure
    assert [f"{each.case}: {sentence}" for each in verdicts for sentence in each.broken] == []
    missed = [str(each.case) for each in verdicts if not each.reached and each.case.point != HANDLED]
    assert missed == [], "only what the server was about to do may have been done before it died"
