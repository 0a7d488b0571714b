"""The untyped edge: Conductor's own client, tamed. Nothing else in this package imports it.

What it does by itself and must not do here:

* It sends a GET again after a lost answer. A poll *is* a GET: the first batch would be assigned and run by nobody.
* After such an error it replaces the transport by one that knows neither our CA nor our time-outs.
* Its models turn an answer with a field they dislike into ``None``, which would look like an empty queue. So answers
  are read as plain JSON; only what we send is one of its models.
* A 404 to its request for a token makes it forget key and secret for good: it takes the server for an open one. But a
  proxy says 404 as well, while the server behind it starts. So it is given them anew for each request.

It keeps authentication: a token for key and secret, renewed before it ends or when the server no longer knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from conductor.client.configuration import configuration  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from conductor.client.http import api_client, models  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from perago_conductor.once import NeverSent, Once, Unanswered

Json: TypeAlias = Any

#: The library, as far as it is used. It has no types.
_library: Any = api_client
_configuration: Any = configuration
_models: Any = models
_ApiError: type[Exception] = _library.rest.ApiException
_LockedOut: type[Exception] = _library.rest.AuthorizationException

_SUCCESS = range(200, 300)


def _names_nobody(_access: object, _attribute: Attribute[str], url: str) -> None:
    """Refuse an address with a password in it: addresses are logged, and are part of reasons."""
    if "@" in url:
        message = (
            f"expected an address such as https://host/api, found something before {url.rpartition('@')[2]!r}: "
            "give who you are apart from it, as key and secret"
        )
        raise ValueError(message)


@frozen
class Access:
    """Where the server is and how to be let in. ``timeout``: seconds for an answer, beyond what a long poll waits."""

    url: str = field(validator=_names_nobody)
    key: str = ""
    secret: str = field(default="", repr=False)
    ca: Path | None = None
    timeout: float = 10.0

    @property
    def api(self) -> str:
        """Give the address of the API: what was configured, or ``/api`` below it if that is a bare server."""
        url = self.url.rstrip("/")
        return url if urlsplit(url).path else f"{url}/api"


@frozen
class Request:
    """What to ask. ``places`` fill the braces of the path; ``wait``: seconds the server may take its time for.

    ``within``: seconds for an answer, if fewer than for any other.
    """

    method: str
    path: str
    places: Mapping[str, str] = field(factory=dict[str, str])
    query: Mapping[str, str | int] = field(factory=dict[str, "str | int"])
    body: object = None
    wait: float = 0.0
    within: float = inf


@frozen
class Refused(Exception):  # noqa: N818  as above
    """Whoever answered, answered with something else than success. ``body``: in which words."""

    status: int
    message: str
    body: str = ""


class Sdk:
    """One server, one HTTP client. Threads may share it."""

    def __init__(self, access: Access) -> None:
        self._http = Once(access.ca, access.timeout)
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

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, request: Request) -> Json:
        """Send a request and give the answer; raises ``Refused``, ``NeverSent`` or ``Unanswered``."""
        try:
            return self._call(request)
        except _LockedOut as problem:
            # Refused before anything happened. The library renews a token it knows to be old; one that could not be
            # had when we started, because the server was away, it would never ask for again.
            if not self._api.force_refresh_auth_token():
                raise _what_happened(problem) from None
        except _ApiError as problem:
            raise _what_happened(problem) from None
        try:
            return self._call(request)
        except _ApiError as problem:
            raise _what_happened(problem) from None

    def _call(self, request: Request) -> Json:
        self._api.configuration.authentication_settings = self._credentials
        return self._api.call_api(
            request.path,
            request.method,
            path_params=dict(request.places),
            query_params=list(request.query.items()),
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=request.body,
            response_type="object",
            _return_http_data_only=True,
            _request_timeout=min(self._timeout, request.within) + request.wait,
        )

    def send_text(self, path: str, text: str) -> None:
        """Post plain text. The library would send it with its quotes and backslashes escaped."""
        token: Any = self._api.get_authentication_headers()
        headers: dict[str, str] = {"Content-Type": "text/plain; charset=utf-8", **(token or {"header": {}})["header"]}
        body = text.encode("utf-8", "backslashreplace")
        response = self._http.request("POST", self._url + path, content=body, headers=headers)
        if response.status_code not in _SUCCESS:
            raise Refused(response.status_code, response.text[:200])


def update(
    workflow_id: str,
    task_id: str,
    worker_id: str,
    status: str,
    *,
    output: Mapping[str, Json] | None = None,
    reason: str | None = None,
    extend: bool = False,
) -> object:
    """Make the body of an update."""
    return _models.TaskResult(
        workflow_instance_id=workflow_id,
        task_id=task_id,
        worker_id=worker_id,
        status=status,
        output_data=None if output is None else dict(output),
        reason_for_incompletion=reason,
        extend_lease=extend,
    )


def _what_happened(problem: Any) -> Exception:  # noqa: ANN401  the library's, untyped
    """Give what really happened: the library wraps whatever its transport raises."""
    cause = problem.__context__
    if isinstance(cause, NeverSent | Unanswered):
        return cause
    if not problem.status:
        return Unanswered(str(problem.reason))
    return Refused(int(problem.status), str(problem.message or problem.reason or "no reason given"), problem.body or "")
