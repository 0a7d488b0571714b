"""``perago doctor``: every dependency and permission a worker needs, each with the fix."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import frozen

from perago_core.answers import Done, Unknown
from perago_core.budget import PublishBudget
from perago_core.measured import ENOUGH, GRANT, PUBLISH, RENEWAL, CallTimes, fitted, safeguards
from perago_core.policy import Capability
from perago_core.ports import BranchCreator, Cautioned, Coordination, Overwriting, Store
from perago_core.values import Target
from perago_worker.api.errors import UserError
from perago_worker.api.task import TaskDefinition
from perago_worker.bodies import isolation
from perago_worker.config.settings import Settings, SparkSection, targets_of
from perago_worker.folders.owned import ForeignFolderError, take
from perago_worker.ops.measurements import measurements
from perago_worker.runtime.measuring import difference, shown
from perago_worker.spark import SPARK, spark_settings
from perago_worker.stack import Stack, StackError, open_stack

_LOWEST = (3, 11)
_ROOM = 1 << 30


@frozen
class Finding:
    """One thing that was looked at. ``fix`` is what to do if it is not fine."""

    what: str
    fine: bool
    found: str
    fix: str = ""


def examine(settings: Settings, tasks: Callable[[], Mapping[str, TaskDefinition]]) -> Iterator[Finding]:
    """Look at everything, one after the other; what cannot be looked at is a finding too."""
    yield _python()
    yield _git()
    for name, setting, folder in (
        ("work folder", "worker.root", settings.worker.root),
        ("cache", "worker.cache", settings.worker.cache),
    ):
        yield _folder(name, setting, folder)
    yield _isolation(settings)
    yield _try("tasks", lambda: ", ".join(tasks()), "correct the module, or `tasks` in perago.toml")
    yield from _budget(settings, tasks)
    try:
        stack = open_stack(settings)
    except StackError as error:
        yield Finding("systems", fine=False, found=str(error), fix="install what is missing, or change the kind")
        return
    except Exception as error:  # noqa: BLE001  a doctor reports whatever it finds
        yield Finding("systems", fine=False, found=f"{type(error).__name__}: {error}", fix="correct the configuration")
        return
    yield from _systems(stack, settings)


def examine_spark(
    settings: SparkSection, tasks: Callable[[], Mapping[str, TaskDefinition]], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Look at what tasks on Spark need beyond that, and let Spark start once. Nothing, if there are no such tasks."""
    try:
        wanted = any(each.signature.kind == SPARK for each in tasks().values())
    except Exception:  # noqa: BLE001  that they cannot be imported is said elsewhere
        return
    if not wanted:
        return
    yield from (package_found(*each) for each in SPARK_PACKAGES)
    if any(_version(name) is None for name, *_ in SPARK_PACKAGES):
        return
    from perago_spark.diagnosis.probe import probe  # noqa: PLC0415  only who has such tasks needs it
    from perago_spark.process.java import describe_java  # noqa: PLC0415  as above

    try:
        own = spark_settings(settings)
    except UserError as error:
        yield Finding("Spark's settings", fine=False, found=str(error), fix="change [spark.conf]")
        return
    if not own.remote:
        java = describe_java(environment)
        yield Finding("Java", java.fine, java.found, java.fix)
        if not java.fine:
            return
    for each in probe(own, environment):
        yield Finding(each.what, each.fine, each.found, each.fix)


#: What to install, from which version on, below which, and how.
SPARK_PACKAGES = (
    ("pyspark", (4, 0, 5), (5,), "pip install 'perago-core[spark]'"),
    ("pyarrow", (18,), (1000,), "pip install 'pyarrow>=18': data goes to and from Spark's workers as Arrow"),
    ("pandas", (2, 2), (3,), "pip install 'pandas>=2.2,<3': Spark 4.3 does not know pandas 3"),
)


def _version(package: str) -> tuple[int, ...] | None:
    try:
        found = version(package)
    except PackageNotFoundError:
        return None
    return tuple(int(each) for each in re.findall(r"\d+", found)[:3])


