"""A server that a test starts is ours, keeps its data when killed, and never outlives the tests.

Shown on etcd, which the development packages bring; all servers are started and ended by the same code.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.servers.etcd import Etcd
from tests.support.servers.processes import birth, listens
from tests.support.servers.server import PORTS, ServerError, free_port
from tests.support.servers.waiting import until

#: Starts a server, says which, and sleeps until it is killed.
KEEPER = """
import sys, time
from pathlib import Path
from tests.support.servers.etcd import Etcd

server = Etcd(folder=Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(3600)
"""


class Impatient(Etcd):
    patience = 1.0


class Mute(Impatient):
    """Starts and never answers."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; print('thinking', flush=True); time.sleep(3600)"]


@pytest.fixture
def server(tmp_path: Path) -> Generator[Etcd]:
    with Etcd(folder=tmp_path / "etcd") as running:
        yield running


def ask(server: Etcd, path: str, **body: str) -> dict[str, object]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("POST", f"/v3/kv/{path}", json.dumps(body))
        answer = connection.getresponse()
        said: dict[str, object] = json.loads(answer.read())
        assert answer.status == 200, said
        return said


def test_data_and_address_stay_when_it_is_killed_and_started_again(server: Etcd) -> None:
    ask(server, "put", key="aw==", value="dg==")
    first, address = server.pid, server.url
    server.restart()
    assert server.url == address
    assert server.pid != first
    assert birth(first) is None
    assert ask(server, "range", key="aw==")["count"] == "1"


def test_a_paused_server_can_be_stopped(server: Etcd) -> None:
    pid = server.pid
    server.send(signal.SIGSTOP)
    server.stop()
    assert birth(pid) is None
    server.stop()
    server.kill()


def test_a_port_that_was_lost_to_somebody_else_is_changed(tmp_path: Path) -> None:
    with Etcd(folder=tmp_path / "other") as other, Etcd(folder=tmp_path / "ours", port=other.port) as ours:
        assert ours.port != other.port
        assert listens(ours.pid, ours.port)
        assert listens(other.pid, other.port)


def test_somebody_elses_answer_is_not_taken_for_ours_and_a_known_address_is_not_changed(tmp_path: Path) -> None:
    ours = Etcd(folder=tmp_path / "ours")
    with ours:
        pass
    with Etcd(folder=tmp_path / "other", port=ours.port) as other:
        assert other.port == ours.port
        with pytest.raises(ServerError, match="address already in use"):
            ours.start()
        assert not listens(os.getpid(), ours.port)


def test_a_server_that_does_not_come_up_is_ended_and_its_log_is_told(tmp_path: Path) -> None:
    silent = Mute(folder=tmp_path)
    with pytest.raises(ServerError, match=r"etcd did not answer within 1 s; the end of .*etcd\.log:\nthinking"):
        silent.start()
    assert silent.process is None


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KEEPER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as keeper:  # noqa: S603
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        assert birth(pid) is not None
        keeper.kill()
    until(lambda: birth(pid) is None)


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """For the kernel a thread is a parent too: without care the server dies with a test's helper thread."""
    server = Etcd(folder=tmp_path)
    helper = threading.Thread(target=server.start)
    helper.start()
    helper.join()
    try:
        time.sleep(0.2)
        assert ask(server, "range", key="aw==")
    finally:
        server.stop()


def test_ports_are_free_and_not_those_of_outgoing_connections() -> None:
    """Else an outgoing connection could sit on the port when a server is started again."""
    port = free_port()
    assert port in PORTS
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", port))
    lowest = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if lowest.exists():
        assert max(PORTS) < int(lowest.read_text("ascii").split()[0])


def test_a_process_is_known_by_more_than_its_number() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as one:
        first = birth(one.pid)
        assert first == birth(one.pid)
        assert first != birth(os.getpid())
        one.kill()
        until(lambda: birth(one.pid) is None)  # a corpse that nobody fetched yet is no process either
