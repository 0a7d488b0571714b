"""A Spark of several processes, from the pip package alone: a master with two workers, and a Spark Connect server.

Two workers on two names of one machine: Spark never runs a copy of a task on the host of its first attempt.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from perago_spark.process.java import java_environment
from tests.support.servers.processes import Order, spawn
from tests.support.servers.server import free_port

HOSTS: Final = ("127.0.0.1", "localhost")
#: On a busy machine a Java needs its time.
PATIENCE: Final = 600.0
_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def search_path() -> str:
    """Return where Python finds our packages and these tests, for processes that Spark starts."""
    return os.pathsep.join(str(Path(each).absolute()) for each in sys.path)


def _home() -> Path:
    import pyspark  # noqa: PLC0415  only with Spark

    return Path(pyspark.__file__).parent


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        **java_environment(os.environ),
        "SPARK_HOME": str(_home()),
        # A Spark Connect server counts as a daemon too, and needs that much.
        "SPARK_DAEMON_MEMORY": "640m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": search_path(),
    }


@contextmanager
def _running(name: str, folder: Path, *command: str) -> Generator[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    process = spawn(Order(command, _environment(folder), folder, folder / f"{name}.log"))
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], log: Path, *, port: int | None = None, word: str = "") -> None:
    until = time.monotonic() + PATIENCE
    while not (_listens(port) if port is not None else word in log.read_text("utf-8", "replace")):
        said = log.read_text("utf-8", "replace")[-2000:]
        assert process.poll() is None, f"{log.stem} ended: {said}"
        assert time.monotonic() < until, f"{log.stem} was not ready within {PATIENCE:g} s: {said}"
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@frozen
class Standalone:
    """A master with two workers of one slot each."""

    url: str
    folder: Path

    def applications(self) -> tuple[frozenset[str], ...]:
        """Name the applications that have run, for each worker."""
        works = (self.folder / host / "work" for host in HOSTS)
        return tuple(frozenset(each.name for each in work.glob("app-*")) for work in works)


@contextmanager
def standalone(folder: Path) -> Generator[Standalone]:
    """Start a cluster; it ends with the process that started it."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    java = str(_home() / "bin" / "spark-class")
    place = "org.apache.spark.deploy"
    master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    with _running("master", folder, java, f"{place}.master.Master", *master) as process:
        _await(process, folder / "master.log", port=port)
        with _worker(folder, java, HOSTS[0], url), _worker(folder, java, HOSTS[1], url):
            yield Standalone(url, folder)


@contextmanager
def _worker(folder: Path, java: str, host: str, url: str) -> Generator[None]:
    name = f"worker-{host}"
    about = ("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", url)
    with _running(name, folder / host, java, "org.apache.spark.deploy.worker.Worker", *about) as process:
        _await(process, folder / host / f"{name}.log", word="Successfully registered with master")
        yield


@frozen
class Connect:
    """A Spark Connect server on this machine."""

    url: str
    pid: int


@contextmanager
def connect(folder: Path) -> Generator[Connect]:
    """Start a server with two slots; it ends with the process that started it."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.pyspark.python": sys.executable,
    }
    told = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    kind = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer")
    command = (str(_home() / "bin" / "spark-submit"), *kind, "--master", "local[2,4]", *told, "spark-internal")
    with _running("connect", folder, *command) as process:
        _await(process, folder / "connect.log", port=port)
        yield Connect(f"sc://127.0.0.1:{port}", process.pid)
