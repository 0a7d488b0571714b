"""Signs of life that other workers see, so that a dead worker's attempt is given up in seconds, not in minutes.

An orchestrator may notice late that a worker has fallen silent: Conductor up to minutes too late. So each worker writes
for each of its attempts until when the orchestrator has to wait for it: when the attempt is handed out, before its body
starts, because a worker may be killed in its first second; and anew with every heartbeat. Who sees that the time is
over, and is the first to say so, asks the orchestrator to look now: a few times, ever less often.

A sign stays until the result was accepted or the task was seen closed. An attempt that ends otherwise, in silence or
with a report nobody answered, is one its own worker nudges for, when its time is over: nobody else knows of it sooner.

Nothing rests on it. A sign is never a reason to publish, to fail or to stop; clocks that differ, a lost sign or a nudge
too many cost a request each. What the orchestrator decides when it looks is its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from attrs import define, field, frozen

from perago_core.answers import Done
from perago_core.ports import Clock, Coordination, Entry, Nudgeable
from perago_core.values import Attempt
from perago_worker.api.task import TaskDefinition
from perago_worker.config.settings import WorkerSettings
from perago_worker.logger import log
from perago_worker.runtime.telemetry import Instruments, Silence
from perago_worker.stack import Stack

SIGNS = "alive/"
NUDGES = "nudging/"
#: Seconds between two looks at most, and at least; and from one nudge to the next. The orchestrator's clock may have
#: started a little later, so the first comes a moment after the time is over, and the second soon.
_TICK = 1.0
_SOONEST = 0.1
_PAUSES = (0.5, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: Seconds for which a nudger is alone with an attempt, and for which a sign outlives its time.
_TERM = 20.0
_AFTERLIFE = 90.0
_NEVER = float("inf")


@frozen
class Sign:
    """An attempt, and the milliseconds since the epoch after which the orchestrator need not wait for it."""

    workflow_id: str
    task_id: str
    worker_id: str
    until: int

    @property
    def key(self) -> str:
        """Return the key it is written under."""
        return f"{SIGNS}{self.task_id}"

    def text(self) -> str:
        """Write it."""
        return json.dumps({"workflow": self.workflow_id, "worker": self.worker_id, "until": self.until})

    @classmethod
    def read(cls, entry: Entry) -> Sign | None:
        """Read it; ``None`` for what is no sign."""
        try:
            found: Any = json.loads(entry.value)
            return cls(found["workflow"], entry.key.removeprefix(SIGNS), found["worker"], int(found["until"]))
        except (ValueError, KeyError, TypeError):
            return None


@define
class OwnAttempt:
    """An attempt of ours: until when it is ours, by our clock, and what was last written about it.

    ``closed``: its result was accepted, so that nobody has to look after it any more.
    """

    attempt: Attempt
    until: Callable[[], float]
    told: float = -1.0
    sign: Sign | None = None
    closed: bool = False


@define
class _Late:
    """A sign whose time is over: how often we have nudged for it, and from when on we may again."""

    sign: Sign
    nudges: int = 0
    not_before: float = 0.0


@define
class Lookout:
    """Shows signs of life of this worker's attempts, and looks after those of others. ``patience``: the longest."""

    _orchestrator: Nudgeable
    _coordination: Coordination
    _clock: Clock
    _worker_id: str
    _patience: float
    _tick: float = _TICK
    _instruments: Instruments = field(factory=Silence)
    _own: dict[str, OwnAttempt] = field(factory=dict[str, OwnAttempt], init=False)
    _ended: list[OwnAttempt] = field(factory=list[OwnAttempt], init=False)
    _given_up: dict[str, _Late] = field(factory=dict[str, _Late], init=False)
    _late: dict[str, _Late] = field(factory=dict[str, _Late], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _writing: threading.Lock = field(factory=threading.Lock, init=False)
    _stopping: threading.Event = field(factory=threading.Event, init=False)
    _lease: str | None = field(default=None, init=False)
    _renewed: float = field(default=0.0, init=False)
    _next: float = field(default=_NEVER, init=False)

    @contextmanager
    def open(self) -> Generator[None]:
        """Look out until this is left; then our signs are taken away, but for those of attempts we have given up."""
        thread = threading.Thread(target=self._look_on, name="lookout", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
            with suppress(Exception):  # a worker that leaves owes nobody a sign
                self._show()
                if self._lease is not None and not self._given_up:
                    self._coordination.revoke(self._lease)

    @contextmanager
    def showing(self, attempt: Attempt, until: Callable[[], float]) -> Generator[OwnAttempt]:
        """Show a sign from now on, and until the attempt that ran inside is closed, or seen closed."""
        own = OwnAttempt(attempt, until)
        with self._lock:
            self._own[attempt.execution] = own
        try:
            self._show_at_once(own)
            yield own
        finally:
            with self._lock:
                del self._own[attempt.execution]
                self._ended.append(own)

    def look(self) -> None:
        """Show ours, then look at the others', once."""
        self._show()
        self._look_after_given_up()
        listed = self._coordination.list(SIGNS)
        if not isinstance(listed, Done):
            return
        now = self._clock.wall()
        signs = [sign for entry in listed.value if (sign := Sign.read(entry)) is not None]
        others = [sign for sign in signs if sign.worker_id != self._worker_id]
        over = [sign for sign in others if sign.until < now]
        self._late = {sign.task_id: self._known(sign) for sign in over}
        self._next = min((sign.until - now for sign in others if sign.until >= now), default=_NEVER) / 1000
        for late in self._late.values():
            if self._is_due(late) and self._is_first(late.sign):
                self._nudge(late)

    def _pause(self) -> float:
        """Return in how many seconds to look again: no later than when the time of somebody will be over."""
        again = (late.not_before - self._clock.now() for late in self._late.values() if late.nudges < len(_PAUSES))
        return min(self._tick, max(_SOONEST, min((self._next + _SOONEST, *again))))

    def _look_on(self) -> None:
        while not self._stopping.wait(self._pause()):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  whatever goes wrong here, the work itself goes on
                log.debug("the lookout missed one look: %s: %s", type(error).__name__, error)

    # ---- our own

    def _show_at_once(self, own: OwnAttempt) -> None:
        try:
            with self._writing:
                self._tell(own)
        except Exception as error:  # noqa: BLE001  as below; the next look tries again
            log.debug("a sign of life was not written at once: %s: %s", type(error).__name__, error)

    def _show(self) -> None:
        with self._lock:
            own, ended = tuple(self._own.values()), self._ended
            self._ended = []
        for each in ended:
            self._end(each)
        with self._writing:
            for each in own:
                self._tell(each)

    def _tell(self, own: OwnAttempt) -> None:
        lease = self._leased()
        until = own.until()
        if lease is not None and until != own.told:
            self._write(own, until, lease)

    def _end(self, own: OwnAttempt) -> None:
        """Take the sign of an attempt away that is closed; keep it, and nudge for it, if nobody says that it is."""
        sign = own.sign or self._sign(own, own.until())
        if own.closed or self._is_closed(sign):
            self._coordination.swap(sign.key, sign.text(), None)
        else:
            self._given_up[sign.task_id] = _Late(sign, not_before=own.until())

    def _look_after_given_up(self) -> None:
        """Nudge for what we have given up ourselves. It takes no coordination store: that may be why we gave it up."""
        for task_id, late in tuple(self._given_up.items()):
            if late.nudges == len(_PAUSES) or (self._is_due(late) and self._nudge(late)):
                del self._given_up[task_id]

    def _is_closed(self, sign: Sign) -> bool:
        """Return whether the orchestrator waits for nobody of this sign any more; a missing answer is no such word."""
        seen = self._orchestrator.reload(sign.workflow_id, sign.task_id)
        if not isinstance(seen, Done):
            return False
        return seen.value is None or not seen.value.status.is_open or seen.value.worker_id != sign.worker_id

    def _sign(self, own: OwnAttempt, until: float) -> Sign:
        ends = self._clock.wall() + round((until - self._clock.now()) * 1000)
        return Sign(own.attempt.workflow_id, own.attempt.task_id, self._worker_id, ends)

    def _write(self, own: OwnAttempt, until: float, lease: str | None) -> None:
        sign = self._sign(own, until)
        if own.sign is None:
            written = self._begin(sign, lease)
        else:
            swapped = self._coordination.swap(sign.key, own.sign.text(), sign.text())
            written = isinstance(swapped, Done) and swapped.value
        # If it was not written, or nobody knows, the next look begins with what stands. Were it taken for written, no
        # swap would ever hit again: our sign would stand still, and peers would waste their nudges on us.
        own.sign, own.told = (sign, until) if written else (None, -1.0)

    def _begin(self, sign: Sign, lease: str | None) -> bool:
        """Write a sign anew, under our lease; what stands is a predecessor's of the same task, or a lost one of ours.

        It is taken away first: a swap would leave it bound to the predecessor's lease, and it would go with that.
        """
        made = self._coordination.create_if_absent(sign.key, sign.text(), lease)
        if isinstance(made, Done) and made.value.value != sign.text():
            self._coordination.swap(sign.key, made.value.value, None)
            made = self._coordination.create_if_absent(sign.key, sign.text(), lease)
        return isinstance(made, Done) and made.value.value == sign.text()

    def _leased(self) -> str | None:
        """Return our lease, renewed often enough that our signs outlive us by the longest patience and some."""
        term = 1.5 * (self._patience + _AFTERLIFE)
        if self._lease is not None:
            if self._clock.now() < self._renewed + term / 3:
                return self._lease
            renewed = self._coordination.keep_alive(self._lease)
            if isinstance(renewed, Done) and not renewed.value:
                self._lease = None
                with self._lock:
                    for each in self._own.values():
                        each.sign, each.told = None, -1.0  # gone with the lease
        if self._lease is None:
            granted = self._coordination.grant(term)
            self._lease = granted.value if isinstance(granted, Done) else None
        self._renewed = self._clock.now()
        return self._lease

    # ---- the others'

    def _known(self, sign: Sign) -> _Late:
        """Return what we know of a late sign; if it was renewed since, it is late anew."""
        known = self._late.get(sign.task_id)
        return known if known is not None and known.sign == sign else _Late(sign)

    def _is_due(self, late: _Late) -> bool:
        due = self._clock.now() >= late.not_before and late.nudges < len(_PAUSES)
        if due:
            late.not_before = self._clock.now() + _PAUSES[late.nudges]
        return due

    def _nudge(self, late: _Late) -> bool:
        """Have the orchestrator look; return whether the attempt is closed by now."""
        sign = late.sign
        late.nudges += 1
        nudged = self._orchestrator.nudge(sign.workflow_id)
        if not isinstance(nudged, Done) or not self._is_closed(sign):
            return False
        log.info("worker %s fell silent; task %s was given up after a nudge", sign.worker_id, sign.task_id)
        self._coordination.swap(sign.key, sign.text(), None)
        with suppress(Exception):  # whatever an instrument's trouble is, it is not the lookout's
            self._instruments.count("failovers", {})
        return True

    def _is_first(self, sign: Sign) -> bool:
        """One worker nudges; if it dies, its mark goes with its term and another one does."""
        key = f"{NUDGES}{sign.task_id}"
        standing = self._coordination.get(key)
        if isinstance(standing, Done) and standing.value is not None:
            return standing.value.value == self._worker_id
        granted = self._coordination.grant(_TERM)
        if not isinstance(granted, Done):
            return False
        made = self._coordination.create_if_absent(key, self._worker_id, granted.value)
        return isinstance(made, Done) and made.value.value == self._worker_id


def lookout_for(
    stack: Stack, own: WorkerSettings, name: str, tasks: Mapping[str, TaskDefinition], instruments: Instruments
) -> Lookout | None:
    """Look out for the other workers where the orchestrator needs that, and there is a place to show signs of life."""
    if not own.nudge or stack.leasing is None or not isinstance(stack.orchestrator, Nudgeable):
        return None
    patience = max(each.response_timeout for each in tasks.values())
    return Lookout(stack.orchestrator, stack.leasing, stack.clock, name, patience, _TICK, instruments)
