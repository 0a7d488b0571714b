"""A worker from its settings: import the tasks, open the systems, agree on a backing, settle what was left open."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from attrs import field, frozen

from perago_core.values import SHARING, Target
from perago_worker.api.errors import UserError
from perago_worker.api.registry import Registry
from perago_worker.bodies import isolation
from perago_worker.bodies.notes import Progressed
from perago_worker.bodies.pool import Bodies, environment_of_bodies
from perago_worker.config.settings import Settings, targets_of
from perago_worker.folders.cache import Cache
from perago_worker.folders.workspace import Limits, LocalWorkspace, NoteListener, to_log
from perago_worker.logger import log
from perago_worker.ops.gc import sweep_dead_names
from perago_worker.ops.retention import ClaimCollector, LedgerCollector
from perago_worker.ops.revert import Reverter, shared_targets
from perago_worker.ops.run_branches import sweep_run_branches
from perago_worker.pipelines.recovery_task import own_tasks
from perago_worker.pipelines.run_tasks import run_tasks
from perago_worker.runtime.attempt import Node, Runtime
from perago_worker.runtime.bootstrap import StartError, settle_open_intents, settle_policy, worker_id
from perago_worker.runtime.exporters import exporting
from perago_worker.runtime.failpoints import FailpointSignal, Witness, failpoint_from_environment, quiet, watched
from perago_worker.runtime.further_targets import FurtherTargets
from perago_worker.runtime.lineage_reporter import lineage_reporter
from perago_worker.runtime.liveness import lookout_for
from perago_worker.runtime.measuring import BudgetWatch
from perago_worker.runtime.membership import Membership
from perago_worker.runtime.provenance import code_digests
from perago_worker.runtime.readiness import Readiness
from perago_worker.runtime.task_log import note_listener, task_log
from perago_worker.runtime.telemetry import Instruments, show_worker
from perago_worker.runtime.worker import Worker
from perago_worker.spark import with_spark
from perago_worker.stack import Stack

_MEGABYTE = 1 << 20


@frozen
class Assembled:
    """A worker ready to run, with what it is made of. ``progress``: how far each body said it is, by task id."""

    runtime: Runtime
    worker: Worker
    progress: Mapping[str, Progressed] = field(factory=dict[str, Progressed])


@contextmanager
def assemble(settings: Settings, stack: Stack, tasks: Registry, hear: NoteListener = to_log) -> Generator[Assembled]:
    """Make a worker; on leaving, its template process is ended and nothing of it runs any more.

    ``hear``: told of everything a body says while it runs.
    """
    name = worker_id()
    failpoint = failpoint_from_environment()
    stack = quiet(stack, failpoint)
    membership = Membership(stack, name, settings.fence.policy)
    with membership.open():
        node = settle_policy(stack, settings, name)
        membership.settle(node.epoch)
        with (
            exporting(settings.telemetry) as counters,
            _assembled(
                settings, stack, tasks, node, membership, failpoint=failpoint, counters=counters, hear=hear
            ) as assembled,
        ):
            yield assembled


def hidden_from_bodies(settings: Settings) -> tuple[str, ...] | None:
    """Name what bodies must not see: stores, databases, cache, traces, other sandboxes, and files with keys.

    ``None`` where the system has no namespaces for them, or nobody wants them.
    """
    if settings.worker.isolation == "never":
        return None
    obstacle = isolation.trouble()
    if obstacle is None:
        own, parts = settings.worker, (settings.store, settings.orchestrator, settings.coordination)
        data = settings.store.folder
        ours = (own.root, own.cache, own.trace, *(each.path for each in parts), *(() if data is None else (data,)))
        return isolation.hideable((*ours, *map(Path, own.hidden)))
    if settings.worker.isolation == "required":
        raise UserError(
            f"worker.isolation is 'required', and this system cannot isolate bodies: {obstacle}. Allow user "
            "namespaces, or set it to 'auto' and let only people write tasks who may read what this worker can"
        )
    log.warning("bodies are not isolated: %s; they can read whatever this worker can", obstacle)
    return None


def _check_stacking(settings: Settings, node: Node) -> None:
    """Refuse to stack where nobody shares a branch: the setting would be silently without effect."""
    stacking = [name for name, each in settings.pipelines.items() if each.stacking]
    if stacking and node.backing not in SHARING:
        raise StartError(
            f"stacking = true of {', '.join(stacking)} wants a store that checks the head when it moves a branch, so "
            f"that several can share one; found the policy {node.backing.value!r}. Leave stacking out, or look with "
            "`perago doctor` why the store is not proved able to"
        )


@contextmanager
def _assembled(
    settings: Settings,
    stack: Stack,
    tasks: Registry,
    node: Node,
    membership: Membership,
    *,
    failpoint: FailpointSignal | Witness | None,
    counters: Instruments,
    hear: NoteListener,
) -> Generator[Assembled]:
    name = node.worker_id
    first = (Target(each.repository, each.branch) for each in settings.pipelines.values() if not each.isolated)
    further = FurtherTargets(settings.targets)
    further.check(tasks.values(), tuple(first), stack.store, node.backing)
    _check_stacking(settings, node)
    log.info("worker %s: backing %s, epoch %d, ledger %s", name, node.backing.value, node.epoch, node.ledger)
    show_worker(counters, node.backing, node.epoch, targets_of(settings))
    settle_open_intents(stack, settings, name, counters)
    sweep_dead_names(stack, targets_of(settings))
    sweep_run_branches(stack, settings)
    own = settings.worker
    environment = environment_of_bodies(os.environ)
    bodies = Bodies(tasks.modules(), environment=environment, hidden=hidden_from_bodies(settings))
    orchestrator = watched(stack.orchestrator, failpoint)
    tell = task_log(orchestrator)
    progress: dict[str, Progressed] = {}
    listener = note_listener(tell, progress, hear)
    files = LocalWorkspace(
        stack.store,
        tasks,
        bodies,
        own.root,
        Cache(own.cache, own.cache_limit_mb * _MEGABYTE),
        limits=Limits(transfers=own.parallel_transfers),
        listener=listener,
    )
    swept = files.sweep()
    if swept:
        log.info("removed the folders of %d dead execution(s)", len(swept))
    inside = {**own_tasks(settings, stack, counters), **run_tasks(settings, stack, tasks)}
    lookout = lookout_for(stack, own, name, {**tasks, **inside}, counters)
    with ExitStack() as ending:
        ending.enter_context(closing(bodies))
        spark = with_spark(
            files,
            stack,
            tasks,
            settings.spark,
            environment=environment,
            root=own.root / "spark",
            keep=own.capacity,
            listener=listener,
        )
        workspace = ending.enter_context(spark)
        runtime = Runtime(
            orchestrator=orchestrator,
            store=stack.store,
            workspace=workspace,
            tasks=tasks,
            coordination=stack.coordination,
            clock=stack.clock,
            node=node,
            instruments=counters,
            tell=tell,
            traces=own.trace,
            own=inside,
            failpoint=failpoint,
            lookout=lookout,
            budget_watch=BudgetWatch(node.budget, counters),
            codes=code_digests(tuple(tasks.values())),
            lineage=ending.enter_context(lineage_reporter(settings, counters, stack)),
            collectors=(
                *([LedgerCollector(stack, settings.coordination.retention())] if node.ledger else ()),
                ClaimCollector(stack, targets_of(settings)),
            ),
            further=further,
        )
        worker = Worker(
            orchestrator,
            runtime.run,
            runtime.stop,
            clock=stack.clock,
            worker_id=name,
            task_names=(*tasks, *inside),
            capacity=own.capacity,
            poll_interval=own.poll_interval,
            drain_limit=own.drain_limit,
            membership=membership,
            trouble=Readiness(stack, targets_of(settings)).trouble,
            sweep=Reverter(
                stack, shared_targets(settings, tasks) if node.backing in SHARING else ()
            ).collect_now_and_then,
        )
        bodies.warm()
        if lookout is not None:
            ending.enter_context(lookout.open())
        yield Assembled(runtime, worker, progress)
