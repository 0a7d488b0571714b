"""Puts the adapters together as the settings say. The only place that knows more than one of them.

Each is imported when it is asked for: whoever runs on the embedded stack needs neither lakeFS nor etcd installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from perago_clock import MachineClock
from perago_core.answers import Done
from perago_core.budget import PublishBudget
from perago_core.failpoints import Reached
from perago_core.pipelines import Pipelines
from perago_core.ports import (
    Clock,
    Closeable,
    Coordination,
    Leaseless,
    ManagedOrchestrator,
    ManagedStore,
    Orchestrator,
    Workspace,
)
from perago_core.revocation import pin
from perago_core.values import CommitRef, Target
from perago_worker.api.errors import UserError
from perago_worker.config.settings import CoordinationSettings, OrchestratorSettings, Settings, StoreSettings
from perago_worker.folders.owned import make_above

if TYPE_CHECKING:
    from perago_bucket import Connection as BucketConnection
    from perago_core.driver import Ports
    from perago_lakefs import Connection


class StackError(UserError):
    """A part cannot be had; the message says which, and what to install or change."""


@frozen
class Stack:
    """The systems a worker or a command talks to."""

    orchestrator: ManagedOrchestrator
    store: ManagedStore
    coordination: Coordination | None
    clock: Clock

    @property
    def leasing(self) -> Coordination | None:
        """Return the coordination store if it has leases: who is there is told by what vanishes with them."""
        part: object = self.coordination
        return None if isinstance(part, Leaseless) else self.coordination

    def ports(self, workspace: Workspace | None = None, reached: Reached | None = None) -> Ports:
        """Wrap them for the driver of the core; conversations other than an attempt's need no workspace."""
        from perago_core.driver import Ports  # noqa: PLC0415  compiles four machines, which a look at workflows does not need

        return Ports(
            orchestrator=self.orchestrator,
            store=self.store,
            workspace=workspace,
            coordination=self.coordination,
            clock=self.clock,
            reached=reached,
        )

    def close(self) -> None:
        """Close every connection and file."""
        parts: tuple[object, ...] = (self.orchestrator, self.store, self.coordination)
        for part in parts:
            if isinstance(part, Closeable):
                part.close()


def open_orchestrator(settings: Settings) -> ManagedOrchestrator:
    """Open only the orchestrator: looking at workflows needs no store."""
    orchestrator: ManagedOrchestrator = _open("orchestrator", _ORCHESTRATORS, settings.orchestrator)
    return orchestrator


def open_stack(settings: Settings, orchestrator: ManagedOrchestrator | None = None) -> Stack:
    """Open what the settings name; an orchestrator that is open already is taken as it is."""
    return Stack(
        orchestrator or open_orchestrator(settings),
        open_store(settings),
        open_coordination(settings),
        MachineClock(),
    )


def open_coordination(settings: Settings) -> Coordination | None:
    """Open only the coordination store: to see that nothing is open needs neither of the others."""
    makers: Mapping[str, Callable[[Any], Any]] = {**_COORDINATIONS, "bucket": partial(_beside, settings)}
    coordination: Coordination | None = _open("coordination", makers, settings.coordination)
    return coordination


def open_store(settings: Settings) -> ManagedStore:
    """Open only the store: reading data needs no orchestrator."""
    makers: Mapping[str, Callable[[Any], Any]] = {
        "local": _git,
        "lakefs": partial(_lakefs, settings),
        "bucket": _bucket,
    }
    store: ManagedStore = _open("store", makers, settings.store)
    return store


def pipelines_of(stack: Stack, budget: PublishBudget | None = None) -> Pipelines:
    """Return the pipelines of this stack's orchestrator; what is registered there is made to fit the publish budget."""
    return pipelines_on(stack.orchestrator, budget)


def pipelines_on(orchestrator: Orchestrator, budget: PublishBudget | None = None) -> Pipelines:
    """Import the implementation for this kind of orchestrator, and make it."""
    kind = type(orchestrator)
    make = _PIPELINES.get(kind.__module__.partition(".")[0])
    if make is None:
        raise StackError(f"pipelines cannot be started on {kind.__name__}; there are: {', '.join(_PIPELINES)}")
    return make(orchestrator, budget or PublishBudget())


def head_of(stack: Stack, target: Target) -> CommitRef:
    """Return the commit a pipeline starts from: the head of its target, once nothing of the past can move it."""
    from perago_core.driver import run  # noqa: PLC0415  as in Stack.ports

    found = run(pin(target), stack.ports())
    if isinstance(found, Done) and found.value is not None:
        return found.value.commit.ref
    if isinstance(found, Done):
        raise StackError(f"{target} cannot be read: there is no such branch. Create it in the store, then try again")
    raise StackError(
        f"expected to see the head of {target} after everybody who has ended: {found.reason}. Nothing was started: try "
        "again once it answers"
    )


def _open(part: str, makers: Mapping[str, Callable[[Any], Any]], section: Any) -> Any:  # noqa: ANN401  one of many
    make = makers.get(section.kind)
    if make is None:
        raise StackError(
            f"{part}.kind {section.kind!r} is not available in this release; use one of {', '.join(makers)}"
        )
    try:
        return make(section)
    except ImportError as missing:
        extra = _EXTRAS.get(section.kind, "worker")
        raise StackError(
            f"{part}.kind is {section.kind!r}, and {missing.name} is not installed: pip install 'perago-core[{extra}]'"
        ) from None
    except ValueError as wrong:
        raise StackError(f"{part}: {wrong}") from None


