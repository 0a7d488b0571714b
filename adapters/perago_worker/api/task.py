"""``@task``: what an author writes. A typed function on a local folder; everything else is somebody else's business.

    class Params(BaseModel):
        country: str

    class Result(BaseModel):
        rows: int

    @task(name="clean", workspace=Workspace(prefix="sales", post=[require_file("clean.csv")]), retries=2, timeout=600)
    def clean(workspace: Path, params: Params) -> Result:
        ...

The decorator returns the function itself: in a unit test, call it with a folder and a value. There is no way to
publish, commit or roll back from a body (P-23). A body may run more than once; effects it has outside its workspace
are its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from attrs import evolve, field, frozen

from perago_core.values import OnAbandoned, OnConflict, Operation, Scope
from perago_worker.api.errors import TaskDefinitionError
from perago_worker.api.guardrails import Guardrail
from perago_worker.api.schema import input_schema, output_schema
from perago_worker.api.signature import FOLDER, Signature, signature_of

F = TypeVar("F", bound=Callable[..., Any])

#: Where the decorator leaves the definition on the function.
_MARK = "__perago_task__"
#: Seconds: a year. A limit beyond it, or without end, is a mistake.
_LONGEST = 366 * 24 * 3600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def _guardrails(checks: Sequence[Guardrail]) -> tuple[Guardrail, ...]:
    for each in checks:
        if not callable(each):
            raise TaskDefinitionError(
                f"pre and post want callables that take a folder; found {each!r}. Pass a function"
            )
    return tuple(checks)


def _prefixes(given: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        raise TaskDefinitionError(f"reads and writes want a list of folders, like ['sales/raw']; found {given!r}")
    return None if given is None else tuple(_prefix(each) for each in given)


def _prefix(given: str) -> str:
    """Read a prefix as a folder: ``sales`` and ``/sales/`` are the same, and neither is ``sales-2024``."""
    inner = given.strip("/")
    if (inner and any(part in {"", ".", ".."} for part in inner.split("/"))) or "\0" in inner:
        raise TaskDefinitionError(
            f"a prefix names a folder of the branch, like 'sales/raw'; found {given!r}. Correct it"
        )
    return f"{inner}/" if inner else ""


def _folders(given: Sequence[str]) -> tuple[str, ...]:
    """Read names of further targets. Each is a folder of the workspace, so it is a name and no path."""
    names = tuple(given)
    if isinstance(given, str) or len(set(names)) != len(names) or not all(map(_NAME.fullmatch, names)):
        raise TaskDefinitionError(
            f"targets wants names from [targets] of perago.toml, each once, like ['reports']; found {given!r}. Mend it"
        )
    return names


@frozen
class Workspace:
    """The part of the branch a task works on, a folder or data sets. Nothing outside its prefix is seen or changed.

    ``read_only``: the task fails if the folder is not afterwards what it was. ``pre`` is checked before the body and a
    violation is terminal (S-36); ``post`` is checked after it, and a violation fails the attempt.

    ``reads`` and ``writes``: folders or data sets, from the root of the branch. Who declares them shares the branch
    with others that do: it sees these and nothing else, a change anywhere but in ``writes`` fails the attempt, and it
    is published also onto what others have published since, as long as none of these was changed. What is written may
    be read as well. The checkpoint of a stream is a folder to be written, too: ``_streams/NAME`` below the prefix.
    ``targets``: names from ``[targets]`` of perago.toml. The whole branch of each is a folder of that name in the
    workspace, as it is when the attempt begins, and what the body changes there is published to it: in one step with
    all the others, or not at all.
    """

    prefix: str = field(default="", converter=_prefix)
    read_only: bool = False
    pre: tuple[Guardrail, ...] = field(default=(), converter=_guardrails)
    post: tuple[Guardrail, ...] = field(default=(), converter=_guardrails)
    targets: tuple[str, ...] = field(default=(), converter=_folders)
    reads: tuple[str, ...] | None = field(default=None, converter=_prefixes)
    writes: tuple[str, ...] | None = field(default=None, converter=_prefixes)

    def __attrs_post_init__(self) -> None:
        for each in (*(self.reads or ()), *(self.writes or ())):
            if not each.startswith(self.prefix):
                raise TaskDefinitionError(
                    f"reads and writes want folders inside the workspace's prefix {self.prefix!r}; found {each!r}. "
                    "Name them from the root of the branch, or leave the prefix out"
                )
        if self.read_only and self.writes:
            raise TaskDefinitionError(
                f"a read-only workspace writes nothing; found writes={list(self.writes)}. Leave one of the two out"
            )

    @property
    def scope(self) -> Scope | None:
        """Return what is declared to be read and written; ``None``: nothing is."""
        if self.reads is None and self.writes is None:
            return None
        return Scope(self.reads or (), self.writes or ())

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the folders of the branch that a body sees."""
        return (self.prefix,) if self.scope is None else self.scope.prefixes


