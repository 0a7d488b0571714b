"""Requests to Conductor: conductor-python sends each once, and we say what became of it: done, not done, or unknown.

======================================  ==========  =============================================================
what happened                           answer      why
======================================  ==========  =============================================================
no connection                           not done    nothing was sent (``Unreachable``)
404 in Conductor's words                not done    what was asked for is gone (``Gone``)
any other 404                           unknown     a proxy's, or about the address; it says nothing of the task
other 4xx                               not done    Conductor refused it; 401 and 403 say what to check
408, 429, 5xx, a lost connection        unknown     it may have been applied, now or in a moment
any other status, a page, a foreign     unknown     not Conductor's; whoever redirects, or shows a page with 200, may
document                                            have passed the request on
======================================  ==========  =============================================================

A success says little: Conductor answers 200 to results and heartbeats that it ignores.

The library's generated classes make every request: its path, its parameters, its token for key and secret, renewed
before it ends or when the server no longer knows it. What the library does beyond that, and must not do here:

* It sends a GET again after a lost answer. A poll *is* a GET: the first batch would be assigned and run by nobody.
* After such an error it replaces the HTTP client by one that knows neither our CA nor our time-outs. So it is given one
  that sends once, and whose errors it does not know.
* Its models turn an answer with a field they dislike into ``None``, which would look like an empty queue. So answers
  are read as plain JSON; only what we send is one of its models.
* A 404 to its request for a token makes it forget key and secret for good: it takes the server for an open one. But a
  proxy says 404 as well, while the server behind it starts. So it is given them anew for each request.
* It sends text with its quotes and backslashes escaped, so lines of a task's log are sent past it.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from attrs import Attribute, define, field, frozen
from conductor.client.configuration import configuration  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from conductor.client.http import api_client, models  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from conductor.client.http.api import metadata_resource_api, task_resource_api, workflow_resource_api  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_http.pool import Pool
from perago_http.reading import kind_of
from perago_http.secrets import refuse_clear_text

Json: TypeAlias = Any

#: The library, as far as it is used. It has no types.
_library: Any = api_client
_configuration: Any = configuration
_models: Any = models
_metadata: Any = metadata_resource_api
_tasks: Any = task_resource_api
_workflows: Any = workflow_resource_api
_ApiError: type[Exception] = _library.rest.ApiException
_LockedOut: type[Exception] = _library.rest.AuthorizationException

_SUCCESS = range(200, 300)
#: What Conductor says of what it has done.
_DOCUMENTED = (200, 204)
#: What it writes: documents, and a task's id as plain text.
_KINDS = ("application/json", "text/plain")
_GONE = 404
_LOCKED_OUT = (401, 403)
_AMBIGUOUS = (408, 429)
_REFUSED = range(400, 500)
#: What the web server below Conductor says when nobody serves that address: a wrong URL, not a task that is gone.
_NO_SUCH_ADDRESS = "No static resource"


def _names_nobody(_access: object, _attribute: Attribute[str], url: str) -> None:
    """Refuse an address with a password in it: addresses are logged, and are part of reasons."""
    if "@" in url or "?" in url:
        message = (
            f"expected an address such as https://host/api, found more than that around "
            f"{url.partition('?')[0].rpartition('@')[2]!r}: give who you are apart from it, as key and secret"
        )
        raise ValueError(message)


@frozen
class Access:
    """Where the server is and how to be let in.

    ``timeout``: seconds for a whole answer, beyond what a long poll waits. ``insecure``: key and secret may cross the
    network in clear text.
    """

    url: str = field(validator=_names_nobody)
    key: str = ""
    secret: str = field(default="", repr=False)
    ca: Path | None = None
    timeout: float = 10.0
    insecure: bool = False

    def __attrs_post_init__(self) -> None:
        if self.key and not self.insecure:
            refuse_clear_text(self.url, "key and secret", "orchestrator.insecure")

    @property
    def api(self) -> str:
        """Return the address of the API: what was configured, or ``/api`` below it if that is a bare server."""
        url = self.url.rstrip("/")
        return url if urlsplit(url).path else f"{url}/api"


@frozen(repr=False)
class Gone(NotDone):
    """Conductor knows no task or workflow of that id."""


@frozen(repr=False)
class Unreachable(NotDone):
    """Nobody listens there now, so nothing was sent."""


class Transport:
    """One server, one HTTP client; threads may share it. ``tasks``, ``workflows``, ``metadata``: what can be asked."""

    def __init__(self, access: Access) -> None:
        self._http = SendOnce(access.ca, access.timeout)
        self._timeout = access.timeout
        self._url = access.api
        settings: Any = _configuration.Configuration(server_api_url=access.api)
        # Else an environment variable of that name would decide, whatever our own settings say.
        self._credentials: Any = (
            _configuration.AuthenticationSettings(key_id=access.key, key_secret=access.secret) if access.key else None
        )
        settings.authentication_settings = self._credentials
        settings.http_connection = self._http
        self._api: Any = _library.ApiClient(settings)
        plain = _PlainAnswers(self._api)
        self.tasks: Any = _tasks.TaskResourceApi(plain)
        self.workflows: Any = _workflows.WorkflowResourceApi(plain)
        self.metadata: Any = _metadata.MetadataResourceApi(plain)
        self._plain = plain

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(
        self, call: Callable[..., Json], *given: object, wait: float = 0.0, within: float = inf, **named: object
    ) -> Answer[Json]:
        """Send one request, once: a method of ``tasks``, ``workflows`` or ``metadata`` with its arguments.

        ``wait``: seconds the server may take its time for. ``within``: seconds for an answer, if fewer than configured.
        """
        timeout = min(self._timeout, within) + wait
        try:
            return Done(self._call(lambda: call(*given, **named, _request_timeout=timeout)))
        except NeverSent as problem:
            return Unreachable(f"{self._url} could not be reached: {problem}")
        except Unanswered as problem:
            return Unknown(f"{self._url} did not answer: {problem}")
        except HttpError as refused:
            return self._judge(refused)

    def get(self, path: str, *, query: Mapping[str, str | int] | None = None, _request_timeout: float) -> Json:
        """Ask for what the library has no method for; to be given to ``ask``."""
        return self._plain.call_api(
            path, "GET", {}, list((query or {}).items()), {"Accept": "*/*"}, _request_timeout=_request_timeout
        )

    def log(self, task_id: str, line: str) -> None:
        """Append a line to a task's log; raises whatever is in the way."""
        token: Any = self._api.get_authentication_headers()
        headers: dict[str, str] = {"Content-Type": "text/plain; charset=utf-8", **(token or {"header": {}})["header"]}
        body = line.encode("utf-8", "backslashreplace")
        url = f"{self._url}/tasks/{quote(task_id, safe='')}/log"
        response = self._http.request("POST", url, content=body, headers=headers)
        if response.status_code not in _SUCCESS:
            raise HttpError(response.status_code, response.text[:200])

    def _call(self, send: Callable[[], Json]) -> Json:
        """Send, and once more with a new token where the server did not know the one we had."""
        try:
            self._api.configuration.authentication_settings = self._credentials
            return send()
        except _LockedOut as problem:
            # Refused before anything happened. The library renews a token it knows to be old; one that could not be
            # had when we started, because the server was away, it would never ask for again.
            if not self._api.force_refresh_auth_token():
                raise _what_happened(problem) from None
        except _ApiError as problem:
            raise _what_happened(problem) from None
        try:
            self._api.configuration.authentication_settings = self._credentials
            return send()
        except _ApiError as problem:
            raise _what_happened(problem) from None

    def _judge(self, refused: HttpError) -> Answer[Json]:
        reason = f"{self._url} answered {refused.status}: {refused.message}"
        if refused.status in _AMBIGUOUS or refused.status not in _REFUSED:
            return Unknown(reason)
        if refused.status in _LOCKED_OUT:
            return NotDone(f"{reason}; check orchestrator.key and orchestrator.secret")
        if refused.status != _GONE:
            return NotDone(reason)
        if _is_conductors(refused.body) and not refused.message.startswith(_NO_SUCH_ADDRESS):
            return Gone(reason)
        return Unknown(f"{reason}; check orchestrator.url, which usually ends in /api, and any proxy before the server")


