"""Carries a plan of faults out on a field, and counts what was really done: a fault that found nobody is none."""

from __future__ import annotations

import heapq
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TypeAlias

from attrs import define, field

from perago_core.answers import Done
from perago_etcd.coordination import EtcdCoordination
from tests.support.burn.faults import SLOTS, Fault, Kind
from tests.support.burn.field import REPLACING, Field, Pipeline, Slot, is_ready, namespaces
from tests.support.crash.project import WorkerProcess
from tests.support.servers.etcd import Etcd
from tests.support.servers.faulty_proxy import LOSE_ANSWER, LOSE_REQUEST, Handling, Script, always, at_random
from tests.support.servers.server import Server, ServerError

_HALF = 0.5
#: Seconds a change of the policy waits for workers to rest, and bytes a file may have where no disk can be mounted.
_WAIT, _SMALL = 45, 4096
#: Seconds within which somebody else's result is accepted, once they may work.
_ACCEPTED = 120
_TICK = 0.05

#: Faults of a worker; they wait until there is one that works.
_STRIKES_WORKER = frozenset(
    {Kind.KILL, Kind.KILL_AT, Kind.STOP, Kind.STOP_AT, Kind.CLOCK, Kind.WALL, Kind.FULL, Kind.UPGRADE}
)

Mend: TypeAlias = Callable[[], None]


