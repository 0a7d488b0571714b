"""One request to Conductor and its answer: done, not done, or unknown.

======================================  ==========  =============================================================
what happened                           answer      why
======================================  ==========  =============================================================
no connection                           not done    nothing was sent (``Unreachable``)
404 in Conductor's words                not done    what was asked for is gone (``Gone``)
any other 404                           unknown     a proxy's, or about the address; it says nothing of the task
other 4xx                               not done    Conductor refused it; 401 and 403 say what to check
408, 429, 5xx, a lost connection        unknown     it may have been applied, now or in a moment
======================================  ==========  =============================================================

A success says little: Conductor answers 200 to results and heartbeats that it ignores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf

from attrs import frozen

from perago_conductor.once import NeverSent, Unanswered
from perago_conductor.sdk import Access, Json, Refused, Request, Sdk
from perago_core.answers import Answer, Done, NotDone, Unknown

_GONE = 404
_LOCKED_OUT = (401, 403)
_AMBIGUOUS = (408, 429)
_SERVER_ERROR = 500
#: What the web server below Conductor says when nobody serves that address: a wrong URL, not a task that is gone.
_NO_SUCH_ADDRESS = "No static resource"


@frozen(repr=False)
class Gone(NotDone):
    """Conductor knows no task or workflow of that id."""


@frozen(repr=False)
class Unreachable(NotDone):
    """Nobody listens there now, so nothing was sent."""


class Connection:
    """The one way to the server; threads may share it."""

    def __init__(self, access: Access) -> None:
        self._url = access.api
        self._sdk = Sdk(access)

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    def ask(
        self,
        method: str,
        path: str,
        places: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        body: object = None,
        wait: float = 0.0,
        within: float = inf,
    ) -> Answer[Json]:
        """Send one request, once. ``places`` fill the braces of the path; ``wait``: seconds the server may think.

        ``within``: seconds for an answer, if fewer than were configured.
        """
        try:
            return Done(self._sdk.call(Request(method, path, places or {}, query or {}, body, wait, within)))
        except NeverSent as problem:
            return Unreachable(f"{self._url} could not be reached: {problem}")
        except Unanswered as problem:
            return Unknown(f"{self._url} did not answer: {problem}")
        except Refused as refused:
            return self._judge(refused)

    def log(self, task_id: str, line: str) -> None:
        """Append a line to a task's log; raises whatever is in the way."""
        self._sdk.send_text(f"/tasks/{task_id}/log", line)

    def _judge(self, refused: Refused) -> Answer[Json]:
        reason = f"{self._url} answered {refused.status}: {refused.message}"
        if refused.status in _AMBIGUOUS or refused.status >= _SERVER_ERROR:
            return Unknown(reason)
        if refused.status in _LOCKED_OUT:
            return NotDone(f"{reason}; check orchestrator.key and orchestrator.secret")
        if refused.status != _GONE:
            return NotDone(reason)
        if _is_conductors(refused.body) and not refused.message.startswith(_NO_SUCH_ADDRESS):
            return Gone(reason)
        return Unknown(f"{reason}; check orchestrator.url, which usually ends in /api, and any proxy before the server")


def _is_conductors(body: str) -> bool:
    """Say whether this is Conductor's error document.

    Whatever stands before it (an ingress, a gateway) says 404 as well, of any address, while Conductor is away. Taken
    for Conductor's, it would have every worker kill every body.
    """
    try:
        document: Json = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and "retryable" in document