@frozen
class TaskDefinition:
    """A task as declared. ``timeout`` is the hard deadline of the body, in seconds.

    ``apart``: what its pipelines declare all together, if they stack, see ``Scope``.
    """

    name: str
    function: Callable[..., Any]
    signature: Signature
    workspace: Workspace | None
    description: str
    owner_email: str
    retries: int
    retry_delay: float
    timeout: float
    response_timeout: float
    memory_limit: int | None
    operation: Operation
    over_maintenance: bool = False
    on_abandoned: OnAbandoned = OnAbandoned.ADOPT
    on_conflict: OnConflict = OnConflict.RERUN
    apart: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope | None:
        """Return what it declares to read and to write of a branch that others write to as well."""
        declared = None if self.workspace is None else self.workspace.scope
        return evolve(declared, apart=self.apart) if declared is not None and self.apart else declared

    @property
    def module(self) -> str:
        """Return the module to import it from."""
        return self.function.__module__

    @property
    def read_only(self) -> bool:
        """Return whether it may change the branch. A task without workspace cannot."""
        return self.workspace is None or self.workspace.read_only

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input it wants."""
        return input_schema(self.signature, has_workspace=self.workspace is not None)

    @property
    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the output it shows."""
        return output_schema(self.signature, has_workspace=self.workspace is not None)


