"""A sink that writes down each call, also those made in other processes: one mark in a folder for each."""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from perago_core.answers import Answer
from perago_core.ports import Sink, Stored


@frozen
class CountingSink:
    """Does what another sink does."""

    inner: Sink
    marks: Path

    def counted(self) -> dict[str, int]:
        """Say how often each call was made."""
        return dict(Counter(each.name.partition("-")[0] for each in self.marks.iterdir()))

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        self._mark("put")
        return self.inner.put(path, data)

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        self._mark("link")
        return self.inner.link(stored, deleted)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        self._mark("list")
        return self.inner.list(prefix)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        self._mark("seal")
        return self.inner.seal(path, manifest)

    def _mark(self, what: str) -> None:
        (self.marks / f"{what}-{secrets.token_hex(8)}").touch()
