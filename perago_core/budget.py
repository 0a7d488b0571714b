"""The publish budget: how long each part of a publication may take, as one checked value (P-35, K-14, N-16).

Numbers that contradict each other are refused at construction, with the numbers in the message. A response timeout that
is too short for the sum is only a warning: the budget never shortens, lengthens or hides the task's own lease (T-P5).
"""

from __future__ import annotations

from attrs import field, frozen

from perago_core.value import Value, seconds


@frozen(cache_hash=True, kw_only=True, repr=False)
class PublishBudget(Value):
    """Seconds. The defaults suit a store that publishes in well under a second.

    ``publish_timeout``: one branch-moving request. ``publish_p99``: what was observed. ``margin``: slack on top of it.
    ``completion_reserve``: reading back, reporting, reading the task back. ``heartbeat_interval``: between two beats.
    ``shutdown_grace``: draining. ``lease_ttl`` and ``lease_margin``: the coordination lease and how much earlier than
    its end we stop trusting it. ``takeover_wait``: how long a successor waits after an unclean predecessor.
    """

    publish_timeout: float = field(default=5.0, validator=seconds)
    publish_p99: float = field(default=1.0, validator=seconds)
    margin: float = field(default=1.0, validator=seconds)
    completion_reserve: float = field(default=10.0, validator=seconds)
    heartbeat_interval: float = field(default=5.0, validator=seconds)
    shutdown_grace: float = field(default=10.0, validator=seconds)
    lease_ttl: float = field(default=10.0, validator=seconds)
    lease_margin: float = field(default=2.0, validator=seconds)
    takeover_wait: float = field(default=30.0, validator=seconds)

    def __attrs_post_init__(self) -> None:
        observed = self.publish_p99 + self.margin
        if self.publish_timeout < observed:
            _refuse(
                f"publish_timeout {self.publish_timeout:g} s is shorter than the observed p99 plus margin, "
                f"{self.publish_p99:g} + {self.margin:g} = {observed:g} s: a normal publication would time out",
            )
        if not 0 < self.lease_margin < self.lease_ttl:
            _refuse(
                f"lease_margin {self.lease_margin:g} s must be over 0 and under lease_ttl {self.lease_ttl:g} s: "
                "without one a slow clock outlives the lease, with too much of one it is lost as soon as it is granted",
            )
        in_flight = self.publish_timeout + self.margin
        if self.takeover_wait < in_flight:
            _refuse(
                f"takeover_wait {self.takeover_wait:g} s is shorter than publish_timeout plus margin, "
                f"{self.publish_timeout:g} + {self.margin:g} = {in_flight:g} s: a dead holder's request may still land",
            )

    @property
    def under_lease(self) -> float:
        """Return how much of a lease must be left when the head is read: reading it, and the request after it."""
        return self.publish_timeout + self.margin

    @property
    def total(self) -> float:
        """Return the seconds a publication may need after its body is done, heartbeat and shutdown included."""
        return self.publish_timeout + self.completion_reserve + self.heartbeat_interval + self.shutdown_grace

    def warnings(self, response_timeout: float) -> tuple[str, ...]:
        """Name what does not fit the task's response timeout. Nothing is changed because of it."""
        if not response_timeout >= 0:
            message = f"response_timeout must be a number of seconds, zero or more, not {response_timeout!r}"
            raise ValueError(message)
        found: list[str] = []
        if response_timeout < self.total:
            found.append(
                f"response timeout {response_timeout:g} s is shorter than the publish budget {self.total:g} s "
                f"(publish {self.publish_timeout:g} + completion {self.completion_reserve:g} + heartbeat "
                f"{self.heartbeat_interval:g} + shutdown {self.shutdown_grace:g}): raise the response timeout",
            )
        if self.heartbeat_interval >= response_timeout:
            found.append(
                f"heartbeat interval {self.heartbeat_interval:g} s is not shorter than the response timeout "
                f"{response_timeout:g} s: the attempt is given up between two beats",
            )
        if self.under_lease >= self.lease_ttl - self.lease_margin:
            found.append(
                f"publish_timeout {self.publish_timeout:g} s and margin {self.margin:g} s exceed what is left of a "
                f"fresh lease ({self.lease_ttl:g} - {self.lease_margin:g} s): under `locked` publications are refused; "
                f"raise lease_ttl over {self.under_lease + self.lease_margin:g} s",
            )
        return tuple(found)


def _refuse(contradiction: str) -> None:
    message = f"PublishBudget contradicts itself: {contradiction}"
    raise ValueError(message)
