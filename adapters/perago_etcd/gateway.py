"""One request to etcd's JSON gateway and its answer: done, not done, or unknown.

What each failure means for a request that changes something:

======================================  ==========  ===========================================================
what happened                           answer      why
======================================  ==========  ===========================================================
no connection to any endpoint           not done    nothing was sent
4xx, 501                                not done    etcd refused before it proposed anything to the cluster
time-out or lost connection after that  unknown     it may be applied, now or in a moment
any other 5xx, 408, 499                 unknown     "request timed out" and "leader changed" say nothing about it
======================================  ==========  ===========================================================

A request that only reads is asked of the next endpoint instead. A token that etcd no longer knows was refused before
anything happened, so the request is sent again with a new one, once.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, TypeAlias

import urllib3
from attrs import frozen
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.contract import is_object
from perago_etcd.cluster import Cluster
from perago_etcd.documents import text
from perago_http.pool import Pool
from perago_http.reading import kind_of, read

Json: TypeAlias = Any

#: gRPC's status code UNAUTHENTICATED: the token is unknown to this member.
_UNAUTHENTICATED = 16
#: etcd's words for a token that was made before users or roles changed.
_OLD_TOKEN = "revision of auth store is old"  # noqa: S105  an error message, not a secret
#: Cancelled somewhere on the way: whether before or after the cluster took it, nobody says.
_AMBIGUOUS = (408, 499)
_UNIMPLEMENTED = 501
_OK = 200
_REFUSED = range(400, 500)


#: Held while a client is made, and across a fork, so that no child finds it held by a thread it does not have.
_making = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


class Gateway:
    """The clients of one process. Usable from any thread, and after a fork."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pid = 0
        self._inherited: list[Pool | None] = []
        self._client: Pool | None = None
        self._token = ""
        self._first = 0

    def close(self) -> None:
        """Close the connections of this process."""
        if self._client is not None and self._pid == os.getpid():
            self._client.clear()
            self._client = None

    def read(self, path: str, body: Json) -> Answer[Json]:
        """Ask for something that changes nothing."""
        return self._ask(path, body, repeatable=True)

    def change(self, path: str, body: Json) -> Answer[Json]:
        """Ask for a change, once."""
        return self._ask(path, body, repeatable=False)

    def _ask(self, path: str, body: Json, *, repeatable: bool) -> Answer[Json]:
        if not self._cluster.user:
            return self._send(path, body, repeatable=repeatable).answer
        token = self._authenticate(instead_of="")
        if not isinstance(token, Done):
            return token
        reply = self._send(path, body, repeatable=repeatable, token=token.value)
        if not reply.token_is_stale:
            return reply.answer
        token = self._authenticate(instead_of=token.value)
        if not isinstance(token, Done):
            return token
        return self._send(path, body, repeatable=repeatable, token=token.value).answer

    def _authenticate(self, instead_of: str) -> Answer[str]:
        """Get a token, unless another thread has got one meanwhile. Two that ask at once get two, and both are good."""
        if self._token != instead_of:
            return Done(self._token)
        credentials = {"name": self._cluster.user, "password": self._cluster.password}
        answer = read(self._send("auth/authenticate", credentials, repeatable=True).answer, _token, "etcd")
        if isinstance(answer, Done):
            self._token = answer.value
            return answer
        # Whatever became of this, the request it was for was not sent.
        return NotDone(f"etcd did not let user {self._cluster.user!r} in: {answer.reason}")

    def _send(self, path: str, body: Json, *, repeatable: bool, token: str = "") -> _Reply:
        """Try the endpoints in turn, beginning with the one that answered last, as long as that is safe."""
        endpoints, first = self._cluster.endpoints, self._first
        reply = _Reply(NotDone("no endpoint"))
        for each in (*range(first, len(endpoints)), *range(first)):
            reply = self._send_to(endpoints[each], path, body, token)
            if reply.reached and not (repeatable and isinstance(reply.answer, Unknown)):
                self._first = each
                break
        return reply

    def _send_to(self, endpoint: str, path: str, body: Json, token: str) -> _Reply:
        # By ``Accept`` etcd knows that the gateway asks; without it, whoever has no token is the gateway's certificate.
        headers = {"Accept": "application/json"} | ({"Authorization": token} if token else {})
        url, limit = f"{endpoint.rstrip('/')}/v3/{path}", urllib3.Timeout(total=self._cluster.timeout)
        try:
            response = self._http().request("POST", url, json=body, headers=headers, timeout=limit, redirect=False)
        except (NewConnectionError, ConnectTimeoutError, NameResolutionError) as problem:
            return _Reply(NotDone(f"{endpoint} could not be reached: {_described(problem)}"), reached=False)
        except HTTPError as problem:
            if "CERTIFICATE_VERIFY_FAILED" in str(problem):  # found before anything is sent
                return _Reply(NotDone(f"{endpoint} could not be reached: {_described(problem)}"), reached=False)
            return _Reply(Unknown(f"{endpoint} did not answer: {_described(problem)}"))
        return _judge(endpoint, response)

    def _http(self) -> Pool:
        """Return this process's client: making one costs a third of a second of TLS set-up, so it is made once."""
        with _making:
            if self._client is None or self._pid != os.getpid():
                self._inherited.append(self._client)  # a forked child must not close its parent's connections
                self._client = Pool(maxsize=64, ssl_context=self._cluster.trust())
                self._pid = os.getpid()
            return self._client


@frozen
class _Reply:
    answer: Answer[Json]
    reached: bool = True
    token_is_stale: bool = False


def _judge(endpoint: str, response: urllib3.BaseHTTPResponse) -> _Reply:
    status = response.status
    # A stream, as keep-alive gives, is a line of JSON for each answer, each under "result" or "error".
    first, _, _ = response.data.partition(b"\n")
    try:
        document: Json = json.loads(first)
        error: Json = document.get("error")
    except (ValueError, AttributeError, RecursionError):
        return _Reply(Unknown(f"{endpoint} answered {status} and nothing readable: is that etcd's JSON gateway?"))
    if status == _OK and error is None:
        result: Json = document.get("result", document)
        # etcd leaves out what is empty, so that {} would say "no such key". It never leaves its own name out.
        if not (_has_header(result) and kind_of(response.headers) == "application/json"):
            return _Reply(Unknown(f"{endpoint} answered {status} without etcd's header: is that etcd's JSON gateway?"))
        return _Reply(Done(result))
    failure: Json = error if is_object(error) else document  # one of a stream stands under "error"
    code: Json = failure.get("http_code")
    status = code if isinstance(code, int) else status
    message = str(failure.get("message", ""))
    reason = f"{endpoint} answered {status}: {message or 'no reason given'}"
    if _is_refusal(status):
        stale = failure.get("code") == _UNAUTHENTICATED or _OLD_TOKEN in message
        return _Reply(NotDone(reason), token_is_stale=stale)
    return _Reply(Unknown(reason))


def _token(found: Json) -> str:
    token = text(found, "token")
    if not token:
        raise ValueError("a token is missing")
    return token


def _has_header(result: object) -> bool:
    match result:
        case {"header": {}}:
            return True
        case _:
            return False


def _is_refusal(status: int) -> bool:
    if status in _AMBIGUOUS:
        return False
    return status in _REFUSED or status == _UNIMPLEMENTED


def _described(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
