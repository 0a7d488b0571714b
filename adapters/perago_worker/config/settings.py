"""One typed settings object, frozen. ``load`` says where its values come from.

A misspelt name is an error with the names that exist, not a default that nobody asked for. Secrets are ``SecretStr``:
printing the settings shows that there is one, never which.
"""

from __future__ import annotations

import re
from datetime import date
from math import isinf
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote, unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from perago_core.budget import PublishBudget
from perago_core.contract import is_list, is_object
from perago_core.ledger.retention import Retention
from perago_core.names import RUNS
from perago_core.values import Target
from perago_http.secrets import refuse_clear_text


def _names_nobody(url: str) -> str:
    """Refuse an address with a password in it: addresses are logged, and are part of reasons."""
    if "@" in url or "?" in url:
        message = (
            "expected an address such as https://host, found more than that around "
            f"{url.partition('?')[0].rpartition('@')[2]!r}: give who you are apart from it, as key and secret"
        )
        raise ValueError(message)
    return url


#: Where a server is, and nothing else.
Address = Annotated[str, AfterValidator(_names_nobody)]


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


#: A list in a file, or words with commas between them in an environment variable.
Words = Annotated[tuple[str, ...], BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(_Section):
    """Where the data is. ``path`` is for ``local``; ``url`` is lakeFS's address, or a bucket such as s3://name/prefix.

    A bucket may be a folder: file:///path, or file:path below the project. ``durable``, of a folder alone: wait for the
    disk, so that what was published survives a loss of power.
    ``endpoint``: where a bucket's server is, if not where its cloud has it. Keys given here are S3's or lakeFS's; a
    bucket without them takes the variables its cloud knows, such as AWS_ACCESS_KEY_ID, or what the machine may.
    ``timeout``: seconds for a whole answer; on lakeFS a publication has ``budget.publish_timeout``. Of lakeFS alone:
    ``connections``, kept open, so also how many transfers run at once; ``repositories``, where the probe tries what
    the server can do: if not given, those the pipelines publish to, else all. ``insecure``: keys may cross the network
    without TLS.
    """

    kind: Literal["local", "lakefs", "bucket"] = "local"
    path: Path = Path(".perago/store")
    url: Address = ""
    endpoint: Address = ""
    access_key: str = ""
    secret_key: SecretStr = SecretStr("")
    ca: Path | None = None
    timeout: float = Field(default=30.0, gt=0)
    connections: int = Field(default=16, ge=1, le=256)
    repositories: Words = ()
    durable: bool = True
    insecure: bool = False

    def within(self, project: Path) -> StoreSettings:
        """Return the same with a folder that is named from everywhere, if it was named from the project."""
        if not self.url.startswith("file:") or self.url.startswith("file://"):
            return self
        folder = project.absolute() / unquote(self.url.removeprefix("file:"))
        return self.model_copy(update={"url": f"file://{quote(str(folder))}"})

    @property
    def folder(self) -> Path | None:
        """Return the folder that a bucket is, if it is one."""
        is_folder = self.kind == "bucket" and self.url.startswith("file:///")
        return Path(unquote(self.url.removeprefix("file://"))) if is_folder else None


class OrchestratorSettings(_Section):
    """Who hands out attempts. ``on_drift``: what a start does where others have registered something else than ours.

    ``domain``: take only tasks of workflows that were started for it. ``timeout``: seconds for a whole answer; to a
    result at most a third of ``budget.completion_reserve``, so that it can be sent again. ``poll_wait``: how long a
    poll waits for work, which Conductor does for at most 5. ``insecure``: key and secret may be sent without TLS.
    """

    kind: Literal["local", "conductor"] = "local"
    path: Path = Path(".perago/orchestrator.db")
    url: Address = ""
    key: str = ""
    secret: SecretStr = SecretStr("")
    ca: Path | None = None
    domain: str = ""
    timeout: float = Field(default=10.0, gt=0)
    poll_wait: float = Field(default=1.0, ge=0, le=5)
    on_drift: Literal["fail", "warn", "register"] = "fail"
    insecure: bool = False


class CoordinationSettings(_Section):
    """Where workers agree: policy, leases, intents and audit. ``bucket`` is the store's; it has no leases.

    ``settled_days``, ``audit_days``: how long what is over stays; ``inf`` keeps it for ever. Workers collect the rest.
    ``insecure``: the password may be sent without TLS.
    """

    kind: Literal["local", "etcd", "bucket", "none"] = "local"
    path: Path = Path(".perago/coordination.db")
    endpoints: Words = ()
    user: str = ""
    password: SecretStr = SecretStr("")
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    prefix: str = Field(default="perago/", min_length=1)
    settled_days: float = Field(default=30.0, ge=1)
    audit_days: float = Field(default=365.0, ge=1)
    insecure: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> CoordinationSettings:
        self.retention()
        return self

    def retention(self) -> Retention:
        """Return the core's value, which refuses to keep evidence for less than what it is evidence of."""
        return Retention(_milliseconds(self.settled_days), _milliseconds(self.audit_days))


def _milliseconds(days: float) -> int | None:
    return None if isinf(days) else round(days * 24 * 3600 * 1000)


class FenceSettings(_Section):
    """How publications are fenced. ``auto`` probes the store and agrees with the other workers."""

    policy: Literal["auto", "enable", "disable", "soft"] = "auto"
    on_indeterminate: Literal["fallback", "fail"] = "fail"


class BudgetSettings(_Section):
    """Seconds each part of a publication may take; see ``perago_core.PublishBudget``."""

    publish_timeout: float = 5.0
    publish_p99: float = 1.0
    margin: float = 1.0
    completion_reserve: float = 10.0
    heartbeat_interval: float = 5.0
    shutdown_grace: float = 10.0
    lease_ttl: float = 10.0
    lease_margin: float = 2.0
    takeover_wait: float = 30.0

    @model_validator(mode="after")
    def _consistent(self) -> BudgetSettings:
        self.budget()
        return self

    def budget(self) -> PublishBudget:
        """Return the core's value, which refuses numbers that contradict each other."""
        return PublishBudget(**self.model_dump())


class WorkerSettings(_Section):
    """How a worker works. ``drain_limit``: seconds a stopping worker waits for its bodies.

    ``nudge``: show signs of life to the other workers, and have the orchestrator look when one of them stops.
    ``isolation``: whether bodies run in namespaces where the worker's files are not there: if the system can, always
    (or the worker does not start), or never. ``hidden``: what else is not there for them.
    """

    capacity: int = Field(default=4, ge=1, le=256)
    poll_interval: float = Field(default=0.2, gt=0)
    drain_limit: float = Field(default=60.0, ge=0)
    root: Path = Path(".perago/work")
    cache: Path = Path(".perago/cache")
    cache_limit_mb: int = Field(default=10_000, ge=1)
    parallel_transfers: int = Field(default=8, ge=1, le=128)
    trace: Path = Path(".perago/trace")
    nudge: bool = True
    isolation: Literal["auto", "required", "never"] = "auto"
    hidden: Words = (".env", "perago.toml")


def _flat(value: object) -> object:
    """Read Spark's settings as TOML writes them: ``spark.ui.enabled = false`` is a table in a table with a flag."""
    if not isinstance(value, dict):
        return value
    flat: dict[str, object] = {}
    for key, inner in cast("dict[str, object]", value).items():
        found = _flat(inner)
        if isinstance(found, dict):
            flat |= {f"{key}.{below}": each for below, each in cast("dict[str, object]", found).items()}
        else:
            flat[key] = str(found).lower() if isinstance(found, bool) else str(found)
    return flat


class SparkSection(_Section):
    """How tasks on Spark data sets run; see ``perago_spark.SparkSettings``. Not used where there are none.

    ``remote`` is a Spark Connect server and takes the place of ``master``; it may hold a token. ``keep``: processes
    with a running Spark that wait for the next task; as many as the worker runs at once if it is not given.
    ``keep_failed_days``: how long what did not pass its gates is kept for ``perago show-failed``; 0: not at all.
    """

    master: str = "local[2,4]"
    remote: SecretStr = SecretStr("")
    conf: Annotated[dict[str, str], BeforeValidator(_flat)] = Field(default_factory=dict, repr=False)
    keep: int | None = Field(default=None, ge=0, le=256)
    keep_failed_days: float = Field(default=3.0, ge=0, le=3650)


class StepSettings(_Section):
    """One step of a pipeline: which task, under which name, with which parameters; or several steps side by side.

    ``for_each``: one such step for each of these, one after the other, or side by side under ``parallel``; its
    parameters quote it as ``${item}``, and it is part of the step's name.
    """

    task: str = ""
    name: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    for_each: tuple[int | str, ...] = ()
    parallel: tuple[StepSettings, ...] = ()

    @model_validator(mode="after")
    def _one_or_many(self) -> StepSettings:
        if bool(self.task) is bool(self.parallel):
            raise ValueError("a step names a task, or holds steps under `parallel`: one of the two")
        if self.parallel and (self.name or self.params or self.for_each):
            raise ValueError(
                "steps side by side have no name, params and for_each of their own; give them to each of them"
            )
        if any(each.parallel for each in self.parallel):
            raise ValueError("steps side by side hold no further steps side by side")
        return self

    @property
    def label(self) -> str:
        """Return the name it goes by: its own, or its task's."""
        return self.name or self.task

    @property
    def each(self) -> tuple[StepSettings, ...]:
        """Return the steps it stands for: itself, or one for each of ``for_each``."""
        if not self.for_each:
            return (self,)
        return tuple(
            StepSettings(
                task=self.task,
                name=f"{self.label}-{re.sub('[^A-Za-z0-9_-]+', '-', str(item))}",
                params=_with_item(self.params, item),
            )
            for item in self.for_each
        )


def _with_item(params: Any, item: int | str) -> Any:  # noqa: ANN401  JSON
    """Put an item where it is quoted; a text that is nothing else becomes the item itself."""
    if is_object(params):
        return {key: _with_item(value, item) for key, value in params.items()}
    if is_list(params):
        return [_with_item(value, item) for value in params]
    if params == _ITEM:
        return item
    return params.replace(_ITEM, str(item)) if isinstance(params, str) else params


_ITEM = "${item}"


def _declared(value: object) -> object:
    """Read a parameter that is declared by its default alone: its type is the default's."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    if isinstance(value, date):
        return {"type": "date", "default": value.isoformat()}
    kinds: dict[type, str] = {bool: "bool", int: "int", float: "number", str: "text"}
    return {"type": kinds.get(type(value), type(value).__name__), "default": value}


class ParamSettings(_Section):
    """A parameter of a pipeline: its type and, unless it must be given, its default."""

    type: Literal["text", "int", "number", "bool", "date"]
    default: StrictStr | StrictBool | StrictInt | StrictFloat | None = None

    @field_validator("default", mode="before")
    @classmethod
    def _as_json(cls, value: object) -> object:
        return value.isoformat() if isinstance(value, date) else value


class PipelineSettings(_Section):
    """Steps in order: the output ref of each is the input of the next.

    ``params``: what its steps may quote as ``${params.NAME}``, each a default or ``{ type = "date" }``, of text, int,
    number, bool and date. If none is declared, every one that is quoted must be given, of whatever type.
    ``recovery``: when the pipeline fails for good, what it left open is settled by a workflow of its own, where the
    orchestrator has such a thing.
    ``roll_back_failed``: what a run that failed for good has published, and nobody accepted, is taken off the branch by
    itself: by that workflow, by the next worker that starts, and before the next run begins. If not, it stays until
    somebody decides with ``perago recover``, and until then no new run begins.
    ``isolation``: with ``run`` the steps publish to a branch of the run, and when all of them and all ``audits`` were
    accepted, one commit makes the run visible on ``branch``; with ``step`` each step is visible as soon as it is
    published. ``audits``: steps that look at the whole run before that, and change nothing; one that fails keeps the
    run from being seen. ``keep_failed_days``: how long the branch of a run that did not come to that stays.
    ``reads``, ``writes``, ``on_conflict``: for each of its tasks that declares none itself, see ``Workspace``: so that
    several pipelines can write to one branch. ``stacking``: its tasks, all of which declare that, are published also
    above what others have published and nobody has accepted yet, unless that changes anything that one of them
    declares: a dead writer then keeps only those waiting whose folders it has written to.
    ``every``: a worker starts the next run so many seconds after the last has ended, for as long as it runs: a stream,
    whose batches are runs. Its parameters all have defaults.
    """

    repository: str
    branch: str = "main"
    steps: tuple[StepSettings, ...] = Field(min_length=1)
    params: dict[str, Annotated[ParamSettings, BeforeValidator(_declared)]] = Field(default_factory=dict)
    recovery: bool = True
    roll_back_failed: bool = True
    isolation: Literal["step", "run"] = "step"
    audits: tuple[StepSettings, ...] = ()
    keep_failed_days: float = Field(default=7.0, ge=0)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    on_conflict: Literal["", "rerun", "fail"] = ""
    stacking: bool = False
    every: float | None = Field(default=None, gt=0)

    @property
    def sharing(self) -> tuple[object, ...]:
        """Return what it declares for its tasks of a branch that others write to as well."""
        return self.reads, self.writes, self.on_conflict

    @model_validator(mode="after")
    def _nothing_is_visible_yet(self) -> PipelineSettings:
        if self.audits and self.isolation == "step":
            raise ValueError(
                "audits look at a whole run before anybody else sees it, and with isolation = 'step' each step is seen "
                "at once: set isolation = 'run', or make the audits steps"
            )
        if self.branch.startswith(RUNS):
            raise ValueError(f"branches that begin with {RUNS} belong to runs; take another name for yours")
        return self

    @property
    def isolated(self) -> bool:
        """Return whether nothing of a run is visible on the branch until all of it is."""
        return self.isolation == "run"

    @property
    def stages(self) -> tuple[tuple[StepSettings, ...], ...]:
        """Return the steps and the audits in order, and those that run side by side together."""
        return tuple(
            stage
            for step in (*self.steps, *self.audits)
            for stage in (
                (tuple(one for beside in step.parallel for one in beside.each),)
                if step.parallel
                else tuple((one,) for one in step.each)
            )
        )

    @property
    def all_steps(self) -> tuple[StepSettings, ...]:
        """Return every step, one after the other."""
        return tuple(step for stage in self.stages for step in stage)


def _listening(value: object) -> object:
    """Read a port alone as one on this machine only."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return f"127.0.0.1:{text.lstrip(':')}" if isinstance(text, str) and text.lstrip(":").isdecimal() else text


def _told_to(where: str) -> str:
    if where and not where.startswith(("http://", "https://", "file:")):
        raise ValueError(f"expected http://HOST, https://HOST or file:PATH, found {where!r}")
    return where


class TelemetrySettings(_Section):
    """Whom a worker tells what happens, beside its log. Nobody by default; nothing it tells delays or fails an attempt.

    ``otlp``: where an OpenTelemetry collector takes OTLP over HTTP, e.g. http://127.0.0.1:4318. ``prometheus``: where a
    worker can be scraped, HOST:PORT; a port alone is on this machine only. ``openlineage``: who takes OpenLineage
    events, an address, or file:PATH for one line each; ``openlineage_key`` is sent to it, and over TLS only unless
    ``insecure``. ``namespace``: what the jobs of this project are called there. ``interval``: seconds between two
    exports. What else OTLP wants, such as headers, is read from the variables of OpenTelemetry.
    """

    otlp: Address = ""
    prometheus: Annotated[str, BeforeValidator(_listening), Field(pattern=r"^$|^[^/\s]+:\d{1,5}$")] = ""
    openlineage: Annotated[Address, AfterValidator(_told_to)] = ""
    openlineage_key: SecretStr = SecretStr("")
    namespace: str = Field(default="perago", min_length=1)
    interval: float = Field(default=10.0, gt=0)
    insecure: bool = False

    @model_validator(mode="after")
    def _keeps_the_key(self) -> TelemetrySettings:
        sent = self.openlineage_key.get_secret_value() and self.openlineage.startswith("http")
        if sent and not self.insecure:
            refuse_clear_text(self.openlineage, "key", "telemetry.insecure")
        return self


def _target(value: object) -> object:
    repository, slash, branch = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not (repository and slash and branch) or branch.startswith(RUNS):
        raise ValueError(f"expected repository/branch, where the branch is no run's, found {value!r}")
    return Target(repository, branch)


class Settings(_Section):
    """Everything a worker or a command needs to know.

    ``targets``: branches that tasks publish to beside the one of their pipeline, each by the name of the folder in
    which a task that declares it finds it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    tasks: Words = ()
    store: StoreSettings = StoreSettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    coordination: CoordinationSettings = CoordinationSettings()
    fence: FenceSettings = FenceSettings()
    budget: BudgetSettings = BudgetSettings()
    worker: WorkerSettings = WorkerSettings()
    spark: SparkSection = SparkSection()
    telemetry: TelemetrySettings = TelemetrySettings()
    pipelines: dict[str, PipelineSettings] = Field(default_factory=dict)
    targets: dict[str, Annotated[Target, BeforeValidator(_target)]] = Field(default_factory=dict)


def rolls_back(settings: Settings, target: Target) -> bool:
    """Whether what failed runs left unaccepted on a target is taken back; not if one of its pipelines says no."""
    return all(
        each.roll_back_failed for each in settings.pipelines.values() if Target(each.repository, each.branch) == target
    )


def targets_of(settings: Settings) -> tuple[Target, ...]:
    """Name the targets this project publishes to."""
    own = {Target(each.repository, each.branch) for each in settings.pipelines.values()}
    return tuple(sorted({*own, *settings.targets.values()}, key=str))