def task(
    *,
    name: str,
    workspace: Workspace | None = None,
    description: str = "",
    owner_email: str = "",
    retries: int = 3,
    retry_delay: float = 60.0,
    timeout: float = 3600.0,
    response_timeout: float = 600.0,
    memory_limit: int | None = None,
    operation: Operation | Literal["logical", "maintenance"] = Operation.LOGICAL,
    over_maintenance: bool = False,
    on_abandoned: OnAbandoned | Literal["adopt", "replace"] = OnAbandoned.ADOPT,
    on_conflict: OnConflict | Literal["rerun", "fail"] = OnConflict.RERUN,
) -> Callable[[F], F]:
    """Declare a function as a task. It stays the function it was.

    ``timeout`` ends the body however it hangs; ``response_timeout`` is after how many seconds of silence the
    orchestrator gives the attempt up; ``memory_limit`` is in bytes, of address space.

    ``operation="maintenance"`` says that only the layout changes, as with compaction; such a task never takes a commit
    off the branch (S-35), and is published only if its workspace has compared the content and found it the same
    (H-15). A folder cannot: what is in its files is its content. Where other maintenance came first, it begins from
    there. With ``over_maintenance`` a logical task may be published on top of maintenance that came between, where the
    ledger proves that it was nothing else (H-16); without a ledger it is not.

    ``on_abandoned``: what an attempt does that finds what an earlier one of its task has published and did not come to
    report. ``"adopt"`` reports it, and the body does not run again; ``"replace"`` computes anew and replaces it, for a
    body whose later result is the better one. Under the policy ``soft`` it is always replaced.

    ``on_conflict``: what becomes of work whose ``reads`` or ``writes`` (see ``Workspace``) somebody else has changed
    meanwhile. ``"rerun"`` fails the attempt, and the next one begins at the newest accepted commit; ``"fail"`` fails
    for good, and names the paths and who wrote them.
    """
    if not _NAME.fullmatch(name):
        raise TaskDefinitionError(
            f"a task's name wants letters, digits, '_', '-' and '.', at most 128; found {name!r}. Rename it"
        )
    sensible = retries >= 0 and 0 <= retry_delay < _LONGEST and 0 < timeout < _LONGEST
    if not (sensible and 0 < response_timeout < _LONGEST and (memory_limit is None or memory_limit > 0)):
        raise TaskDefinitionError(
            f"task {name!r}: retries and retry_delay want 0 or more, the other limits more than 0 and an end; found "
            f"{retries=}, {retry_delay=}, {timeout=}, {response_timeout=}, {memory_limit=}. Correct the numbers"
        )

    if operation not in {*Operation, *(each.value for each in Operation)}:
        raise TaskDefinitionError(
            f"task {name!r}: operation wants 'logical' or 'maintenance'; found {operation!r}. Choose one"
        )
    kind = Operation(operation)
    if on_abandoned not in {*OnAbandoned, *(each.value for each in OnAbandoned)}:
        raise TaskDefinitionError(
            f"task {name!r}: on_abandoned wants 'adopt' or 'replace'; found {on_abandoned!r}. Choose one"
        )

    if on_conflict not in {*OnConflict, *(each.value for each in OnConflict)}:
        raise TaskDefinitionError(
            f"task {name!r}: on_conflict wants 'rerun' or 'fail'; found {on_conflict!r}. Choose one"
        )

    def declare(function: F) -> F:
        signature = signature_of(function, name, has_workspace=workspace is not None)
        if kind is Operation.MAINTENANCE and signature.kind in {None, FOLDER}:
            raise TaskDefinitionError(
                f"task {name!r}: operation='maintenance' wants a workspace that can tell content from layout, such as "
                "SparkDatasets with compact(); found a folder, or none. Leave operation out, or change its workspace"
            )
        if workspace is not None and workspace.targets:
            _check_targets(name, signature, workspace, plain=kind is Operation.LOGICAL and not over_maintenance)
            if OnAbandoned(on_abandoned) is OnAbandoned.REPLACE:
                raise TaskDefinitionError(
                    f"task {name!r}: targets wants on_abandoned='adopt', because what was published to several "
                    "branches is never replaced; found 'replace'. Leave it out"
                )
        definition = TaskDefinition(
            name=name,
            function=function,
            signature=signature,
            workspace=workspace,
            description=description or (function.__doc__ or "").strip().partition("\n")[0],
            owner_email=owner_email,
            retries=retries,
            retry_delay=retry_delay,
            timeout=timeout,
            response_timeout=response_timeout,
            memory_limit=memory_limit,
            operation=kind,
            over_maintenance=over_maintenance,
            on_abandoned=OnAbandoned(on_abandoned),
            on_conflict=OnConflict(on_conflict),
        )
        check_scope(definition)
        setattr(function, _MARK, definition)
        return function

    return declare


def check_scope(definition: TaskDefinition) -> None:
    """Raise ``TaskDefinitionError`` unless what is declared to be read and written can be kept to."""
    if definition.scope is not None and definition.operation is Operation.MAINTENANCE:
        raise TaskDefinitionError(
            f"task {definition.name!r}: reads and writes want a logical operation, whose work may be joined onto that "
            "of others; found 'maintenance'. Leave operation out: compact() is for logical tasks as well"
        )


def _check_targets(name: str, signature: Signature, workspace: Workspace, *, plain: bool) -> None:
    if signature.kind != FOLDER or workspace.read_only or workspace.scope is not None or not plain:
        raise TaskDefinitionError(
            f"task {name!r}: targets wants a folder that may be written to, without reads and writes, and a logical "
            f"operation that does not go over maintenance; found {signature.kind!r}, {workspace!r}. Leave one out"
        )


def definition_of(function: object) -> TaskDefinition | None:
    """Return the definition of a function that was declared as a task; ``None`` for anything else."""
    found = getattr(function, "__dict__", {}).get(_MARK)
    return found if isinstance(found, TaskDefinition) else None