@define
class _PlainAnswers:
    """The library's client as its generated classes see it: what they ask for is sent, and its answer left as JSON."""

    api: Any

    def call_api(self, path: str, method: str, *given: object, **named: object) -> Json:
        """Send a request; whatever model a generated class names for the answer, give plain JSON."""
        named.update(response_type="object", _return_http_data_only=True)
        return self.api.call_api(path, method, *given, **named)

    def select_header_accept(self, accepts: list[str]) -> str:
        """Let the library say what is accepted."""
        return str(self.api.select_header_accept(accepts))

    def select_header_content_type(self, types: list[str]) -> str:
        """Let the library say what is sent."""
        return str(self.api.select_header_content_type(types))


def _is_conductors(body: str) -> bool:
    """Return whether this is Conductor's error document.

    Whatever stands before it (an ingress, a gateway) says 404 as well, of any address, while Conductor is away. Taken
    for Conductor's, it would have every worker kill every body.
    """
    try:
        document: Json = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "retryable" in document


def task_result(
    workflow_id: str,
    task_id: str,
    worker_id: str,
    status: str,
    *,
    output: Mapping[str, Json] | None = None,
    reason: str | None = None,
    extend: bool = False,
) -> object:
    """Make the body of a result or a heartbeat."""
    return _models.TaskResult(
        workflow_instance_id=workflow_id,
        task_id=task_id,
        worker_id=worker_id,
        status=status,
        output_data=None if output is None else dict(output),
        reason_for_incompletion=reason,
        extend_lease=extend,
    )


