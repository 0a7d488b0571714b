"""What a bucket's answers must be before they count: the client that is used believes more than is documented.

Seen by experiment: it takes every status of 200 to 299 for done, follows a 303 with a GET and takes the tag of the page
it finds there for the tag of what was to be stored, takes every 404 for a missing object, be it a proxy's, and every
well-formed document for a listing without objects. None of its answers says which status came. So what it says is
compared with something only a bucket can know.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import contextmanager
from html import unescape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

#: An object that is read whole is a record, a commit, a claim, a range or a value. None of them is ever so large.
LARGEST = 128 << 20
#: By what S3, Azure and Google say that there is no such object; that there is no such bucket says nothing of it.
_ABSENT = ("NoSuchKey", "BlobNotFound")
#: How the client tells of an answer of a server. One without is of objects in memory.
_ANSWERED = "Server returned"
_ASKED = re.compile(r"Object at location (.*?) not found")
_NAMED = re.compile(r"<Key>(.*?)</Key>")


def says_absent(error: FileNotFoundError) -> bool:
    """Return whether the bucket itself said that there is no such object, and not a page in its place.

    Where it names the object, as S3 does, it must be the one that was asked for: reads are led elsewhere too.
    """
    said = str(error)
    if _ANSWERED not in said:
        return True
    named, asked = _NAMED.search(said), _ASKED.search(said)
    meant = named is None or asked is None or unescape(named[1]) == asked[1]
    return meant and "</Error>" in said and any(f"<Code>{code}</Code>" in said for code in _ABSENT)


@contextmanager
def absent_is_said() -> Generator[None]:
    """Let only a bucket's own words for a missing object be a missing object; anything else is no answer."""
    try:
        yield
    except FileNotFoundError as error:
        if says_absent(error):
            raise
        message = f"expected the bucket's word that there is no such object, found another answer: {_line(error)}"
        raise OSError(message) from error


def tag_of(tag: str | None, key: str) -> str:
    """Return the tag of an object. Without one every later change of it would be without a condition."""
    if not tag:
        message = f"expected {key} with an entity tag, found none: something between here and the bucket removes it"
        raise OSError(message)
    return tag


def shows_content(tag: str, version: str | None, data: object) -> bool:
    """Return whether only who has stored these bytes can have answered so.

    On S3 a tag is the MD5 of the bytes as a rule; Azure has tags of a form of its own, Google names a generation.
    """
    bare = tag.strip('"')
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest() if isinstance(data, bytes) else ""
    return bare == digest or bare.startswith("0x") or version is not None


def whole(parts: Iterable[Any], key: str) -> bytes:
    """Take all parts of an object, as long as they are not too many."""
    taken = bytearray()
    for part in parts:
        taken += part
        if len(taken) > LARGEST:
            message = f"expected {key} with at most {LARGEST >> 20} MiB, found more: nothing of ours is so large"
            raise OSError(message)
    return bytes(taken)


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
