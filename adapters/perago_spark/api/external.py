"""Inputs from outside a branch: what was read, recorded beside the result.

    raw = ws.external("/data/orders-2024-05-01.csv")        # or a folder, or s3://bucket/orders/
    orders = ws.spark.read.csv(raw, header=True)

The identity of an input is its size and a SHA-256 of its content; of objects in a bucket their sizes and entity tags.
The first attempt of a task fixes it: a later attempt that finds another one fails and says so, and so does a body
during which it changed. What is published says what it was made from (``RECORD``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import asdict, frozen

from perago_spark.errors import DatasetError

#: Where the inputs of a data set are recorded, in its folder.
RECORD: Final = "_inputs.json"
#: Buckets that can be asked for entity tags, and what Spark's own readers call them.
_BUCKETS: Final[Mapping[str, str]] = {"s3": "s3a", "s3a": "s3a", "gs": "gs", "abfss": "abfss", "az": "abfss"}


@frozen
class Identity:
    """What an input is: ``digest`` of its content, or of the entity tags of its objects."""

    path: str
    files: int
    size: int
    digest: str

    def text(self) -> str:
        """Write it down; equal inputs have equal texts."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        return f"{self.files} file(s), {self.size} bytes, {self.digest[:19]}"


@frozen
class External:
    """One input: its identity, a stamp that tells cheaply whether it was touched, and its address for Spark."""

    identity: Identity
    stamp: str
    address: str


def external(place: str) -> External:
    """Look at an input from outside. Raises ``DatasetError`` if it is not there or cannot be identified."""
    parts = urlsplit(place)
    if parts.scheme in _BUCKETS:
        return _objects(place, _BUCKETS[parts.scheme])
    if parts.scheme not in {"", "file"}:
        raise DatasetError(
            "a path of this machine, or s3://, gs://, abfss://",
            place,
            "Read it without ws.external; it has no identity",
        )
    path = Path(unquote(parts.path) if parts.scheme else place).absolute()
    files = _files(path)
    if not files:
        raise DatasetError(f"an input at {path}", "no file there", "Correct the path, or bring the file first")
    named = [(each.relative_to(path).as_posix() if each != path else "", each) for each in files]
    contents = ((name, each.stat().st_size, _sha256(each)) for name, each in named)
    digest, size = _joined(contents)
    return External(Identity(str(path), len(files), size, digest), _stamp(path), path.as_uri())


def check_untouched(found: External) -> None:
    """Raise ``DatasetError`` if an input is not what it was when it was looked at."""
    bucket = urlsplit(found.address).scheme in _BUCKETS
    now = _objects(found.identity.path, "").stamp if bucket else _stamp(Path(found.identity.path))
    if now != found.stamp:
        raise DatasetError(
            f"{found.identity.path} to stay as it is while the task reads it",
            "it was changed meanwhile",
            "Start the task again; nothing was published",
        )


def check_pinned(found: Identity, pinned: str) -> None:
    """Raise ``DatasetError`` unless the input is the one that the first attempt of this task has read."""
    if found.text() != pinned:
        first = Identity(**json.loads(pinned))
        raise DatasetError(
            f"{found.path} as an earlier attempt of this task read it: {first}",
            str(found),
            "Put it back, or start a new run, which takes it as it is now",
        )


def record(inputs: Iterable[Identity]) -> bytes:
    """Write the inputs of a result down."""
    return json.dumps({"inputs": [asdict(each) for each in inputs]}, indent=1, sort_keys=True).encode("utf-8")


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())


def _stamp(path: Path) -> str:
    return repr([(str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in _files(path)])


def _sha256(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _joined(contents: Iterable[tuple[str, int, str]]) -> tuple[str, int]:
    """Return one digest for all files, that of the file itself if there is one, and the sum of their sizes."""
    found = list(contents)
    size = sum(each[1] for each in found)
    if len(found) == 1 and not found[0][0]:
        return f"sha256:{found[0][2]}", size
    return f"sha256:{hashlib.sha256(json.dumps(found).encode()).hexdigest()}", size


def _objects(place: str, scheme: str) -> External:
    try:
        obstore: Any = import_module("obstore")
        stores: Any = import_module("obstore.store")
    except ImportError:
        raise DatasetError(
            "obstore, which asks a bucket for entity tags", "none", "pip install 'perago-core[bucket]'"
        ) from None
    parts = urlsplit(place)
    scheme_of_store = "s3" if parts.scheme == "s3a" else parts.scheme
    # Where a server without TLS is named, by a variable that users of that cloud know, it is meant.
    store = stores.from_url(f"{scheme_of_store}://{parts.netloc}", client_options={"allow_http": True})
    found = sorted(_listed(obstore, store, parts.path.strip("/")))
    if not found:
        raise DatasetError(f"an input at {place}", "no object there", "Correct the address, or bring the file first")
    digest = f"etags:{hashlib.sha256(json.dumps(found).encode()).hexdigest()}"
    identity = Identity(place, len(found), sum(each[1] for each in found), digest)
    return External(identity, digest, f"{scheme}://{parts.netloc}{parts.path}")


def _listed(obstore: Any, store: Any, prefix: str) -> Iterator[tuple[str, int, str]]:  # noqa: ANN401  obstore
    """Yield each object at a key, or below it as a folder, with its entity tag."""
    for page in obstore.list(store, prefix=prefix or None):
        for each in page:
            yield each["path"], each["size"], each["e_tag"] or str(each["last_modified"])
    try:
        one = obstore.get(store, prefix).meta  # its content is not read
    except FileNotFoundError:
        return
    yield one["path"], one["size"], one["e_tag"] or str(one["last_modified"])
