"""The demo on real lakeFS and real Conductor, by configuration only: the kill, the replacement and the zombie."""

from __future__ import annotations

from pathlib import Path

from examples.orders.story import FILES
from perago_simulation.runs.trace_check import check_trace
from tests.support.servers.conductor import Conductor
from tests.support.servers.demo import play_on
from tests.support.servers.lakefs import LakeFS


def test_the_demo_holds_its_promises_on_real_servers(tmp_path: Path) -> None:
    """S-01, S-15: what a killed worker left is replaced, the zombie's request is refused, history is linear.

    On servers of its own: the shared Conductor may hold another project's tasks of the same names.
    """
    with LakeFS(folder=tmp_path / "lakefs") as lakefs, Conductor(folder=tmp_path / "conductor") as conductor:
        ending = play_on(tmp_path / "project", FILES, lakefs, conductor)
    assert ending.held, ending.promises
    traces = sorted((tmp_path / "project" / ".perago" / "trace").glob("*.jsonl"))
    assert len(traces) >= 5  # on a busy machine a worker may be given up once more
    for trace in traces:
        assert check_trace(trace.read_text(encoding="utf-8").splitlines()).divergence is None, trace
