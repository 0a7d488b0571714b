"""A project to break whose orchestrator is a real Conductor; its store and its ledger are the embedded ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_core.pipelines import PipelineView
from perago_core.values import CommitRef, Target
from perago_worker.config.load import load
from perago_worker.stack import open_stack, pipelines_of
from tests.support.conductor.operating import Operator
from tests.support.crash.project import CrashProject

_TEMPLATE = Path(__file__).with_name("breakable.py")

#: Heartbeats of the embedded project are one every third of a second: too many for a server that shares two cores with
#: its tests.
_CONFIGURATION = """
[orchestrator]
kind = "conductor"
url = "{url}"
domain = "{domain}"
on_drift = "warn"
poll_wait = 0.5
"""


@define
class ConductorProject(CrashProject):
    """Tasks and workflows are an operator's, past our own port."""

    operator: Operator = field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        path = self.folder / "perago.toml"
        text = path.read_text(encoding="utf-8").replace("heartbeat_interval = 0.3", "heartbeat_interval = 1.0")
        more = _CONFIGURATION.format(url=self.operator.url, domain=self.operator.domain)
        path.write_text(text + more, encoding="utf-8")
        self.stack = open_stack(load(self.folder, {}, {}))

    def __exit__(self, *trouble: object) -> None:
        super().__exit__(*trouble)
        orchestrator = self.stack.orchestrator
        assert isinstance(orchestrator, ConductorOrchestrator)
        orchestrator.close()

    def add_task(self, name: str, constants: Mapping[str, object] | None = None, source: Path = _TEMPLATE) -> None:
        self.write_task(name, constants or {}, source)

    def start(self, name: str, tasks: tuple[str, ...], target: Target, ref: CommitRef, **params: object) -> str:  # noqa: ARG002  workflows are named by their domain
        given = {each: {"plan": str(self.folder / "plans" / each), **params} for each in tasks}
        return self.operator.start(tasks, target, ref, retries=30, params=given)

    def view(self, workflow: str) -> PipelineView:
        view = pipelines_of(self.stack).view(workflow)
        assert view is not None
        return view
