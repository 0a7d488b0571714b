"""A workspace in memory over any store: it reads through a source, runs the body at once, writes through a sink.

A body is a function on a mapping from paths to bytes. One that wants to write while it runs is a generator function: it
yields to ask for staging, and is sent the sink.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Generator, Mapping, MutableMapping
from io import BytesIO
from typing import ClassVar, TypeAlias

from attrs import Factory, define

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed, StagingWanted
from perago_core.ports import Sink, Source, Store, Stored
from perago_core.values import Attempt, Content, Operation
from perago_simulation.ports.serving import Dispatcher, served

Files: TypeAlias = MutableMapping[str, bytes]
#: What is left of a body that is running and waits for its sink.
Running: TypeAlias = Generator[None, Sink, object]
Body: TypeAlias = Callable[[Files], object]


class TerminalBodyError(Exception):
    """What a body raises to say that trying again cannot help (S-36)."""


@define
class _Place:
    """The files of one execution: as they came, and as the body has left them."""

    body: Body
    before: dict[str, bytes] = Factory(dict[str, bytes])
    files: dict[str, bytes] = Factory(dict[str, bytes])
    running: Running | None = None

    @property
    def changed(self) -> dict[str, bytes]:
        return {path: data for path, data in self.files.items() if self.before.get(path) != data}

    @property
    def deleted(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.before) - set(self.files)))


class SimulatedWorkspace:
    """The ``Workspace`` port over memory."""

    PORT: ClassVar[str] = "workspace"

    def __init__(self, dispatcher: Dispatcher, store: Store) -> None:
        self.dispatcher = dispatcher
        self._store = store
        self._bodies: dict[str, Body] = {}
        self._places: dict[str, _Place] = {}

    def accept(self, attempt: Attempt, body: Body) -> None:
        """Let this attempt run this body."""
        self._bodies[attempt.execution] = body

    def places(self) -> tuple[str, ...]:
        """Name the executions whose files are still here."""
        return tuple(self._places)

    @served
    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Read the input commit."""
        body = self._bodies.get(attempt.execution)
        if body is None:
            return NotDone(f"execution {attempt.execution} has no body: accept it first")
        read = _read_all(self._store.read(attempt.target.repository, attempt.input))
        if not isinstance(read, Done):
            return read
        self._places[attempt.execution] = _Place(body, read.value, dict(read.value))
        return Done(None, operations=read.operations)

    @served
    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run the body, or its first part."""
        place = self._places.get(attempt.execution)
        if place is None:
            return Unknown(f"execution {attempt.execution} has no files here: its body is lost")
        if not inspect.isgeneratorfunction(place.body):
            return Done(_ran(attempt, place, lambda: place.body(place.files)))
        running: Running = place.body(place.files)
        place.running = running
        return Done(_went_on(attempt, lambda: next(running)))

    @served
    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Go on with a body that asked for staging."""
        place = self._places.get(attempt.execution)
        if place is None or place.running is None:
            return Unknown(f"execution {attempt.execution} waits for nothing here: its body is lost")
        running = place.running
        return Done(_went_on(attempt, lambda: running.send(sink)))

    @served
    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Write what changed."""
        place = self._places.get(attempt.execution)
        if place is None:
            return NotDone(f"execution {attempt.execution} has no files here: nothing can be uploaded")
        stored: list[Stored] = []
        for path, data in sorted(place.changed.items()):
            put = sink.put(path, BytesIO(data))
            if not isinstance(put, Done):
                return put
            stored.append(put.value)
        linked = sink.link(tuple(stored), place.deleted)
        return Done(None, operations=len(stored) + 1) if isinstance(linked, Done) else linked

    @served
    def remove(self, attempt: Attempt) -> Answer[None]:
        """Forget the files."""
        self._places.pop(attempt.execution, None)
        return Done(None)


def _read_all(source: Source) -> Answer[dict[str, bytes]]:
    listed = source.list()
    if not isinstance(listed, Done):
        return listed
    files: dict[str, bytes] = {}
    for each in listed.value:
        opened = source.get(each.path)
        if not isinstance(opened, Done):
            return opened
        with opened.value as data:
            files[each.path] = data.read()
    return Done(files, operations=1 + len(files))


def _went_on(attempt: Attempt, go: Callable[[], object]) -> BodyEvent:
    """Let a generator body go on; what it wrote through its sink is a change, whatever its files say."""
    try:
        go()
    except StopIteration:
        return BodyDone(attempt.execution, changed=True)
    except Exception as error:  # noqa: BLE001  whatever a body raises is its failure
        return _failed(attempt, error)
    return StagingWanted(attempt.execution)


def _ran(attempt: Attempt, place: _Place, go: Callable[[], object]) -> BodyEvent:
    try:
        go()
    except Exception as error:  # noqa: BLE001  whatever a body raises is its failure
        return _failed(attempt, error)
    compared = attempt.operation is Operation.MAINTENANCE
    content = Content(_digest(place.before), _digest(place.files)) if compared else None
    return BodyDone(attempt.execution, changed=bool(place.changed or place.deleted), content=content)


def _digest(files: Mapping[str, bytes]) -> str:
    """Digest what is logical here: the contents of the files. Where they lie is layout."""
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(data).digest() for data in files.values()))).hexdigest()


def _failed(attempt: Attempt, error: Exception) -> BodyFailed:
    reason = f"{type(error).__name__}: {error}"
    return BodyFailed(attempt.execution, reason, terminal=isinstance(error, TerminalBodyError))
