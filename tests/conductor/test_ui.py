"""``perago ui`` on a real lakeFS, a real Conductor and a real etcd: the same answers by the same calls."""

from __future__ import annotations

from pathlib import Path

from perago_core.values import Target
from tests.conductor.deployment import Deployment, over_lakefs
from tests.support.etcd.server import running
from tests.support.servers.conductor import Conductor
from tests.support.servers.fixtures import lakefs_server
from tests.support.servers.lakefs import LakeFS
from tests.worker.test_ui import Visitor, serving

__all__ = ["lakefs_server"]


def test_the_page_shows_runs_branch_and_cluster_of_real_servers(
    tmp_path: Path, conductor_server: Conductor, lakefs_server: LakeFS
) -> None:
    (tmp_path / "etcd").mkdir()
    with (
        running(tmp_path / "etcd") as etcd,
        over_lakefs(tmp_path / "project", conductor_server.api, lakefs_server, etcd=etcd.endpoint) as (life, _target),
        serving(life.project, actions=True) as visitor,
    ):
        life.register()
        assert life.project.perago("run", life.named("line"), "--param", "text=four").code == 0
        _shows_the_run(life, visitor)
        _shows_branch_and_cluster(life, visitor)
        _pages_and_acts(life, visitor)


def _shows_the_run(life: Deployment, visitor: Visitor) -> None:
    (line,) = visitor.look("runs", pipeline=life.named("line"))["runs"]
    assert line == life.project.perago("runs", life.named("line"), "--json").data[0]
    assert visitor.look("runs", pipeline=life.named("line"), state="failed")["runs"] == []
    run = visitor.look("run", run=line["workflow_id"])
    assert [each["step"] for each in run["attempts"]] == ["write", "one", "two", "sum"]
    assert run["target"] == str(Target(life.settings.pipelines[life.named("line")].repository, "main"))
    written = visitor.look("logs", run=line["workflow_id"], seen=f"{run['attempts'][0]['task_id']}:0")
    assert "accepted" in " ".join(each["line"] for each in written["lines"])
    findings = {
        each["source"]: each["says"] for each in visitor.look("explain", task=run["attempts"][0]["task_id"])["findings"]
    }
    assert findings["so"] == "it is done: its result was accepted and stays"
    assert "<h1>" in visitor.ask("timeline", run=line["workflow_id"]).text


def _shows_branch_and_cluster(life: Deployment, visitor: Visitor) -> None:
    history = visitor.look("history")
    assert [each["standing"] for each in history["commits"]][:2] == ["accepted", "accepted"]
    assert history["unknown"] == []
    assert visitor.look("verify")["holds"] is True
    policy = visitor.look("policy")
    assert policy == {**life.project.perago("policy", "show", "--json").data, "signs_of_life": True}
    assert policy["decision"]["epoch"] == 1
    assert visitor.look("ledger") == {"open": []}
    assert visitor.look("locks")["holder"] is None
    assert len(visitor.look("claims")["claims"]) >= 2
    assert {each["kind"] for each in visitor.look("audit")["audit"]} == {"accepted"}


def _pages_and_acts(life: Deployment, visitor: Visitor) -> None:
    name = life.named("sleep")
    head = life.project.perago("history", "--json").data[0]["ref"]
    started = [life.words().start(name, life.settings.pipelines[name], head) for _ in range(5)]
    pages = [visitor.look("runs", pipeline=name, skip=skip, limit=2) for skip in (0, 2, 4)]
    shown = [each["workflow_id"] for page in pages for each in page["runs"]]
    assert shown == started[::-1]
    assert [page["more"] for page in pages] == [True, True, False]
    assert visitor.ask("api/cancel", "POST", run=started[2]).data["status"] == "TERMINATED"
    ended = visitor.look("runs", pipeline=name, state="terminated")["runs"]
    assert [each["workflow_id"] for each in ended] == [started[2]]
    assert len(visitor.look("runs", pipeline=name, state="running")["runs"]) == 4
    assert visitor.ask("api/retry", "POST", run=started[2]).data["status"] == "RUNNING"
    assert visitor.look("runs", pipeline='no" OR status = "RUNNING')["runs"] == []
