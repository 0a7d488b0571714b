"""What each status of lakeFS means: done, not done or unknown. No other module compares a status or a message.

==========================================  ==========  ==============================================================
what happened                               answer      why
==========================================  ==========  ==============================================================
no connection                               not done    nothing was sent
4xx but 408 and 499, 501                    not done    refused: no such thing (404), a name that exists or a conflict
                                                        (409, which may come without a body), a hook (412), a branch
                                                        that others kept changing (423 before 1.64.1, 429 since)
500 with ``predicate failed``               not done    the step that lost the race is not repeated, and did nothing
499, 408                                    unknown     lakeFS says so also when it did what it was asked
3xx, or 2xx that lakeFS does not document   unknown     not lakeFS's; whoever redirects, or shows a page with 200, may
                                                        have passed the request on. Counterexample: a login page in
                                                        place of 204 was taken for a name dropped, and it stood
any other 5xx                               unknown     it may have failed after it had done it
time-out, lost connection, broken answer    unknown     a timed-out merge or reset has usually landed
==========================================  ==========  ==============================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import urllib3
from lakefs_sdk.exceptions import ApiException, OpenApiException
from pydantic.v1 import ValidationError

from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown, UnknownError
from perago_http.reading import kind_of

T = TypeVar("T")

#: Says nothing of what was done.
_AMBIGUOUS = (HTTPStatus.REQUEST_TIMEOUT, 499)
#: Changes that answer 204, as every deletion does: a commit record, a reset.
_SILENT = re.compile(r".*/repositories/[^/]+/(commits|branches/[^/]+/hard_reset)")
_BRANCHES = re.compile(r".*/repositories/[^/]+/branches")
_OBJECT = re.compile(r".*/repositories/[^/]+/refs/[^/]+/objects")
_COMMIT_ID = re.compile(rb'"?[0-9a-f]{64}"?')
_JSON = "application/json"
#: All that lakeFS writes beside an error.
_ERROR = {"message", "request_id"}
_LOST_THE_RACE = "predicate failed"
#: Answers to a read, or to an upload, that pass: a branch that others change, a server that is busy, restarting or
#: behind a gateway.
_PASSING = frozenset({408, 423, 429, 499, 500, 502, 503, 504})


class HttpError(Exception):
    """An answer other than the one hoped for."""

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.body = _text(body)
        super().__init__(f"HTTP {status}: {message_of(self.body) or 'no explanation'}")


#: Whatever a request may raise. Only this module takes these apart.
#: The last four: an answer that is not what the SDK's model of it says, not JSON, nested without end, or not UTF-8, as
#: which the SDK decodes what is written beside an error.
Problem = (
    HttpError,
    OpenApiException,
    urllib3.exceptions.HTTPError,
    OSError,
    ValidationError,
    json.JSONDecodeError,
    RecursionError,
    UnicodeDecodeError,
)


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
    except NotDoneError as no:
        return NotDone(str(no), requests.sent)
    except UnknownError as unsure:
        return Unknown(str(unsure), requests.sent)
    except Problem as problem:
        kind = NotDone if was_refused(problem) else Unknown
        return kind(described(problem), requests.sent)
    return Done(value, requests.sent)


def was_refused(problem: Exception) -> bool:
    """Return whether this proves that the request did nothing."""
    status = status_of(problem)
    if status is None:
        return isinstance(
            _cause(problem), urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError
        )
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return status >= HTTPStatus.BAD_REQUEST and status not in _AMBIGUOUS
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _LOST_THE_RACE in _own_words(problem)
    return status == HTTPStatus.NOT_IMPLEMENTED


def is_passing(problem: Exception) -> bool:
    """Return whether the same request may be answered better in a moment."""
    status = status_of(problem)
    return status is None or status in _PASSING


def is_missing(problem: Exception) -> bool:
    """Whether lakeFS itself said that there is no such thing; a gateway that finds no lakeFS says 404 as well."""
    return status_of(problem) == HTTPStatus.NOT_FOUND and _message(body_of(problem)) is not None


def is_conflict(problem: Exception) -> bool:
    """Return whether the name exists already, or both sides of a merge changed the same object."""
    return status_of(problem) == HTTPStatus.CONFLICT


def is_forbidden(problem: Exception) -> bool:
    """Return whether the branch is protected, or we lack the permission."""
    return status_of(problem) == HTTPStatus.FORBIDDEN


def is_refused_by_hook(problem: Exception) -> bool:
    """Return whether some hook of the repository refused a merge or a commit."""
    return status_of(problem) == HTTPStatus.PRECONDITION_FAILED


def is_without_changes(problem: Exception) -> bool:
    """Return whether a commit or a merge had nothing to do."""
    return status_of(problem) == HTTPStatus.BAD_REQUEST and "no changes" in _own_words(problem)


def is_dirty(problem: Exception) -> bool:
    """Return whether a merge met uncommitted objects."""
    return status_of(problem) == HTTPStatus.BAD_REQUEST and "dirty branch" in _own_words(problem)


def status_of(problem: Exception) -> int | None:
    """Return the status lakeFS answered; ``None``: there was no answer."""
    if isinstance(problem, HttpError):
        return problem.status
    if isinstance(problem, ApiException):
        return cast("int", problem.status) or None  # 0 where TLS broke
    return None


def body_of(problem: Exception) -> str:
    """Return what lakeFS wrote beside the status; it may be nothing."""
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
    return f"lakeFS answered {status}: {message_of(body_of(problem)) or 'without an explanation'}"


def message_of(body: str) -> str:
    """Return the message inside a body of lakeFS, in one line."""
    message = _message(body)
    return " ".join((body if message is None else message).split())


def checked(response: urllib3.BaseHTTPResponse, *wanted: int) -> urllib3.BaseHTTPResponse:
    """Give back the answer to a raw request if its status is one of these, or raise what it says went wrong."""
    if response.status not in wanted:
        raise HttpError(response.status, response.data)
    return response


def document_of(response: urllib3.BaseHTTPResponse) -> Any:  # noqa: ANN401  any JSON
    """Read the document of an answer to a raw request, which says that it is one."""
    if kind_of(response.headers) != _JSON:
        raise HttpError(response.status, f"not an answer of lakeFS: {kind_of(response.headers) or 'no type'}")
    try:
        return json.loads(response.data)
    except (ValueError, RecursionError) as surprise:
        raise UnknownError(f"expected a document of lakeFS; found none: {str(surprise)[:200]}") from None


def documented(method: str, url: str, response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """Give back an answer of lakeFS to a request of the SDK, which takes any 2xx for what it asked for.

    What has nothing to say is 204 and empty, an object is bytes, a new branch is a commit's id in plain text, whatever
    type it claims, and everything else is JSON.
    """
    status, path, kind = response.status, urlsplit(url).path, kind_of(response.headers)
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        if response.data and kind != _JSON:  # in somebody else's words, "no changes" says nothing of lakeFS
            raise HttpError(status, f"not an answer of lakeFS to {method} {path}: {kind or 'no type'}")
        return response
    if method == "DELETE" or _SILENT.fullmatch(path):
        fits = status == HTTPStatus.NO_CONTENT and not response.data
    elif _OBJECT.fullmatch(path):
        fits = status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT) and kind != "text/html"
    elif method == "POST" and _BRANCHES.fullmatch(path):
        fits = status == HTTPStatus.CREATED and _COMMIT_ID.fullmatch(response.data.strip()) is not None
    else:
        fits = status in (HTTPStatus.OK, HTTPStatus.CREATED) and kind == _JSON
    if not fits:
        raise HttpError(status, f"not an answer of lakeFS to {method} {path}: {kind or 'no type'}")
    return response


def _message(body: str) -> str | None:
    """Return the message of a body that is lakeFS's own; ``None``: somebody else wrote it."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found.keys() <= _ERROR:  # pyright: ignore[reportUnknownMemberType]
        return None  # a commit has a message as well
    message = cast("dict[str, Any]", found).get("message")
    return None if message is None else str(message)


def _own_words(problem: Exception) -> str:
    """Return what lakeFS itself wrote beside the status, whole; of anything else, nothing."""
    return _message(body_of(problem)) or ""


def _text(body: object) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")


def _cause(problem: Exception) -> BaseException:
    """Look below the wrapping that a client without retries still puts around what happened."""
    if isinstance(problem, urllib3.exceptions.MaxRetryError) and problem.reason is not None:
        return problem.reason
    return problem
