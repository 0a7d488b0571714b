"""The peer's publish protocol as it is: read the head, compare, then merge or hard-reset, and hope.

Written down from its behaviour, so that each of its failures can be shown on the same server beside ours.
"""

from __future__ import annotations

from secrets import token_hex

from attrs import field, frozen

from perago_core.values import CommitRef, Target
from tests.lakefs.scene import Files
from tests.support.lakefs.stranger import Stranger


class FailedError(Exception):
    """The attempt reports FAILED."""


@frozen
class Peer:
    """One attempt of the peer."""

    stranger: Stranger
    target: Target
    input: CommitRef
    name: str = field(factory=lambda: f"peer-{token_hex(6)}")

    def stage(self, files: Files) -> CommitRef:
        staging = Target(self.target.repository, self.name)
        self.stranger.create_branch(staging, self.input)
        return self.stranger.commits(staging, files, "staged by the peer")

    def look(self) -> tuple[CommitRef, list[str]]:
        """Give the head and its parents."""
        tip = self.stranger.log(self.target)[0]
        return CommitRef(tip["id"]), tip["parents"]

    def publish(self, staged: CommitRef) -> CommitRef:
        return self.act(staged, *self.look())

    def act(self, staged: CommitRef, head: CommitRef, parents: list[str]) -> CommitRef:
        """Do what follows from a head that was seen."""
        if head == self.input:
            merged = self.stranger.merges(self.target, self.name)
            if merged.status != 200:
                raise FailedError(merged.words)
            return CommitRef(merged.body["reference"])
        if parents[:1] == [self.input]:
            return self.reset(staged)
        raise FailedError(f"head {head} is neither the input nor its child")

    def change_nothing(self) -> CommitRef:
        head, parents = self.look()
        return self.input if head == self.input else self.act(self.input, head, parents)

    def reset(self, to: CommitRef) -> CommitRef:
        moved = self.stranger.resets(self.target, to)
        if moved.status != 204:
            raise FailedError(moved.words)
        return to
