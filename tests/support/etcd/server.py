"""A real etcd on loopback: started on free ports, with or without TLS and users, killed and started again."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import trustme
from attrs import define, field, frozen

from perago_core.answers import Answer, Done
from perago_etcd.cluster import Cluster
from perago_etcd.coordination import EtcdCoordination
from tests.support.servers.obtaining import obtain_etcd

#: A version that forgets: one of the development packages puts it beside the interpreter.
FORGETFUL = Path(sys.executable).with_name("etcd")
PATIENCE = 30.0


@frozen
class Certificates:
    """An authority, a server's certificate for loopback, and a client's, as files."""

    ca: Path
    cert: Path
    key: Path
    client_cert: Path
    client_key: Path

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        authority = trustme.CA()
        made = cls(*(folder / name for name in ("ca.pem", "cert.pem", "key.pem", "client.pem", "client-key.pem")))
        authority.cert_pem.write_to_path(made.ca)
        pairs = {
            authority.issue_cert("127.0.0.1"): (made.cert, made.key),
            authority.issue_cert("worker@example.org"): (made.client_cert, made.client_key),
        }
        for issued, (cert, key) in pairs.items():
            issued.cert_chain_pems[0].write_to_path(cert)
            issued.private_key_pem.write_to_path(key)
        return made


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@define
class Etcd:
    """One server over one data folder. It outlives its process: ``kill`` it and ``start`` it again."""

    folder: Path
    certificates: Certificates | None
    program: Path
    port: int = field(factory=_free_port)
    peer_port: int = field(factory=_free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"{'http' if self.certificates is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        told = subprocess.run([str(self.program), "--version"], capture_output=True, text=True, check=True)  # noqa: S603  our own
        return told.stdout.partition("\n")[0].removeprefix("etcd Version: ")

    @property
    def entry(self) -> Mapping[str, Any]:
        """Give the certificates a client needs."""
        made = self.certificates
        return {} if made is None else {"ca": made.ca, "cert": made.client_cert, "key": made.client_key}

    def recipe(self, **options: Any) -> Callable[[], EtcdCoordination]:  # noqa: ANN401  whatever the adapter takes
        """Say how another process opens this etcd."""
        return partial(EtcdCoordination, (self.endpoint,), **{"timeout": 20.0, **self.entry, **options})

    def start(self) -> None:
        peer = f"http://127.0.0.1:{self.peer_port}"
        command = [
            str(self.program),
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={self.endpoint}",
            f"--advertise-client-urls={self.endpoint}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=error",
        ]
        made = self.certificates
        if made is not None:
            command += [f"--cert-file={made.cert}", f"--key-file={made.key}", f"--trusted-ca-file={made.ca}"]
            command += ["--client-cert-auth"]
        with (self.folder / "etcd.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603  our own command
        self._await_ready()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would; a server that was paused is woken for that."""
        self.send(signal.SIGCONT)
        self._end(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401  JSON
        """Ask the gateway past the adapter, as an administrator does before users are demanded."""
        trust = Cluster((self.endpoint,), **self.entry).trust()
        with httpx.Client(verify=False if trust is None else trust, trust_env=False) as client:
            response = client.post(f"{self.endpoint}/v3/{path}", json=dict(body))
        assert response.is_success, response.text
        return response.json()

    def demand_users(self, user: str, password: str) -> None:
        """Make a user who may do everything under our prefix, and let nobody in without one."""
        everything = {"permType": "READWRITE", "key": _base64("perago/"), "range_end": _base64("perago0")}
        self.ask("auth/role/add", {"name": "workers"})
        self.ask("auth/role/grant", {"name": "workers", "perm": everything})
        self.ask("auth/user/add", {"name": user, "password": password})
        self.ask("auth/user/grant", {"user": user, "role": "workers"})
        self.ask("auth/user/add", {"name": "root", "password": "for the administrator"})
        self.ask("auth/user/grant", {"user": "root", "role": "root"})
        self.ask("auth/enable", {})

    def _await_ready(self) -> None:
        until = time.monotonic() + PATIENCE
        with closing(self.recipe(timeout=2.0)()) as probe:
            while not _is_there(answer := probe.get("ready")):
                log = (self.folder / "etcd.log").read_text(encoding="utf-8")
                assert time.monotonic() < until, f"etcd is not ready: {answer}\n{log}"
                assert self.process is not None
                assert self.process.poll() is None, log
                time.sleep(0.05)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None


def _is_there(answer: Answer[Any]) -> bool:
    """Say whether etcd spoke; that it lets nobody in without a user is an answer too."""
    return isinstance(answer, Done) or "user name is empty" in answer.reason


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


@contextmanager
def running(folder: Path, certificates: Certificates | None = None, program: Path | None = None) -> Generator[Etcd]:
    """Run a server for as long as it is needed; a current one, unless another program is named."""
    server = Etcd(folder, certificates, program or obtain_etcd(print))
    try:
        server.start()
        yield server
    finally:
        server.stop()
