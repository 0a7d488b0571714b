"""What happens inside a body's process: parameters, pre-checks, the function; then, in a fresh one, post-checks.

Post-checks run when the body and everything it started are gone. So what they look at is what will be uploaded: a
thread or a child that goes on writing after the function returned cannot slip past them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perago_core.errors import one_line
from perago_worker.api.errors import TaskTerminalError, said
from perago_worker.api.guardrails import Guardrail, check
from perago_worker.api.registry import Registry
from perago_worker.api.task import TaskDefinition
from perago_worker.bodies.account import account
from perago_worker.bodies.spec import Spec
from perago_worker.bodies.verdict import BodyFailure, Succeeded, Verdict, objection_to

_LOG = logging.getLogger("perago.body")
#: Mistakes in the parameters that are named; the first ones usually explain the rest.
_NAMED = 3


def body_stage(spec: Spec) -> Verdict:
    """Check the parameters and the workspace, call the function, write down its result."""
    try:
        definition = Registry.of_modules(spec.module)[spec.task]
    except (TypeError, KeyError) as error:
        return BodyFailure(one_line(said(error)))
    workspace = None if spec.workspace is None else Path(spec.workspace)
    return run_body(definition, workspace, spec.params, spec.output_limit)


def run_body(definition: TaskDefinition, workspace: Any, params: str, output_limit: int) -> Verdict:  # noqa: ANN401  of its kind
    """Check the parameters, then the workspace, call the function and hold its result against its type."""
    try:
        arguments = _arguments(definition, workspace, params)
    except ValidationError as error:
        return BodyFailure(one_line(_bad_params(definition.name, error)), terminal=True)
    except Exception as error:  # noqa: BLE001  a validator is the author's code
        _LOG.error("%s", traceback.format_exc())
        return BodyFailure(
            one_line(f"bad input: the params model of task {definition.name!r} raised {said(error)}"), terminal=True
        )
    if definition.workspace is not None and workspace is not None:
        objection = objection_of(definition.workspace.pre, workspace)
        if objection is not None:
            return BodyFailure(one_line(f"pre-check: {objection}"), terminal=True)
    return _call(definition, arguments, output_limit)


def post_stage(spec: Spec) -> Verdict | None:
    """Check what the body left; ``None`` if nothing is wrong, so that the body's own verdict stands."""
    definition = Registry.of_modules(spec.module)[spec.task]
    if definition.workspace is None or spec.workspace is None:
        return None
    objection = objection_of(definition.workspace.post, Path(spec.workspace))
    return None if objection is None else BodyFailure(one_line(f"post-check: {objection}"))


STAGES: Mapping[str, Callable[[Spec], Verdict | None]] = {"body": body_stage, "post": post_stage}


def _arguments(definition: TaskDefinition, workspace: object, params: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if definition.signature.workspace is not None:
        arguments[definition.signature.workspace] = workspace
    if definition.signature.params is not None:
        arguments["params"] = definition.signature.params.validate_json(params)
    return arguments


def _bad_params(task: str, error: ValidationError) -> str:
    """Name the fields and what is wrong with them, but not their values: a parameter may be a password."""
    mistakes = [
        f"{'.'.join(str(part) for part in each['loc']) or 'params'}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" (and {len(mistakes) - _NAMED} more)" if len(mistakes) > _NAMED else ""
    return (
        f"bad input: expected params as task {task!r} declares them; found {'; '.join(mistakes[:_NAMED])}{more}. "
        "Correct the workflow's input mapping and start it again."
    )


def objection_of(checks: tuple[Guardrail, ...], workspace: Any) -> str | None:  # noqa: ANN401  of its kind
    """Ask the checks in their order; say what the first one objects to, or ``None``."""
    return next((found for each in checks if (found := check(each, workspace)) is not None), None)


def _call(definition: TaskDefinition, arguments: Mapping[str, Any], output_limit: int) -> Verdict:
    try:
        returned = definition.function(**arguments)
        value = asyncio.run(returned) if definition.signature.is_async else returned
    except TaskTerminalError as error:
        return BodyFailure(one_line(said(error)), terminal=True)
    except SystemExit as error:
        return BodyFailure(
            one_line(f"the body called sys.exit({error.code!r}). Return a result, or raise an exception")
        )
    except BaseException as error:  # noqa: BLE001  whatever it is, it is how the body ended
        _LOG.error("%s", account(error, definition.function))
        return BodyFailure(one_line(said(error)))
    return _result(definition, value, output_limit)


def _result(definition: TaskDefinition, value: object, output_limit: int) -> Verdict:
    """Hold the result against its type and against what an orchestrator takes, before anything is published.

    A function that returns something else than it declares does so again: trying it again cannot help.
    """
    adapter = definition.signature.result
    try:
        valid = adapter.validate_python(value)
        output = adapter.dump_json(valid, warnings="error").decode("utf-8")
        # Written at once, a number that is none becomes null without a word.
        json.dumps(adapter.dump_python(valid, mode="json"), allow_nan=False)
    except Exception as error:  # noqa: BLE001  serializers are the author's code
        reason = " ".join(str(error).split()[:40])
        return BodyFailure(
            one_line(
                f"expected a result as task {definition.name!r} declares it; found {type(value).__name__}: {reason}. "
                "Return the declared type"
            ),
            terminal=True,
        )
    objection = objection_to(output, output_limit)
    return Succeeded(output) if objection is None else BodyFailure(one_line(objection))
