"""A synchronous port with coroutines for methods, so that ``adrive`` runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

#: What makes no call and is therefore not awaited (see ``perago_core.ports.Store``).
_NO_CALLS = ("sink", "read")


class Asynchronous:
    """Each call gives way once before it is made, so that executions in one event loop interleave at every call."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._port, name)
        if name in _NO_CALLS:
            return method

        async def call(*args: object) -> object:
            await asyncio.sleep(0)
            return method(*args)

        return call
