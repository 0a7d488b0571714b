"""A grammar of wrong answers: what a proxy, a login page, a dying server or an enemy sends in place of the right one.

Each is made from the right answer to the same request, so that it is wrong in one way only. None of them may be taken
for done. One kind is a special case: where a *field* is wrong, whoever does not read that field may still be right.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from attrs import evolve, field, frozen

from perago_core.contract import is_list, is_object

_SILENT: Final = 204
#: Statuses no call of ours has for an answer: whoever says so has not done what was asked, or does not say.
_STATUSES: Final = (
    *(202, 203, 205, 206, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 399),
    *(400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 415, 418, 421, 423, 425, 426, 429, 431),
    *(451, 499, 500, 501, 502, 503, 504, 505, 507, 511, 520, 599, 999),
)
_KINDS: Final = ("text/html; charset=utf-8", "application/xml", "image/png", "multipart/mixed; boundary=x", "")
_BODIES: Final = (
    *(b"", b"null", b"[]", b"{}", b"7", b'"text"', b"true", b"-0.0", b"NaN", b"[null]", b"[[[]]]", b"{", b"]", b"\0"),
    b"<html><body>Sign in</body></html>",
    b'{"status": "UP"}',
    b'{"results": {"results": []}, "pagination": []}',
    b'{"header": 7}',
    b'{"error": {"code": "x"}}',
    b'{"error": [1]}',
    b'{"results": [{"id": "a',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"9" * 5000,
    b"\xff\xfe\x00\xd8",
    b'{"message": "\\ud800"}',
)
_INSTEAD: Final[tuple[Any, ...]] = (None, 7, -1, 1.5, True, "", "text", [], {}, [None], {"x": None}, 10**400, [[]])
#: How the bytes of an answer can be no answer at all.
_NOISE: Final = (
    b"",
    b"\r\n\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 abc OK\r\n\r\n",
    b"HTTP/1.1 99999 OK\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n\r\n",
    b"ICY 200 OK\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Type\r\n: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd",
    b"\xff" * 100,
)


#: What begins like an answer and goes on for ever, at full speed: how it begins, and what is repeated.
_STREAMS: Final = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "one header": (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65_536),
    "a status": (b"HTTP/1.1 200 ", b"y" * 65_536),
    "an extension of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=", b"y" * 65_536),
    "chunks of a byte": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 5000),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n" * 1000),
    "a body of no length": (b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n", b" " * 65_536),
}


@frozen
class Right:
    """The documented answer to a request. ``lax``: fields that the protocol lets a server leave out.

    ``also``: statuses that change nothing to whoever has ``headers`` or a body that only the right server can send.
    ``silent``: whatever follows the headers is no part of the answer.
    """

    status: int
    body: bytes = b""
    kind: str = "application/json"
    lax: frozenset[str] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    also: frozenset[int] = frozenset()
    silent: bool = False
    #: The length that is announced where none comes.
    longest: int = 10**15

    @property
    def bodiless(self) -> bool:
        """Return whether a body says nothing."""
        return self.silent or self.status == _SILENT


@frozen
class Wrong:
    """What is sent instead: bytes, and then the connection ends, or more bytes for ever, or silence for ever."""

    kind: str
    sent: bytes = field(repr=False)
    endless: bytes = field(default=b"", repr=False)
    pause: float = 0.0
    keeps_open: bool = False
    #: Only a field is wrong: done is right where the value is the right one.
    only_a_field: bool = False


def right(answer: Right, *, headers: Mapping[str, str] | None = None, length: int | None = None) -> bytes:
    """Write an answer as it is documented."""
    given = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body) if length is None else length)}
    if not answer.kind:
        del given["Content-Type"]
    head = [
        f"HTTP/1.1 {answer.status} X",
        *(f"{name}: {value}" for name, value in {**given, **dict(answer.headers), **(headers or {})}.items()),
    ]
    return "\r\n".join((*head, "", "")).encode() + answer.body


def _status(chance: random.Random, good: Right) -> Wrong:
    status = chance.choice([each for each in _STATUSES if each != good.status])
    same = status in good.also
    return Wrong(f"status {status}", right(evolve(good, status=status)), keeps_open=True, only_a_field=same)


def _kind(chance: random.Random, good: Right) -> Wrong:
    """Announce something else; an answer without a body has no type that could be wrong."""
    if not (good.body and good.kind):
        return _body(chance, good)
    kind = chance.choice(_KINDS)
    return Wrong(f"type {kind or 'none'}", right(evolve(good, kind=kind)), keeps_open=True)


def _body(chance: random.Random, good: Right) -> Wrong:
    """Say something else. With 204 nothing can be said: what follows is no part of the answer."""
    if good.bodiless:
        return _status(chance, good)
    body = chance.choice([each for each in _BODIES if each != good.body])
    # A list of other things is still a list: of a queue, whatever cannot be read is left out.
    listed = body.startswith(b"[") and body.endswith(b"]") and good.body.startswith(b"[")
    return Wrong("another body", right(evolve(good, body=body)), keeps_open=True, only_a_field=listed)


def _page(chance: random.Random, _good: Right) -> Wrong:
    status = chance.choice((200, 200, 203, 401, 403, 404, 503))
    page = Right(status, b"<html><title>Sign in</title><form method=post></form></html>", "text/html")
    return Wrong(f"a page with {status}", right(page), keeps_open=True)


def _redirection(chance: random.Random, good: Right) -> Wrong:
    """Lead elsewhere, where the right answer waits for whoever follows."""
    status = chance.choice((301, 302, 303, 307, 308))
    elsewhere = {"Location": chance.choice(("/elsewhere", "//127.0.0.1:9/", "file:///etc/passwd", "http://[::1"))}
    return Wrong(f"redirection {status}", right(evolve(good, status=status), headers=elsewhere), keeps_open=True)


def _cut(chance: random.Random, good: Right) -> Wrong:
    whole = right(good)
    head = len(whole) - len(good.body)
    if good.body and chance.random() < 0.5:
        return Wrong("a body that ends early", whole[: head + chance.randrange(len(good.body))])
    return Wrong("headers that end early", whole[: chance.randrange(1, head - 3)])


def _shortened(chance: random.Random, good: Right) -> Wrong:
    """Leave out the end of a document and announce what is left; an answer of one word is another word then."""
    if len(good.body) < 2:
        return _cut(chance, good)
    cut = good.body[: chance.randrange(len(good.body) - 1)]
    return Wrong("a document that is cut", right(evolve(good, body=cut)), keeps_open=True)


def _noise(chance: random.Random, _good: Right) -> Wrong:
    return Wrong("no answer at all", chance.choice(_NOISE))


def _huge(chance: random.Random, good: Right) -> Wrong:
    if good.bodiless:
        return _cut(chance, good)
    if chance.random() < 0.5:
        return Wrong("a length that never comes", right(good, length=good.longest))
    return Wrong("a body without end", right(evolve(good, body=b""), length=good.longest), endless=b" " * 65_536)


@cache
def _packed(times: int) -> bytes:
    """Pack 256 MiB of nothing, twice what any answer has, and what comes of it again."""
    packed = b" " * (256 << 20)
    for _ in range(times):
        packed = gzip.compress(packed, 6)
    return packed


def _bomb(chance: random.Random, good: Right) -> Wrong:
    if good.bodiless:
        return _cut(chance, good)
    times = chance.choice((1, 2, 3))
    named = {"Content-Encoding": ", ".join(["gzip"] * times)}
    return Wrong("a packed body that is huge", right(evolve(good, body=_packed(times)), headers=named))


def _stream(chance: random.Random, good: Right) -> Wrong:
    """Begin like an answer and never end it. Of what is no answer whatever its body is, only its headers matter."""
    begun = {name: each for name, each in _STREAMS.items() if not good.bodiless or b"\r\n\r\n" not in each[0]}
    name = chance.choice(list(begun))
    return Wrong(f"{name} without end", begun[name][0], endless=begun[name][1])


def _two_lengths(chance: random.Random, good: Right) -> Wrong:
    """Announce two lengths: who believes the one reads other bytes than who believes the other."""
    if good.bodiless or not good.body:
        return _cut(chance, good)
    lengths = [len(good.body), chance.randrange(len(good.body))]
    chance.shuffle(lengths)
    named = "\r\n".join(f"Content-Length: {each}" for each in lengths)
    return Wrong("two lengths", right(good).replace(f"Content-Length: {len(good.body)}".encode(), named.encode(), 1))


def _twice(chance: random.Random, good: Right) -> Wrong:
    """Say it twice, or say something else behind it: who reads on takes that for the answer to what is asked next."""
    behind = right(good) if chance.random() < 0.5 else right(Right(200, b"{}"))
    return Wrong("an answer with another behind it", right(good) + behind, keeps_open=True, only_a_field=True)


def _of_an_old_server(chance: random.Random, good: Right) -> Wrong:
    """Answer as HTTP/1.0 does, whose end is that of the connection, and lose it on the way."""
    if good.bodiless or len(good.body) < 2:
        return _cut(chance, good)
    cut = good.body[: chance.randrange(len(good.body) - 1)]
    head = right(evolve(good, body=b"")).replace(b"HTTP/1.1", b"HTTP/1.0", 1).replace(b"Content-Length: 0\r\n", b"", 1)
    return Wrong("a body of no length that ends early", head + cut)


def _drip(chance: random.Random, good: Right) -> Wrong:
    """Send a byte now and then, each in time, for ever."""
    if good.bodiless or chance.random() < 0.5:
        return Wrong("headers in drops", b"HTTP/1.1 200 OK\r\n", endless=b"X", pause=0.02)
    return Wrong("a body in drops", right(evolve(good, body=b""), length=10**6), endless=b" ", pause=0.02)


def _field(chance: random.Random, good: Right) -> Wrong:
    """Change one field of a document to another type, or leave out one that must be there."""
    if good.headers and chance.random() < 0.3:
        left = chance.choice(good.headers)
        kept = tuple(each for each in good.headers if each != left)
        return Wrong(f"no {left[0]}", right(evolve(good, headers=kept)), keeps_open=True, only_a_field=True)
    try:
        document: Any = json.loads(good.body)
    except ValueError:
        return _body(chance, good)
    places = list(_places(document))
    if not places:
        return _body(chance, good)
    holder, key = chance.choice(places)
    if isinstance(key, str) and key not in good.lax and chance.random() < 0.3:
        del holder[key]
        what = f"no {key}"
    else:
        others = [each for each in _INSTEAD if type(each) is not type(holder[key])]  # pyright: ignore[reportUnknownArgumentType]
        instead = chance.choice(others[1:] if key in good.lax else others)  # null is as good as left out
        holder[key] = instead
        what = f"{key}: {str(instead)[:20]}"
    return Wrong(what, right(evolve(good, body=json.dumps(document).encode())), keeps_open=True, only_a_field=True)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  any JSON
    if is_object(document):
        for key, each in document.items():
            yield document, key
            yield from _places(each)
    elif is_list(document):
        for index, each in enumerate(document):
            yield document, index
            yield from _places(each)


_RULES: Final[Mapping[Callable[[random.Random, Right], Wrong], float]] = {
    _status: 4,
    _kind: 2,
    _body: 4,
    _page: 2,
    _redirection: 2,
    _cut: 3,
    _shortened: 2,
    _noise: 3,
    _huge: 0.5,
    _bomb: 0.2,
    _stream: 0.5,
    _two_lengths: 0.3,
    _twice: 0.5,
    _of_an_old_server: 0.5,
    _drip: 0.1,
    _field: 6,
}


def wrong(chance: random.Random, good: Right) -> Wrong:
    """Draw one wrong answer."""
    (rule,) = chance.choices(list(_RULES), list(_RULES.values()))
    return rule(chance, good)
