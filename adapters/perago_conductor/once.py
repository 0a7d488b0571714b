"""An HTTP client that sends each request once, and says of each that failed whether it can have arrived."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import urllib3
from attrs import define
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError


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


class Once:
    """The HTTP client we give the library: sends each request once, and raises errors that it does not know.

    On urllib3, which needs a third of the time that httpx, the library's own choice, spends on a request.
    """

    def __init__(self, ca: Path | None, timeout: float) -> None:
        context = ssl.create_default_context(cafile=str(ca)) if ca is not None else None
        self._timeout = timeout
        self._pool = urllib3.PoolManager(retries=False, maxsize=64, ssl_context=context)

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
            raise NeverSent(_words(problem)) from None
        except HTTPError as problem:
            unsafe = "CERTIFICATE_VERIFY_FAILED" in str(problem)  # found before anything is sent
            raise (NeverSent if unsafe else Unanswered)(_words(problem)) from None
        return Response(answer.status, answer.data.decode("utf-8", "replace"), answer.headers, answer.reason or "")

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _words(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
