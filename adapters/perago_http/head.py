"""The head of an answer, read in one go where it is as nearly every head is; any other is the standard library's.

Its parser is made for mail: most of what the processor does for a small object that is read from a server went into it.
A head is plain if it has arrived whole, each of its lines is a name and a value, and it says in one way only where the
body ends. Of such a head both understand the same, which a test holds them to.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from http.client import HTTPMessage
from typing import Final

from attrs import frozen

#: Bytes of a head that is read in one go.
LONGEST: Final = 8192
#: Lines that the standard library takes, the empty one among them.
_LINES: Final = 100
_HEAD = re.compile(rb"HTTP/1\.1 ([2-5]\d\d)(?: ([\t -~]*))?\r\n((?:[!#-'*+\-.0-9A-Z^-z|~]+:[\t -~]*\r\n)*)\r\n")
_LINE = re.compile(r"([^:]+):[ \t]*([^\r]*)\r\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
#: Of these types a parser of mail looks into the body.
_MAIL = ("multipart/", "message/")


class _Headers(HTTPMessage):
    """Lines that are text: there is nothing in them to be decoded, which mail looks for whenever they are asked for."""

    def items(self) -> list[tuple[str, str]]:
        """Give all lines, in their order."""
        return list(self.raw_items())


@frozen
class Head:
    """Status and headers. ``length``: bytes of the body; ``None``: it comes in chunks, the last of which ends it."""

    size: int
    status: int
    reason: str
    headers: HTTPMessage
    length: int | None


def plain(arrived: bytes) -> Head | None:
    """Read the head that these bytes begin with; ``None`` if it is not plain, or not all of it is here."""
    found = _HEAD.match(arrived)
    if found is None:
        return None
    lines = _LINE.findall(found[3].decode("ascii"))
    said = {name.lower(): value for name, value in lines}
    if len(said) != len(lines) or len(lines) >= _LINES:
        return None
    if "close" in said.get("connection", "").lower() or said.get("content-type", "").lower().startswith(_MAIL):
        return None
    status, length, coding = int(found[1]), said.get("content-length"), said.get("transfer-encoding")
    if status == HTTPStatus.NO_CONTENT and length is None and coding is None:
        length = "0"
    elif status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return None
    in_chunks = length is None and coding is not None and coding.lower() == "chunked"
    if not in_chunks and (coding is not None or length is None or not _LENGTH.fullmatch(length)):
        return None
    headers = _Headers()
    for name, value in lines:
        headers.set_raw(name, value)
    reason = (found[2] or b"").decode("ascii").strip()
    return Head(found.end(), status, reason, headers, None if length is None else int(length))
