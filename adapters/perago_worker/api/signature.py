"""What a task's function takes and gives, read from its annotations once, where it is declared.

Four shapes are tasks: ``(workspace: Path, params: Model) -> Model``, each of the two parameters may be missing, the
function may be ``async``. The workspace may be called ``ws``, and its type says of which kind it is: a folder, or a
type with a name in ``perago_workspace``, such as ``SparkDatasets``. A model is whatever Pydantic can read and write: a
Pydantic model, a dataclass, a TypedDict, a ``dict``; a result may also be ``None`` or a plain value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, get_type_hints

from attrs import frozen
from pydantic import PydanticUserError, TypeAdapter

from perago_worker.api.errors import TaskDefinitionError, said

_SHAPES = "(workspace: Path, params: Model) -> Model, or without one or both of the parameters"
_WORKSPACES = ("workspace", "ws")
#: The kind of workspace that is a folder.
FOLDER: Final = "folder"


@frozen
class Signature:
    """How to call a body: what it takes, and how its values become JSON.

    ``workspace`` is what the function calls it, ``kind`` of which kind it is; both are ``None`` for a task without one.
    """

    workspace: str | None
    kind: str | None
    params: TypeAdapter[Any] | None
    result: TypeAdapter[Any]
    is_async: bool

    @property
    def param_names(self) -> frozenset[str] | None:
        """Name the parameters that are read, by field and by alias; ``None``: whatever is given."""
        if self.params is None:
            return frozenset()
        found: set[str] = set()
        for by_alias in (True, False):
            schema = self.params.json_schema(by_alias=by_alias)
            schema = schema.get("$defs", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
            if "properties" not in schema or schema.get("additionalProperties"):
                return None
            found |= schema["properties"].keys()
        return frozenset(found)


def signature_of(function: Callable[..., Any], name: str, *, has_workspace: bool) -> Signature:
    """Read the annotations of a task's function, or say what is wrong with them."""
    if not inspect.isfunction(function):
        _complain(name, f"a function like {_SHAPES}", repr(function), "Put @task directly above 'def' or 'async def'")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _complain(
            name, "a function that returns its result", "one that yields", "Return one value; use progress() on the way"
        )
    parameters = inspect.signature(function).parameters
    _check_parameters(name, parameters, has_workspace=has_workspace)
    hints = _hints(name, function, parameters)
    given = next((each for each in _WORKSPACES if each in parameters), None)
    return Signature(
        workspace=given,
        kind=None if given is None else _kind(name, given, hints[given]),
        params=_params(name, hints["params"]) if "params" in parameters else None,
        result=_adapter(name, "return", hints["return"]),
        is_async=inspect.iscoroutinefunction(function),
    )


def _check_parameters(name: str, parameters: Mapping[str, inspect.Parameter], *, has_workspace: bool) -> None:
    for each in parameters.values():
        if each.name not in (*_WORKSPACES, "params") or each.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            _complain(
                name, _SHAPES, f"a parameter {str(each).partition(':')[0]!r}", "Put what it needs into the params model"
            )
        if each.default is not inspect.Parameter.empty:
            _complain(name, _SHAPES, f"a default for {each.name!r}", "Give defaults to the fields of the params model")
    found = [("workspace" if each in _WORKSPACES else each) for each in parameters]
    if found not in ([], ["workspace"], ["params"], ["workspace", "params"]):
        _complain(name, _SHAPES, f"({', '.join(parameters)})", "Put workspace first")
    if "workspace" in found and not has_workspace:
        _complain(
            name, "workspace=Workspace(...) in @task", "a workspace parameter alone", "Say which prefix it works on"
        )
    if has_workspace and "workspace" not in found:
        _complain(name, "a parameter 'workspace: Path'", f"({', '.join(parameters)})", "Add it, or drop workspace=...")


def _kind(name: str, given: str, hint: Any) -> str:  # noqa: ANN401  an annotation is any object
    kind = FOLDER if hint is Path else getattr(hint, "perago_workspace", None)
    if not isinstance(kind, str):
        _complain(name, "workspace: Path", f"{given}: {hint!r}", "Annotate it with pathlib.Path, or SparkDatasets")
    return kind


def _hints(name: str, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # noqa: BLE001  evaluating annotations runs whatever they say
        _complain(
            name, "annotations that can be read", said(error), "Import or define the types at the top of the module"
        )
    for each in (*parameters, "return"):
        if each not in hints:
            _complain(name, f"an annotation of {each!r}", "none", f"Write it: the shape is {_SHAPES}")
    return hints


def _params(name: str, kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  an annotation is any object
    adapter = _adapter(name, "params", kind)
    schema = adapter.json_schema()
    found = schema.get("type", "object")
    if found != "object":
        _complain(name, "params that are a JSON object", f"a JSON {found} ({kind!r})", "Make it a model with one field")
    return adapter


def _adapter(name: str, place: str, kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  an annotation is any object
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        adapter.json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0]
        _complain(
            name,
            f"a type of {place!r} that Pydantic can turn into JSON",
            f"{kind!r}: {reason.rstrip('.')}",
            "Use a model",
        )
    return adapter


def _complain(name: str, expected: str, found: str, fix: str) -> NoReturn:
    raise TaskDefinitionError(f"task {name!r}: expected {expected}; found {found}. {fix}.")
