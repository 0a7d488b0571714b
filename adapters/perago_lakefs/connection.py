"""How to reach a lakeFS server: a small value that can be sent to any process, and the clients each process makes.

A client that repeats a request by itself is wrong here. Counterexample: ``lakefs_sdk`` sends a hard reset that got no
answer four times; the last copy may land after somebody else's publication and undo it. So whatever changes something
is sent once; only reads are repeated. And every request ends: a time-out is an answer, waiting for ever is none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3
from attrs import evolve, field, frozen
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration

_API = "/api/v1"
#: Reads are asked again after a lost answer, and when a gateway or a busy server says that it could not ask; soon, even
#: if it says when to come again: that may be hours, and a time-out would not end them.
_READ_AGAIN = urllib3.Retry(
    3,
    backoff_factor=0.1,
    status_forcelist=(429, 502, 503, 504),
    allowed_methods=("GET", "HEAD"),
    respect_retry_after_header=False,
    raise_on_status=False,
)
_ONCE = urllib3.Retry(0)


def _without_api(url: str) -> str:
    return url.rstrip("/").removesuffix(_API)


@frozen(cache_hash=True)
class Connection:
    """One lakeFS server and who we are there.

    ``timeout``: seconds to wait for an answer. ``publish_timeout``: seconds a publication has, from its first check to
    its answer, so that a lease can be known to outlast it. ``pool``: connections kept open, so also how many transfers
    run at once.
    """

    url: str = field(converter=_without_api)
    access_key: str
    secret_key: str = field(repr=False)
    timeout: float = 30.0
    publish_timeout: float = 5.0
    ca: Path | None = None
    pool: int = 16

    @property
    def api(self) -> str:
        """Give the address the paths of the API are appended to."""
        return f"{self.url}{_API}"

    def clients(self) -> Clients:
        """Give the clients of this process, the same ones to every thread of it."""
        key = (os.getpid(), self)
        with _making:
            if key not in _made:
                _made[key] = Clients.of(self)
            return _made[key]


@frozen(eq=False)
class Clients:
    """``reads`` asks again when an answer is lost, ``changes`` never does.

    ``pool`` is what lies below ``changes``, and ``headers`` who we are, for bodies that must not be held in memory.
    Calls of the SDK take keyword arguments of no type, hence ``Any``.
    """

    reads: Any
    changes: Any
    pool: urllib3.PoolManager
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, connection: Connection) -> Clients:
        """Open nothing yet; connections are made when they are needed."""
        changes = _client(connection, _ONCE)
        who = urllib3.make_headers(basic_auth=f"{connection.access_key}:{connection.secret_key}")
        return cls(_client(connection, _READ_AGAIN), changes, changes._api.rest_client.pool_manager, who)  # noqa: SLF001

    def once(self) -> Clients:
        """Give clients of which none asks again."""
        return evolve(self, reads=self.changes)


def _client(connection: Connection, retries: urllib3.Retry) -> Any:  # noqa: ANN401  see ``Clients``
    configuration: Any = Configuration(
        host=connection.api,
        username=connection.access_key,
        password=connection.secret_key,
        ssl_ca_cert=None if connection.ca is None else str(connection.ca),
    )
    configuration.retries = retries
    configuration.connection_pool_maxsize = connection.pool
    client: Any = LakeFSClient
    return client(configuration)


#: Keyed by process as well: a connection that a fork shares with its parent would mix up their answers.
_made: dict[tuple[int, Connection], Clients] = {}
#: Held across a fork, so that no child finds it held by a thread it does not have.
_making = threading.Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)
