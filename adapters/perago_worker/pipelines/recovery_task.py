"""The task of a pipeline's recovery workflow: when a run has failed for good, it settles what the run left open.

It runs in the worker, not in a process of its own like the bodies of users: it needs the keys to store and ledger,
which bodies never see. Unless the pipeline says otherwise (``roll_back_failed``), what the run has published and nobody
accepted is taken off the branch again.
"""

from __future__ import annotations

from pydantic import BaseModel

from perago_core.answers import Done
from perago_core.errors import one_line
from perago_core.pipelines import recovery_task_name
from perago_core.values import Target
from perago_worker.api.errors import TaskTerminalError
from perago_worker.api.task import TaskDefinition, definition_of, task
from perago_worker.config.settings import Settings, rolls_back
from perago_worker.logger import log
from perago_worker.ops.recover import tidy_up
from perago_worker.ops.revert import revert_unaccepted
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.telemetry import Instruments, instruments
from perago_worker.stack import Stack, pipelines_of


class FailedRun(BaseModel):
    """The run that failed, as its orchestrator tells it."""

    workflow: str = ""
    reason: str = ""


class UnsettledError(Exception):
    """Nothing is known about the target now; trying again may help."""


class Settlement(BaseModel):
    """What was settled: each open intent with how it ended."""

    target: str
    settled: dict[str, str]


def own_tasks(settings: Settings, stack: Stack, counters: Instruments | None = None) -> dict[str, TaskDefinition]:
    """Return the tasks that workers of this project have beside those of its modules: one recovery for each pipeline.

    None where the orchestrator starts no recovery, and none without a ledger: there would be nothing to settle.
    """
    if stack.coordination is None or not pipelines_of(stack).shared:
        return {}
    made: dict[str, TaskDefinition] = {}
    for name, each in settings.pipelines.items():
        if each.recovery:
            target = Target(each.repository, each.branch)
            task_name = recovery_task_name(name)
            made[task_name] = recovery_of(task_name, target, stack, counters, roll_back=rolls_back(settings, target))
    return made


def recovery_of(
    name: str, target: Target, stack: Stack, counters: Instruments | None = None, *, roll_back: bool = True
) -> TaskDefinition:
    """Make the recovery task of one target."""

    @task(name=name, retries=3, retry_delay=10, response_timeout=60)
    def recover(params: FailedRun) -> Settlement:
        """Settle what a failed run left open, and take back what nobody accepted."""
        log.info("workflow %s failed: %s", params.workflow, one_line(params.reason))
        swept = tidy_up(stack, target, worker_id(), roll_back=roll_back, instruments=counters or instruments())
        if not isinstance(swept, Done):
            raise UnsettledError(f"the open intents of {target} cannot be settled: {swept.reason}")
        if swept.value.alarms:
            raise TaskTerminalError(f"an accepted result is lost on {target}: {'; '.join(swept.value.alarms)}")
        if swept.value.unresolved:
            advice = "; ".join(f"{each.operation_id}: {each.next_action}" for each in swept.value.outcomes)
            raise TaskTerminalError(f"{target} needs a person: {advice}. Look with `perago recover {target}`")
        ended = {each.operation_id: each.ending.value for each in swept.value.outcomes}
        for looked in revert_unaccepted(stack, target) if roll_back else ():
            if looked.found is not None and looked.by is not None:
                ended[looked.found.commit.ref] = f"reverted by {looked.by}"
        return Settlement(target=str(target), settled=ended)

    definition = definition_of(recover)
    assert definition is not None
    return definition