def package_found(name: str, lowest: tuple[int, ...], below: tuple[int, ...], fix: str) -> Finding:
    """Look whether a package is installed in a version that fits."""
    found = _version(name)
    if found is None:
        return Finding(name, fine=False, found="not installed", fix=fix)
    return Finding(name, lowest <= found < below, ".".join(map(str, found)), fix)


def _isolation(settings: Settings) -> Finding:
    """Return whether bodies see the worker's files."""
    wanted, what = settings.worker.isolation, "isolation of bodies"
    obstacle = None if wanted == "never" else isolation.trouble()
    if wanted == "never":
        return Finding(what, fine=True, found="none, as configured: bodies can read whatever the worker can")
    if obstacle is None:
        return Finding(what, fine=True, found="user and mount namespaces: the worker's files and memory are hidden")
    fix = "allow user namespaces (kernel.unprivileged_userns_clone, or the container's seccomp profile)"
    found = f"none: {obstacle}; bodies can read whatever the worker can"
    return Finding(what, fine=wanted == "auto", found=found, fix=fix)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", sys.version_info[:2] >= _LOWEST, found, "install Python 3.11 or newer")


def _git() -> Finding:
    found = shutil.which("git")
    fix = "install git: it reads large packed files of the embedded store, and lets you look at your data"
    return Finding("git", found is not None, "on the PATH" if found else "not on the PATH", fix)


def _folder(name: str, setting: str, folder: Path) -> Finding:
    try:
        take(folder, setting)
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except ForeignFolderError as error:
        return Finding(name, fine=False, found=str(error), fix=f"set {setting} to a folder of its own")
    except OSError as error:
        return Finding(name, fine=False, found=str(error), fix=f"make {folder} writable, or name another in [worker]")
    room = f"writable, {free / (1 << 30):.1f} GiB free"
    return Finding(name, free > _ROOM, room, f"make room: bodies work in copies of their input in {folder}")


def _try(what: str, look: Callable[[], object], fix: str) -> Finding:
    try:
        return Finding(what, fine=True, found=str(look()))
    except Exception as error:  # noqa: BLE001  a doctor reports whatever it finds
        return Finding(what, fine=False, found=str(error).partition("\n")[0], fix=fix)


def _systems(stack: Stack, settings: Settings) -> Iterator[Finding]:
    polled = stack.orchestrator.reload("doctor", "doctor")
    fine = isinstance(polled, Done)
    yield Finding(
        "orchestrator",
        fine,
        "answers" if isinstance(polled, Done) else polled.reason,
        "start it, or correct its address",
    )
    if stack.coordination is None:
        needed = settings.fence.policy in {"auto", "disable"}
        yield Finding(
            "coordination", not needed, "none", f"fence.policy {settings.fence.policy} needs one: set coordination.kind"
        )
    else:
        listed = stack.coordination.list("doctor/")
        answers = isinstance(listed, Done)
        yield Finding(
            "coordination",
            answers,
            f"answers{_caution(stack.coordination)}{_alone(settings)}" if isinstance(listed, Done) else listed.reason,
            "start it, or correct its address",
        )
    proved = stack.store.probe()
    if isinstance(proved, Done):
        found = f"proved {proved.value.value}: {_MEANING[proved.value]}{_caution(stack.store)}"
        yield Finding("store", fine=True, found=found)
    elif isinstance(stack.store, Overwriting):
        silent = isinstance(proved, Unknown)
        fix = "start it, or correct its address and keys" if silent else stack.store.despite_leases()
        yield Finding("store", fine=False, found=proved.reason, fix=fix)
    else:
        weaker = "a lease will guard publications" if settings.fence.policy in {"auto", "disable"} else ""
        yield Finding("store", settings.fence.policy != "enable", f"{proved.reason}; {weaker}", "use fence.policy auto")
    for target in targets_of(settings):
        yield _branch(stack.store, target)