@frozen
class HttpError(Exception):
    """Whoever answered, answered with something else than success. ``body``: what was written beside the status."""

    status: int
    message: str
    body: str = ""


class NeverSent(Exception):  # noqa: N818  what became of the request
    """No connection: the server has seen nothing of the request."""


class Unanswered(Exception):  # noqa: N818  as above
    """The request may have arrived; no answer did."""


@define
class Response:
    """What the library looks at in an answer."""

    status_code: int
    text: str
    headers: Mapping[str, str]
    reason_phrase: str = ""
    stream: object = None


class SendOnce:
    """The HTTP client we give the library: sends each request once, and raises errors that it does not know.

    The library's own, on httpx, sends a lost GET again, and a poll is a GET that assigns tasks (ADR 23).
    """

    def __init__(self, ca: Path | None, timeout: float) -> None:
        context = ssl.create_default_context(cafile=str(ca)) if ca is not None else None
        self._timeout = timeout
        self._pool = Pool(maxsize=64, ssl_context=context)

    def request(
        self,
        method: str,
        url: str,
        *,
        content: str | bytes | None = None,
        params: list[tuple[str, str]] | None = None,
        headers: Mapping[str, str | None] | None = None,
        timeout: object = None,
    ) -> Response:
        """Send, and read the whole answer; the library says how long to wait in an object of httpx, if at all.

        A header without a value is left out: the library's token, if it could not be renewed. The server then asks for
        one, and it is tried again.
        """
        body = content.encode() if isinstance(content, str) else content
        given = {name: value for name, value in (headers or {}).items() if value is not None}
        limit = urllib3.Timeout(connect=self._timeout, total=getattr(timeout, "read", None) or self._timeout)
        target = f"{url}?{urlencode(params)}" if params else url
        try:
            answer = self._pool.request(
                method, target, body=body, headers=given, timeout=limit, redirect=False, preload_content=True
            )
        except (NewConnectionError, ConnectTimeoutError, NameResolutionError) as problem:
            raise NeverSent(_reason(problem)) from None
        except HTTPError as problem:
            unsafe = "CERTIFICATE_VERIFY_FAILED" in str(problem)  # found before anything is sent
            raise (NeverSent if unsafe else Unanswered)(_reason(problem)) from None
        status, kind = answer.status, kind_of(answer.headers)
        if status in _SUCCESS and (status not in _DOCUMENTED or (answer.data and kind not in _KINDS)):
            raise Unanswered(
                f"status {status} with {kind or 'no type'} is no answer of Conductor; is a proxy before it?"
            )
        return Response(status, answer.data.decode("utf-8", "replace"), answer.headers, answer.reason or "")

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _reason(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _what_happened(problem: Any) -> Exception:  # noqa: ANN401  the library's, untyped
    """Return what really happened: the library wraps whatever its transport raises."""
    cause = problem.__context__
    if isinstance(cause, NeverSent | Unanswered):
        return cause
    if not problem.status:
        return Unanswered(str(problem.reason))
    return HttpError(
        int(problem.status), str(problem.message or problem.reason or "no reason given"), problem.body or ""
    )
