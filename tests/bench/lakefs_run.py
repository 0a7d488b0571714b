"""What a publication on lakeFS costs, ours and others', on one server and in one run.

.venv/bin/python -m tests.bench.lakefs_run
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TypeAlias

from attrs import frozen

from perago_conformance.support import done
from perago_core.values import Backing, CommitRef, Target
from perago_lakefs import hook
from perago_lakefs.store import LakeFSStore
from perago_worker.folders.cache import Cache
from tests.bench import lakefs_transfer
from tests.bench.lakefs_others import others
from tests.bench.lakefs_proxy import Proxy, proxy_for
from tests.bench.lakefs_publication import EDITED, Editing, publish
from tests.support.lakefs.lake import Lake, numbered
from tests.support.servers.environments import PackagesMissingError
from tests.support.servers.lakefs import LAKEFS, LakeFS

OBJECTS, SIZE, LATE = 250, 16 << 10, 0.010
ROUNDS = 3
PREFIX = "ws/"

#: Gets ready for a repository, and gives what publishes an edit of it and says how many seconds that took.
Way: TypeAlias = Callable[[Lake, CommitRef], Callable[[], float]]


@frozen
class Run:
    """What one publication needed."""

    requests: int
    seconds: float
    in_flight: int


def ours(folder: Path, backing: Backing, *, warm: bool) -> Way:
    """Publish our way. Warm: a worker on this machine has worked on this repository before, and read these contents."""

    def ready(lake: Lake, ref: CommitRef) -> Callable[[], float]:
        store, place = LakeFSStore(lake.connection), folder / lake.repository
        cache = Cache(place / "cache", 1 << 34)
        if warm:
            lake.folder(place / "earlier", ref, PREFIX, cache=cache)
            done(store.barrier(Target(lake.repository, "main")))
        return lambda: publish(lake, store, ref, backing, Editing(lake, place / "rooms", cache, PREFIX))

    return ready


def measured(server: LakeFS, proxy: Proxy, way: Way, *, hooked: bool) -> Run:
    """Let a way publish on a new repository, late as the network is, and see that it really did."""
    lake = Lake.on(server)
    files = {path: os.urandom(SIZE) for path in numbered(OBJECTS, prefix=f"{PREFIX}d/")}
    ref = lake.commit({**files, hook.PATH: hook.LENIENT} if hooked else files)
    go = way(lake.through(proxy.url), ref)
    proxy.delay(LATE)
    seconds = go()
    counted = proxy.count()
    proxy.delay(0)
    different = lake.ask("GET", f"{lake.place}/refs/{ref}/diff/main", {"type": "two_dot", "amount": 1000})
    assert [each["path"] for each in different["results"]] == [f"{PREFIX}{EDITED}"], different
    return Run(counted.requests, seconds, counted.most_in_flight)


def publications(server: LakeFS) -> None:
    """Print what one publication needs, each way in turns, so that noise hits all alike."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        proxy = stack.enter_context(proxy_for(server.url))
        ways: dict[str, Way] = {
            f"ours, {backing.value}, {'warm' if warm else 'cold'}": ours(folder, backing, warm=warm)
            for backing in (Backing.SOFT, Backing.CONDITIONAL)
            for warm in (False, True)
        }
        try:
            order = stack.enter_context(others())
        except PackagesMissingError as missing:
            print(f"the others cannot be measured: {missing}")
        else:
            ways |= {
                "perago 0.6.1": lambda lake, ref: lambda: order("perago", lake, ref),
                "lakefs transact": lambda lake, ref: lambda: order("transact", lake, ref),
            }
        # A hook that demands an expected head would refuse whoever does not send one.
        runs: dict[str, list[Run]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                runs[name].append(measured(server, proxy, way, hooked="conditional" in name))
    print(f"publish one edited object of {OBJECTS}, {SIZE >> 10} KiB each, every request {LATE * 1000:.0f} ms late:")
    for name, found in runs.items():
        seconds = median(run.seconds for run in found)
        requests = "/".join(str(each) for each in sorted({run.requests for run in found}))
        ratios = "".join(
            f"  {median(run.seconds for run in runs[other]) / seconds:6.1f}x as fast as {other}"
            for other in ("perago 0.6.1", "lakefs transact")
            if other in runs and name.startswith("ours")
        )
        most = max(run.in_flight for run in found)
        print(f"  {name:<24} {requests:>7} requests, {most:2} at once {seconds:7.2f} s{ratios}")


def main() -> None:
    """Print every figure."""
    if not LAKEFS.is_there():
        print("lakeFS is not measured: it was never obtained here. Run: make servers")
        return
    with tempfile.TemporaryDirectory() as folder, LakeFS(folder=Path(folder)) as server:
        publications(server)
        lakefs_transfer.main(server)


if __name__ == "__main__":
    main()