def _budget(settings: Settings, tasks: Callable[[], Mapping[str, TaskDefinition]]) -> Iterator[Finding]:
    """Compare the budget with what the traces measured, and with what each task allows."""
    budget = settings.budget.budget()
    found = measurements(settings.worker.trace)
    yield _measured_budget(budget, found)
    if GRANT in found:
        yield _lease(budget, found)
    slowest = sorted(
        (each for name, each in found.items() if not name.startswith("workspace.")),
        key=lambda each: each.quantile(0.99),
        reverse=True,
    )
    if slowest:
        slow_calls = ", ".join(f"{each.call} {shown(each.quantile(0.99))}" for each in slowest[:3])
        yield Finding("calls", fine=True, found=f"slowest by p99: {slow_calls}")
    with suppress(Exception):  # that the tasks cannot be imported is said elsewhere
        for each in tasks().values():
            for warning in budget.warnings(each.response_timeout):
                fix = "raise the task's response_timeout, or correct [budget]"
                yield Finding(f"budget of {each.name}", fine=False, found=warning, fix=fix)


def _measured_budget(budget: PublishBudget, found: Mapping[str, CallTimes]) -> Finding:
    publications = found.get(PUBLISH, CallTimes(PUBLISH))
    if publications.calls < ENOUGH:
        return Finding(
            "budget", fine=True, found=f"{publications.calls} of {ENOUGH} publications measured to judge it by"
        )
    proposed = fitted(budget, found)
    p50, p99 = (shown(publications.quantile(share)) for share in (0.5, 0.99))
    observed = f"{publications.calls} publications took {p50} (p50) to {p99} (p99)"
    if proposed == budget:
        return Finding("budget", fine=True, found=f"{observed}; it fits")
    return Finding("budget", fine=False, found=observed, fix=f"set in [budget]: {difference(budget, proposed)}")


def _lease(budget: PublishBudget, found: Mapping[str, CallTimes]) -> Finding:
    """Compare the lease with what is done under it, which it outlives only while renewals are answered."""
    fitting = fitted(budget, found).lease_ttl
    fits = fitting == budget.lease_ttl
    renewal = found.get(RENEWAL, CallTimes(RENEWAL)).quantile(0.99)
    detail = (
        f"fence 3, revocation and barrier take {safeguards(found):.1f} s (p99) under a lease of {budget.lease_ttl:g} "
        f"s, of which {budget.lease_ttl - budget.lease_margin:g} s count; renewals beside them take {shown(renewal)}"
    )
    return Finding("lease", fine=fits, found=detail, fix="" if fits else f"set in [budget]: lease_ttl = {fitting:g}")


def _caution(part: Coordination | Store) -> str:
    """Say what this very server or place is known for, if it can be asked."""
    found = part.caution() if isinstance(part, Cautioned) else None
    return f"; {found.value}" if isinstance(found, Done) and found.value else ""


def _alone(settings: Settings) -> str:
    """Say that a file is not shared, where workers may be on several machines. Counterexample: each has its policy."""
    alone = settings.coordination.kind == "local" and settings.orchestrator.kind != "local"
    return "; only workers on this machine share it, for others set coordination.kind" if alone else ""


def _branch(store: Store, target: Target) -> Finding:
    head = store.head(target)
    if not isinstance(head, Done):
        return Finding(str(target), fine=False, found=head.reason, fix="see that the store can be read")
    if head.value is None:
        # So that a new project has nothing to mend.
        made_by_run = isinstance(store, BranchCreator)
        found = "not there yet; `perago run` makes it" if made_by_run else "missing"
        return Finding(str(target), made_by_run, found, f"create branch {target.branch}, or name another")
    found = "carries uncommitted objects" if head.value.dirty else "clean"
    return Finding(str(target), not head.value.dirty, found, "commit or discard them")


_MEANING = {
    Capability.ATOMIC: "head and claim move in one step",
    Capability.CONDITIONAL: "the expected head is checked in the update",
}
