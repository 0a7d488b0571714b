"""Reading objects of one commit or branch: listings, and streams that are resumed after a lost connection."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError

from perago_core.answers import NotDoneError
from perago_core.ports import Stored
from perago_http.pool import restart
from perago_lakefs.answers import Problem, described
from perago_lakefs.client import Client
from perago_lakefs.objects.keys import is_hidden, readable
from perago_lakefs.objects.transfer import LARGE, Transfer

#: How often reading is resumed at one byte after the connection was lost.
_RESUMES: Final = 5
_PIECE: Final = 1 << 17
_PARTIAL: Final = 206


def listed(client: Client, repository: str, ref: str, prefix: str) -> tuple[Stored, ...]:
    """List everything under a prefix but what belongs to the server, in the order of the keys' bytes."""
    return tuple(each for each in client.objects(repository, ref, readable(prefix)) if not is_hidden(each.path))


def opened(client: Client, repository: str, ref: str, path: str) -> BinaryIO:
    """Open one object. A large one comes from where it is stored, if the server can sign addresses for it."""
    transfer, query = Transfer(client), {"path": readable(path)}
    place = f"/repositories/{quote(repository, safe='')}/refs/{quote(ref, safe='')}/objects"
    first = transfer.open(place, query, {})
    if int(first.headers.get("Content-Length", 0)) < LARGE or not client.storage().signs:
        return _stream(first, lambda position: transfer.open(place, query, _from(position)))
    first.close()

    def signed(position: int) -> urllib3.BaseHTTPResponse:
        """Ask for an address each time: it expires."""
        return transfer.open_at(transfer.signed(place, query), _from(position) if position else {})

    return _stream(signed(0), signed)


def _length(response: urllib3.BaseHTTPResponse) -> int | None:
    """Return where an object ends, if it is said: then nobody asks for a piece behind it."""
    said = None if "Content-Encoding" in response.headers else response.headers.get("Content-Length")
    return None if said is None else int(said)


def _from(position: int) -> dict[str, str]:
    return {"Range": f"bytes={position}-"}


def _stream(first: urllib3.BaseHTTPResponse, again: Callable[[int], urllib3.BaseHTTPResponse]) -> BinaryIO:
    return cast("BinaryIO", _Stream(first, again))  # a buffer in between would copy every byte twice more


class _Stream(io.RawIOBase):
    """One object as a file. Where its connection is lost it is resumed at the next byte: a commit never changes."""

    def __init__(self, first: urllib3.BaseHTTPResponse, again: Callable[[int], urllib3.BaseHTTPResponse]) -> None:
        super().__init__()
        self._response = first
        self._again = again
        self._position = 0
        self._end = _length(first)
        self._resumes = _RESUMES

    def readable(self) -> bool:
        """Always true: it can be read."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read so many bytes, or fewer at the end; what cannot be mended is an ``OSError``, as of any other file."""
        pieces: list[bytes] = []
        left = sys.maxsize if size < 0 else size
        while left and self._position != self._end and (piece := self._piece(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401  whatever can be written to
        """Read into a buffer, for whoever wraps this."""
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Return the connection back if everything was read, and end it if not."""
        if not self.closed:
            self._response.close()
        super().close()

    def _piece(self, size: int) -> bytes:
        """Read a little: of a piece that does not arrive whole, urllib3 gives nothing at all."""
        while True:
            try:
                restart(self._response)  # each piece has the whole time-out, and no byte of it has one of its own
                piece = self._response.read(size)
            except HTTPError as problem:
                self._resume(problem)
            else:
                self._position += len(piece)
                self._resumes = _RESUMES
                return piece

    def _resume(self, lost: HTTPError) -> None:
        self._response.close()
        if not self._resumes:
            raise OSError(f"the connection was lost {_RESUMES + 1} times at byte {self._position}: {lost}")
        self._resumes -= 1
        try:
            self._response = self._again(self._position)
        except (NotDoneError, *Problem) as problem:
            raise OSError(f"cannot resume at byte {self._position}: {described(problem)}") from None
        if self._position and self._response.status != _PARTIAL:
            raise OSError(f"asked for the bytes from {self._position} on, and the server sent all of them")
