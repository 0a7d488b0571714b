"""From what lakeFS said, or did not say, to an answer. The only place that knows what a status means.

==========================================  ==========  ==============================================================
what happened                               answer      why
==========================================  ==========  ==============================================================
no connection                               not done    nothing was sent
4xx but 408 and 499, 501                    not done    refused: no such thing (404), a name that exists or a conflict
                                                        (409, which may come without a body), a hook (412), a branch
                                                        that others kept changing (423 before 1.64.1, 429 since)
500 with ``predicate failed``               not done    the step that lost the race is not repeated, and did nothing
499, 408                                    unknown     lakeFS says so also when it did what it was asked
any other 5xx                               unknown     it may have failed after it had done it
time-out, lost connection, broken answer    unknown     a timed-out merge or reset has usually landed
==========================================  ==========  ==============================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import urllib3
from lakefs_sdk.exceptions import ApiException, OpenApiException
from pydantic.v1 import ValidationError

from perago_core.answers import Answer, Done, NotDone, Unknown

T = TypeVar("T")

#: Says nothing of what was done. The SDK gives 0 where TLS broke.
_SAYS_NOTHING = (0, 408, 499)
_SERVER = 500
_NOT_IMPLEMENTED = 501
_LOST_THE_RACE = "predicate failed"
_ERROR = 400
_NOT_FOUND = 404


class Refused(Exception):  # noqa: N818  it names an answer, not a mistake
    """We say no before lakeFS is asked, or lakeFS said no in its own words; nothing has happened."""


class Uncertain(Exception):  # noqa: N818  it names an answer, not a mistake
    """Something may have happened, and nobody can say."""


class HttpError(Exception):
    """An answer other than the one hoped for."""

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.body = _text(body)
        super().__init__(f"HTTP {status}: {words(self.body) or 'no explanation'}")


#: Whatever a request may raise. Only this module takes these apart.
Problem = (HttpError, OpenApiException, urllib3.exceptions.HTTPError, ValidationError, json.JSONDecodeError, OSError)


class Counted(Protocol):
    """Whoever sends the requests of one call, and counts them."""

    @property
    def sent(self) -> int:
        """Say how many requests were sent so far."""
        ...


def answer(requests: Counted, work: Callable[[], T]) -> Answer[T]:
    """Do the work and say what became of it, and how many requests it took."""
    try:
        value = work()
    except Refused as no:
        return NotDone(str(no), requests.sent)
    except Uncertain as unsure:
        return Unknown(str(unsure), requests.sent)
    except Problem as problem:
        kind = NotDone if was_refused(problem) else Unknown
        return kind(described(problem), requests.sent)
    return Done(value, requests.sent)


def was_refused(problem: Exception) -> bool:
    """Say whether this proves that the request did nothing."""
    status = status_of(problem)
    if status is None:
        return isinstance(
            _cause(problem), urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError
        )
    if status < _SERVER:
        return status not in _SAYS_NOTHING
    return status == _NOT_IMPLEMENTED or (status == _SERVER and _LOST_THE_RACE in body_of(problem))


def is_missing(problem: Exception) -> bool:
    """Say whether lakeFS itself said that there is no such thing; a gateway that finds no lakeFS says 404 as well."""
    return status_of(problem) == _NOT_FOUND and _message(body_of(problem)) is not None


def status_of(problem: Exception) -> int | None:
    """Give the status lakeFS answered; ``None``: there was no answer."""
    if isinstance(problem, HttpError):
        return problem.status
    if isinstance(problem, ApiException):
        return cast("int", problem.status)
    return None


def body_of(problem: Exception) -> str:
    """Give what lakeFS wrote beside the status; it may be nothing."""
    if isinstance(problem, HttpError):
        return problem.body
    if isinstance(problem, ApiException):
        return _text(cast("Any", problem).body)
    return ""


def described(problem: Exception) -> str:
    """Say what went wrong in one line."""
    status = status_of(problem)
    if status is None:
        cause = _cause(problem)
        return f"no answer from lakeFS: {type(cause).__name__}: {' '.join(str(cause).split())}"
    return f"lakeFS answered {status}: {words(body_of(problem)) or 'without an explanation'}"


def words(body: str) -> str:
    """Give the message inside a body of lakeFS, in one line."""
    message = _message(body)
    return " ".join((body if message is None else message).split())


def checked(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """Give back the answer to a raw request, or raise what it says went wrong."""
    if response.status >= _ERROR:
        raise HttpError(response.status, response.data)
    return response


def _message(body: str) -> str | None:
    """Give the message of a body that is lakeFS's own; ``None``: somebody else wrote it."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return None
    message = cast("dict[str, Any]", found).get("message") if isinstance(found, dict) else None
    return None if message is None else str(message)


def _text(body: object) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")


def _cause(problem: Exception) -> BaseException:
    """Look below the wrapping that a client without retries still puts around what happened."""
    if isinstance(problem, urllib3.exceptions.MaxRetryError) and problem.reason is not None:
        return problem.reason
    return problem