@define
class Nemesis:
    """One round's. ``injected``: faults by their kind; ``log``: each with what came of it, for whoever reads on."""

    ground: Field
    policy: str
    injected: Counter[Kind] = field(factory=Counter[Kind])
    log: list[str] = field(factory=list[str])
    _due: list[tuple[float, int, Mend]] = field(factory=list[tuple[float, int, Mend]])
    _numbers: count[int] = field(factory=count)
    _began: float = field(factory=time.monotonic)
    _watched: dict[int, Fault] = field(factory=dict[int, Fault])
    _servers: dict[str, threading.Lock] = field(factory=dict[str, threading.Lock])
    _beside: list[Future[None]] = field(factory=list[Future[None]])
    _pool: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(6))

    def play(self, faults: Iterable[Fault], seconds: float) -> None:
        """Inject every fault at its time, mend it after its own, and keep workers alive; at most for so long.

        Workers that were armed have as long again to come where they die or stand still: on a machine with a load of
        twenty none of them came there within the round, and the sharpest faults of all were never injected.
        """
        coming = sorted(faults, key=lambda fault: fault.at)
        while (now := time.monotonic() - self._began) < seconds * (2 if self._watched else 1):
            if now >= seconds:
                coming = []
            elif not coming and not self._is_busy():
                break
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()
            # One that waits for its worker does not keep the others waiting.
            if found := next((each for each in coming if each.at <= now and self._finds_somebody(each)), None):
                coming.remove(found)
                self._inject(found)
            self._watch()
            self.ground.supervise()
            time.sleep(_TICK)

    def _is_busy(self) -> bool:
        return bool(self._due or self._watched) or any(not each.done() for each in self._beside)

    def mend(self) -> None:
        """Take everything back, wait for what is still being done, and leave the policy as it was."""
        for _, _, act in self._due:
            act()
        self._due.clear()
        self.ground.quiet()
        self._pool.shutdown()
        for server in self.ground.servers.values():
            if server.process is None:
                server.start()
        self.ground.quiet()

    def _finds_somebody(self, fault: Fault) -> bool:
        """Say whether the worker that a fault is for is there. Who is killed while it starts shows nothing, again."""
        if fault.kind not in _STRIKES_WORKER:
            return True
        if fault.kind in {Kind.KILL_AT, Kind.STOP_AT} and fault.slot in self._watched:
            return False
        return is_ready(self.ground.slots[fault.slot])

    # ---- each kind

    def _inject(self, fault: Fault) -> None:
        slot = self.ground.slots[fault.slot]
        beside: dict[Kind, Callable[[], bool]] = {
            Kind.UPGRADE: self._upgrade,
            Kind.TWICE: lambda: self.ground.hand_out_again(self._pipeline(fault)),
            Kind.STRANGER: self.ground.commit_as_stranger,
            Kind.POLICY: self._change_policy,
            Kind.RESTART: lambda: self._restart(self._server(fault)),
        }
        at_once: dict[Kind, Mend] = {
            Kind.KILL: lambda: self._signal(fault, slot),
            Kind.STOP: lambda: self._signal(fault, slot),
            Kind.KILL_AT: lambda: self._arm(fault, slot),
            Kind.STOP_AT: lambda: self._arm(fault, slot),
            Kind.CLOCK: lambda: self._replace_with_another_clock(fault, slot),
            Kind.WALL: lambda: self._set_wall_clock(fault, slot),
            Kind.FULL: lambda: self._fill(fault, self.ground.slots[SLOTS - 1]),
            Kind.FREEZE: lambda: self._freeze(fault),
        }
        if fault.kind in beside:
            self._aside(fault, beside[fault.kind])
        else:
            at_once.get(fault.kind, lambda: self._disturb(fault))()

    def _signal(self, fault: Fault, slot: Slot) -> None:
        with slot.lock:
            worker = slot.worker
            if worker is None or worker.process.poll() is not None or worker.is_stopped():
                return
            if fault.kind is Kind.KILL:
                worker.signal(signal.SIGKILL)
                worker.wait()
            else:
                worker.signal(signal.SIGSTOP)
                self._later(fault.seconds, lambda: worker.signal(signal.SIGCONT))
        self._count(fault)

    def _arm(self, fault: Fault, slot: Slot) -> None:
        """Replace a slot's worker by one that dies or stands still by itself; it is counted when it does."""
        action = "kill" if fault.kind is Kind.KILL_AT else "stop"
        with slot.lock:
            if slot.worker is None or slot.worker.is_stopped():
                return
            slot.failpoints = [f"{action} {fault.point}"]
            if fault.first:
                slot.failpoints = [f"kill {fault.first} {REPLACING}", f"stop {fault.point} {REPLACING}"]
                self._empty_others(slot)
            slot.worker.signal(signal.SIGTERM)
            self._watched[fault.slot] = fault

    def _empty_others(self, slot: Slot) -> None:
        for other in self.ground.slots:
            if other is not slot:
                other.empty = True
                if other.worker is not None:
                    other.worker.signal(signal.SIGTERM)

    def _watch(self) -> None:
        """Notice the workers that have died or stand still where they were armed to."""
        for number, fault in list(self._watched.items()):
            slot = self.ground.slots[number]
            with slot.lock:
                worker = slot.worker
                if worker is None or slot.armed.split()[1:2] != [fault.point]:
                    continue
                stopped = worker.is_stopped()
                if stopped and fault.first and self.ground.is_held_up():
                    self._arm_again(fault, slot, worker)
                    continue
                if worker.process.poll() == -signal.SIGKILL or stopped:
                    self._count(fault)
                if stopped:
                    self._wake_later(fault, worker)
                if stopped or worker.process.poll() is not None:
                    del self._watched[number]

    def _arm_again(self, fault: Fault, slot: Slot, worker: WorkerProcess) -> None:
        """Wake a worker that another one cannot take the place of, and have the next one come to where it stood.

        Counterexample, seen: it stood still while another thread of it was in a transaction, so that nobody could
        write until it woke. There was nothing to lose, and the burn was called blind.
        """
        slot.armed = ""  # whatever becomes of this one
        slot.failpoints = [f"kill {fault.first} {REPLACING}", f"stop {fault.point} {REPLACING}"]
        worker.signal(signal.SIGCONT)
        worker.signal(signal.SIGTERM)

    def _wake_later(self, fault: Fault, worker: WorkerProcess) -> None:
        """Wake it after its time; in the control, when a run was accepted without it."""
        if not fault.first:
            self._later(fault.seconds, lambda: worker.signal(signal.SIGCONT))
            return
        before = self.ground.completed(REPLACING)
        for slot in self.ground.slots:
            slot.empty = False

        def wake() -> bool:
            until = time.monotonic() + _ACCEPTED
            while self.ground.completed(REPLACING) == before and time.monotonic() < until:
                time.sleep(0.2)
            worker.signal(signal.SIGCONT)
            return False

        self._aside(fault, wake)

    def _replace_with_another_clock(self, fault: Fault, slot: Slot) -> None:
        with slot.lock:
            if slot.worker is None or slot.worker.is_stopped():
                return
            slot.shift = 1000 + 97 * fault.server
            slot.worker.signal(signal.SIGTERM)
        self._later(20.0, lambda: setattr(slot, "shift", 0))
        self._count(fault)

    def _set_wall_clock(self, fault: Fault, slot: Slot) -> None:
        """Set a worker's wall clock up to eight hours forward or back while it works, and right again after a while."""
        wall = slot.wall
        assert wall is not None
        wall.jump(60 * (fault.server - 500))
        self._later(fault.seconds, lambda: wall.jump(0))
        self._count(fault)

    def _upgrade(self) -> bool:
        """Drain one worker after the other and start a new one in its place, as a release is rolled out."""
        for slot in self.ground.slots:
            with slot.lock:
                worker = slot.worker
            if worker is None or worker.process.poll() is not None or worker.is_stopped():
                return False
            worker.signal(signal.SIGTERM)
            with suppress(Exception):
                worker.wait(40)
        return True

    def _fill(self, fault: Fault, slot: Slot) -> None:
        """Fill the disk under a worker's rooms, or let it write no file worth the name where it has no own disk."""
        worker = slot.worker
        if worker is None or worker.process.poll() is not None:
            return
        if not namespaces():
            _, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (_SMALL, hard))
            self._later(fault.seconds, lambda: _unlimited(worker.pid, hard))
            self._count(fault)
            return
        # The worker's mounts are seen through its root.
        filler = Path(f"/proc/{worker.pid}/root") / self.ground.disk(SLOTS - 1).relative_to("/") / "filler"
        with suppress(OSError):
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(b"x" * (1 << 20)):
                    pass
            self._later(fault.seconds, lambda: _remove(filler))
            self._count(fault)

    def _change_policy(self) -> bool:
        """Choose leases instead of the probed backing, and after a while what there was before."""
        other = "disable" if self.policy == "auto" else "auto"
        if not self._set_policy(other):
            return False
        return any(self._set_policy(self.policy) for _ in range(3))

    def _set_policy(self, policy: str) -> bool:
        words = ("policy", "set", policy, "--why", "the burn", "--wait", f"{_WAIT}")
        return self.ground.project.perago(*words, limit=600).returncode == 0

    def _freeze(self, fault: Fault) -> None:
        name = self._server(fault)
        server = self.ground.servers[name]
        lock = self._servers.setdefault(name, threading.Lock())
        if not lock.acquire(blocking=False):
            return
        server.send(signal.SIGSTOP)

        def wake() -> None:
            server.send(signal.SIGCONT)
            lock.release()

        self._later(min(fault.seconds, 8.0), wake)
        self._count(fault)

    def _restart(self, name: str) -> bool:
        """Kill a server and start it on its data. An etcd that is known to forget is ended as an operator would."""
        server = self.ground.servers[name]
        with self._servers.setdefault(name, threading.Lock()):
            if isinstance(server, Etcd) and forgets(server):
                server.stop()
            else:
                server.kill()
            _start(server)
        return True

    def _disturb(self, fault: Fault) -> None:
        name = self._server(fault)
        mend = self.ground.disturb(fault.slot, name, _script(fault))
        self._later(fault.seconds, mend)
        self._count(fault)

    # ---- telling

    def _server(self, fault: Fault) -> str:
        names = sorted(self.ground.servers)
        return names[fault.server % len(names)]

    def _pipeline(self, fault: Fault) -> Pipeline:
        return self.ground.pipelines[fault.branch % len(self.ground.pipelines)]

    def _later(self, seconds: float, act: Mend) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))

    def _aside(self, fault: Fault, act: Callable[[], bool]) -> None:
        """Do what may take long beside the others; what could not be done, because a server is away, was not done."""

        def tried() -> None:
            try:
                did = act()
            except Exception as trouble:  # noqa: BLE001  whatever a client of a broken server says
                self.log.append(f"{fault}: not done, {type(trouble).__name__}: {str(trouble)[:200]}")
                return
            if did:
                self._count(fault)

        self._beside.append(self._pool.submit(tried))

    def _count(self, fault: Fault) -> None:
        self.injected[fault.kind] += 1
        where = f" [{self._server(fault)}]" if self.ground.servers else ""
        self.log.append(f"{time.monotonic() - self._began:.1f} s: {fault}{where}")


def forgets(server: Etcd) -> bool:
    """Say whether this etcd may lose an answered change when it is killed: then what is lost is lost by etcd."""
    asked = EtcdCoordination((server.url,), prefix="perago/")
    said = asked.caution()
    asked.close()
    return not isinstance(said, Done) or bool(said.value)


def _script(fault: Fault) -> Script:
    match fault.kind:
        case Kind.PARTITION:
            return always(LOSE_REQUEST)
        case Kind.ONE_WAY:
            return always(LOSE_ANSWER)
        case Kind.DELAY:
            return at_random(fault.number, delay=fault.seconds / 2)
        case Kind.LOST_REQUEST:
            return at_random(fault.number, lose_request=_HALF)
        case Kind.LOST_ANSWER:
            return at_random(fault.number, lose_answer=_HALF)
        case _:
            return always(Handling(again=True))


def _start(server: Server) -> None:
    """Start it; on a machine that is busy with a burn that may take more than one try."""
    for left in reversed(range(3)):
        try:
            server.start()
        except ServerError:
            if not left:
                raise
        else:
            return


def _unlimited(pid: int, hard: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
