"""Your own store or runtime in place of ours, and the name it goes by: ``module:name``.

A replay line and a command say by these names what they mean. A line never imports anything by itself: text that was
pasted from somewhere must not run code. Whoever replays it names store and runtime again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TypeAlias, cast

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, AttemptState, Known
from perago_core.errors import PeragoError
from perago_core.machine.engine import Table
from perago_core.machine.rows import Step
from perago_core.values import Attempt
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting
from perago_simulation.world.store import Store

#: What steps an attempt: told what happened in a state, it says where that leads. ``perago_core.step`` is one.
Runtime: TypeAlias = Callable[[AttemptState, Event], Step[Attempt, Known]]


class EmbeddingError(PeragoError, ValueError):
    """There is no store or runtime of this name."""


class Embedded(Model):
    """A model whose executions are stepped by somebody's own runtime.

    The runtime must be a function of state and event and of nothing else. Its answers are remembered, so one that
    keeps notes of its own would be asked only once for what it answers differently each time.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        table: Table[Attempt, Known] = ATTEMPT,
        store: Store | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(setting, table, store)
        self.runtime = runtime
        if runtime is not None:
            self.step = lru_cache(maxsize=None)(runtime)


def store_name(model: Model) -> str:
    """Return the name of a model's store; empty if it is ours."""
    return "" if type(model.store) is Store else _name(type(model.store))


def runtime_name(model: Model) -> str:
    """Return the name of a model's runtime; empty if it is ours."""
    runtime = model.runtime if isinstance(model, Embedded) else None
    return "" if runtime is None else _name(runtime)


def import_store(name: str) -> Store:
    """Import a store: a subclass of ``Store`` that is made without arguments, or an instance of one."""
    found = _imported(name)
    if isinstance(found, type) and issubclass(found, Store):
        return found()
    if not isinstance(found, Store):
        raise EmbeddingError(
            f"{name} is no store: expected a subclass of perago_simulation.world.store.Store; it is {found!r}"
        )
    return found


def import_runtime(name: str) -> Runtime:
    """Import a runtime: a function of a state and an event."""
    found = _imported(name)
    if not callable(found):
        raise EmbeddingError(f"{name} is no runtime: expected a function step(state, event), found {found!r}")
    return cast("Runtime", found)


def _name(thing: object) -> str:
    return f"{thing.__module__}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _imported(name: str) -> object:
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise EmbeddingError(f"{name!r} names nothing; write module:name, such as my_store:MyStore")
    if "" not in sys.path:
        # As for `python -m`: what lies in the current folder is found, also where a script's folder comes first.
        sys.path.insert(0, "")
    try:
        found: object = import_module(module_name)
    except ImportError as problem:
        raise EmbeddingError(f"cannot import {module_name}: {problem}; run this where it can be imported") from problem
    for part in path.split("."):
        if not hasattr(found, part):
            public = ", ".join(each for each in dir(found) if not each.startswith("_"))
            raise EmbeddingError(f"{module_name} has no {path}; it has {public or 'nothing'}")
        found = getattr(found, part)
    return found