def _git(section: StoreSettings) -> ManagedStore:
    from perago_local.git.store import GitStore  # noqa: PLC0415  only who asks for it needs pygit2

    return GitStore(section.path)


def _lakefs(settings: Settings, section: StoreSettings) -> ManagedStore:
    from perago_lakefs import LakeFSStore  # noqa: PLC0415  as above

    published_to = {pipeline.repository for pipeline in settings.pipelines.values()}
    return LakeFSStore(lakefs_connection(settings), section.repositories or tuple(sorted(published_to)))


def _bucket(section: StoreSettings) -> ManagedStore:
    from perago_bucket import BucketStore  # noqa: PLC0415  as above

    return BucketStore(bucket_connection(section))


def _beside(settings: Settings, _section: CoordinationSettings) -> Coordination:
    from perago_bucket import BucketCoordination  # noqa: PLC0415  as above

    if settings.store.kind != "bucket":
        raise StackError(
            f"coordination.kind is 'bucket', and store.kind is {settings.store.kind!r}: coordination is beside the "
            "data, so set store.kind to bucket too, or coordination.kind to local or etcd"
        )
    return BucketCoordination(bucket_connection(settings.store))


def bucket_connection(section: StoreSettings) -> BucketConnection:
    """Say how the bucket is reached."""
    from perago_bucket import Connection  # noqa: PLC0415  as above

    given = {
        "endpoint": section.endpoint,
        "access_key_id": section.access_key,
        "secret_access_key": section.secret_key.get_secret_value(),
        "durable": "" if section.durable else "false",
    }
    options = tuple((name, value) for name, value in given.items() if value)
    try:
        return Connection(section.url, options, section.timeout).carrying(os.environ)
    except ValueError as wrong:
        raise StackError(f"store.kind is 'bucket', and store.url does not name one: {wrong}") from None


def lakefs_connection(settings: Settings) -> Connection:
    """Say how lakeFS is reached."""
    from perago_lakefs import Connection  # noqa: PLC0415  as above

    section = settings.store
    for name, value in (("url", section.url), ("access_key", section.access_key)):
        if not value:
            raise StackError(
                f"store.kind is 'lakefs', and store.{name} is empty: set it, or the variable that lakectl reads, "
                f"{_LAKECTL[name]}"
            )
    return Connection(
        section.url,
        section.access_key,
        section.secret_key.get_secret_value(),
        timeout=section.timeout,
        publish_timeout=settings.budget.publish_timeout,
        ca=section.ca,
        pool=section.connections,
        insecure=section.insecure,
    )


_LAKECTL = {"url": "LAKECTL_SERVER_ENDPOINT_URL", "access_key": "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"}


def _sqlite_orchestrator(section: OrchestratorSettings) -> ManagedOrchestrator:
    from perago_local.orchestrator import SqliteOrchestrator  # noqa: PLC0415  as above

    make_above(section.path)
    return SqliteOrchestrator(section.path)


def _conductor(section: OrchestratorSettings) -> ManagedOrchestrator:
    from perago_conductor.orchestrator import ConductorOrchestrator  # noqa: PLC0415  as above

    if not section.url:
        raise StackError(
            "orchestrator.kind is 'conductor', and orchestrator.url is empty: set it, or CONDUCTOR_SERVER_URL, "
            "to the address of its API, such as http://127.0.0.1:8080/api"
        )
    return ConductorOrchestrator(
        section.url,
        key=section.key,
        secret=section.secret.get_secret_value(),
        ca=section.ca,
        domain=section.domain,
        timeout=section.timeout,
        poll_wait=section.poll_wait,
        insecure=section.insecure,
    )


def _embedded_pipelines(orchestrator: Any, _budget: PublishBudget) -> Pipelines:  # noqa: ANN401  looked up by package
    from perago_local.orchestrator.pipelines import EmbeddedPipelines  # noqa: PLC0415  as above

    return EmbeddedPipelines(orchestrator)


def _conductor_pipelines(orchestrator: Any, budget: PublishBudget) -> Pipelines:  # noqa: ANN401  as above
    from perago_conductor.pipelines import ConductorPipelines  # noqa: PLC0415  as above

    return ConductorPipelines(orchestrator, budget)


def _sqlite_coordination(section: CoordinationSettings) -> Coordination:
    from perago_local.coordination import SqliteCoordination  # noqa: PLC0415  as above

    make_above(section.path)
    return SqliteCoordination(section.path)


def _etcd(section: CoordinationSettings) -> Coordination:
    from perago_etcd import EtcdCoordination  # noqa: PLC0415  as above

    return EtcdCoordination(
        section.endpoints,
        user=section.user,
        password=section.password.get_secret_value(),
        ca=section.ca,
        cert=section.certificate,
        key=section.key,
        prefix=section.prefix,
        insecure=section.insecure,
    )


_ORCHESTRATORS: Mapping[str, Callable[[Any], Any]] = {"local": _sqlite_orchestrator, "conductor": _conductor}
#: By the package of the orchestrator.
_PIPELINES: Mapping[str, Callable[[Any, PublishBudget], Pipelines]] = {
    "perago_local": _embedded_pipelines,
    "perago_conductor": _conductor_pipelines,
}
_COORDINATIONS: Mapping[str, Callable[[Any], Any]] = {
    "local": _sqlite_coordination,
    "etcd": _etcd,
    "none": lambda _section: None,
}
_EXTRAS = {"bucket": "bucket", "etcd": "etcd", "lakefs": "lakefs", "conductor": "conductor"}
