"""Right answers of etcd's JSON gateway, and every call that asks for them."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from perago_etcd import EtcdCoordination
from tests.support.hostile.answers import Right
from tests.support.hostile.campaign import Calls
from tests.support.hostile.server import Asked

HEADER: Final = {"cluster_id": "14841639068965178418", "member_id": "10276657743932975437", "revision": "5"}
KV: Final = {
    "key": base64.b64encode(b"perago/key").decode(),
    "create_revision": "2",
    "mod_revision": "2",
    "version": "1",
    "value": base64.b64encode(b"value").decode(),
}
#: What etcd leaves out where it is empty or false; without it an answer says something else, and says it rightly.
LAX: Final = frozenset({"kvs", "count", "succeeded", "value", "TTL", "more", "token", "responses", "version", "result"})
_DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    "kv/range": {"header": HEADER, "kvs": [KV], "count": "1"},
    "kv/txn": {"header": HEADER, "succeeded": True, "responses": [{"response_put": {"header": {"revision": "5"}}}]},
    "lease/grant": {"header": HEADER, "ID": "7587870000000000000", "TTL": "10"},
    "lease/keepalive": {"result": {"header": HEADER, "ID": "7", "TTL": "10"}},
    "lease/revoke": {"header": HEADER},
    "maintenance/status": {"header": HEADER, "version": "3.6.0", "dbSize": "20480", "leader": "10276657743932975437"},
    "auth/authenticate": {"header": HEADER, "token": "ABC.7"},
}
_STANDS: Final = {
    "header": HEADER,
    "responses": [{"response_range": {"header": {"revision": "5"}, "kvs": [KV], "count": "1"}}],
}


def answers(asked: Asked) -> Right:
    """Answer as etcd does; a transaction with something to read if it fails has failed."""
    path = asked.path.removeprefix("/v3/")
    document = _DOCUMENTS[path]
    if path == "kv/txn" and json.loads(asked.body)["failure"]:
        document = _STANDS
    return Right(200, json.dumps(document).encode(), lax=LAX)


def calls(port: EtcdCoordination) -> Calls:
    """Every call of the port."""
    return {
        "get": lambda: port.get("key"),
        "list": lambda: port.list("k"),
        "create": lambda: port.create_if_absent("key", "other"),
        "swap": lambda: port.swap("key", None, "value"),
        "swap back": lambda: port.swap("key", "value", None),
        "grant": lambda: port.grant(10.0),
        "keep alive": lambda: port.keep_alive("7"),
        "revoke": lambda: port.revoke("7"),
        "caution": port.caution,
    }
