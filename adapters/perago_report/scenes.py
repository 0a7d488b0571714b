"""What a renderer is given: a story of scenes, whoever tells it; the simulator's runs and a worker's traces do.

Plain text and small numbers only; how it looks is for the renderers.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from perago_core.value import Value


class Standing(Enum):
    """What a commit is in a scene, the first that applies."""

    BRANCH = "on the branch"
    LOST = "lost"
    STAGED = "staged"
    ABANDONED = "left behind"


@frozen(repr=False)
class Position(Value):
    """Where a commit is drawn: column and line, both from 0."""

    column: int
    line: int


@frozen(repr=False)
class CommitNode(Value):
    """One commit in one scene. ``names`` are the staging names at it; ``fresh``: it was not there a scene ago."""

    ref: str
    parent: str
    place: Position
    standing: Standing
    execution: str
    stranger: bool
    head: bool
    accepted: bool
    names: tuple[str, ...]
    fresh: bool


@frozen(repr=False)
class Line(Value):
    """Something that is so after a step: its name, what is to be said about it, and in one word how it stands."""

    name: str
    text: str
    standing: str
    changed: bool = False


@frozen(repr=False)
class Fired(Value):
    """A row that fired, for whom, and where it led."""

    id: str
    execution: str
    told: str
    phase: str
    next: str
    note: str


@frozen(repr=False)
class Scene(Value):
    """One step, and the world after it. ``alive`` names the executions that run; no ``problem``: nothing is broken.

    ``label`` is who, what and about what, for machines; ``when`` is the time of day's part of the story, if it has one.
    """

    number: int
    label: tuple[str, str, str]
    lane: str
    peer: str
    inward: bool
    says: str
    rows: tuple[Fired, ...]
    head: str
    nodes: tuple[CommitNode, ...]
    names: tuple[tuple[str, str], ...]
    tasks: tuple[Line, ...]
    runs: tuple[Line, ...]
    requests: tuple[Line, ...]
    records: tuple[Line, ...]
    alive: tuple[str, ...]
    problem: str
    when: str = ""


@frozen(repr=False)
class Story(Value):
    """A run, told. ``breaks`` is the number of the first step that violates the property, 0 if none does.

    ``executions`` are the lanes that begin and end, each with a colour of its own; ``branch`` is the target's name.
    """

    property: str
    clause: str
    problem: str
    bounds: str
    table: str
    lanes: tuple[str, ...]
    scenes: tuple[Scene, ...]
    breaks: int
    executions: tuple[str, ...]
    branch: str
    verdict: str = "Nothing is broken in this run."

    def opens(self) -> int:
        """Return the number of the step to look at first."""
        return self.breaks or len(self.scenes)
