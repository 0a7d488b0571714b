"""Blobs in and out as streams: memory stays flat however large a file is.

libgit2 reads a blob into memory whole and writes one at a fraction of the speed of zlib. A loose object of git is a
zlib stream of a header and the bytes, so these are written and read here. A file that is being written is called what
git calls one, so ``git prune`` clears away what a killed writer left.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import pygit2

from perago_core.answers import NotDoneError
from perago_local.git.repository import BIG, durable

CHUNK = 1024 * 1024
#: How a content is called while it is written. By its beginning ``git gc`` knows it for rubbish, by the rest we do.
HALF = "tmp_obj_perago_"
_SAMPLE = 64 * 1024
#: The most bytes of one block of a zlib stream that is not compressed.
_BLOCK = 0xFFFF
_WORTH_IT = 0.9
#: How files begin that are compressed inside: Parquet, ORC, Avro, gzip, zip, zstd, bzip2, xz, PNG, JPEG.
_PACKED = (
    b"PAR1",
    b"ORC",
    b"Obj\1",
    b"\x1f\x8b",
    b"PK\3\4",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
    b"\x89PNG",
    b"\xff\xd8\xff",
)


def write(repository: pygit2.Repository, data: BinaryIO) -> tuple[pygit2.Oid, int]:
    """Store bytes as a blob, reading them to their end; give its id and size."""
    if data.seekable():
        return _write(repository, data)
    with tempfile.TemporaryFile(dir=_objects(repository)) as spool:
        shutil.copyfileobj(data, spool, CHUNK)
        spool.seek(0)
        return _write(repository, spool)


def _write(repository: pygit2.Repository, data: BinaryIO) -> tuple[pygit2.Oid, int]:
    """Read once: the name is known when all is written, and what has that name already is not written again.

    Hashing first would spare that one its write, and cost every other a second reading. Who sends only what has changed
    hardly ever sends what is here already.
    """
    start = data.tell()
    size = data.seek(0, os.SEEK_END) - start
    data.seek(start)
    handle, temporary = tempfile.mkstemp(prefix=HALF, dir=_objects(repository))
    try:
        with os.fdopen(handle, "wb") as file:
            name = _compress(data, size, file)
            known = _freshened(repository, name)
            if not known:
                os.fchmod(file.fileno(), 0o444)
                file.flush()
                if durable(repository):
                    os.fsync(file.fileno())
        if known:
            Path(temporary).unlink()
        else:
            place = _loose(repository, name)
            place.parent.mkdir(exist_ok=True)
            Path(temporary).rename(place)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    return pygit2.Oid(hex=name), size


def _header(size: int) -> bytes:
    return b"blob %d\0" % size


def _chunks(data: BinaryIO) -> Iterator[bytes]:
    while chunk := data.read(CHUNK):
        yield chunk


def _objects(repository: pygit2.Repository) -> Path:
    return Path(repository.path) / "objects"


def _loose(repository: pygit2.Repository, name: str) -> Path:
    return _objects(repository) / name[:2] / name[2:]


def _freshened(repository: pygit2.Repository, name: str) -> bool:
    """Renew an object's modification time, so that ``git gc`` spares it until it is linked; ``False``: not there."""
    try:
        os.utime(_loose(repository, name))
    except FileNotFoundError:
        return pygit2.Oid(hex=name) in repository.odb
    except PermissionError:  # it belongs to another user and is there all the same
        return True
    return True


def _compress(data: BinaryIO, size: int, file: BinaryIO) -> str:
    """Write the object's zlib stream and give its name, which is of the very bytes that were written."""
    sample = data.read(_SAMPLE)
    data.seek(-len(sample), os.SEEK_CUR)
    # A sample of what is compressed inside may still get smaller, all of it hardly; trying costs ten times as much.
    shrinks = not sample.startswith(_PACKED) and len(zlib.compress(sample, 1)) < _WORTH_IT * len(sample)
    stream = zlib.compressobj(1) if shrinks else _Stored()
    digest = hashlib.sha1(_header(size), usedforsecurity=False)
    file.write(stream.compress(_header(size)))
    found = 0
    for chunk in _chunks(data):
        found += len(chunk)
        if found > size:  # somebody may go on writing for ever
            break
        digest.update(chunk)
        file.write(stream.compress(chunk))
    file.write(stream.flush())
    if found != size:
        raise NotDoneError("the file grew or shrank while it was read: write it completely, then stage it")
    return digest.hexdigest()


class _Stored:
    """A zlib stream that stores bytes as they are, as level 0 does, at four times its speed (RFC 1950 and 1951)."""

    def __init__(self) -> None:
        self._begun = False
        self._sum = zlib.adler32(b"")

    def compress(self, data: bytes) -> bytes:
        """Return these bytes as blocks of the stream."""
        self._sum = zlib.adler32(data, self._sum)
        view = memoryview(data)
        pieces: list[bytes | memoryview] = [] if self._begun else [b"\x78\x01"]
        self._begun = True
        for at in range(0, len(data), _BLOCK):
            piece = view[at : at + _BLOCK]
            pieces += (struct.pack("<BHH", 0, len(piece), len(piece) ^ 0xFFFF), piece)
        return b"".join(pieces)

    def flush(self) -> bytes:
        """End the stream: with an empty last block and the sum of all bytes."""
        return struct.pack("<BHH", 1, 0, 0xFFFF) + struct.pack(">I", self._sum)


def read(repository: pygit2.Repository, blob: pygit2.Oid) -> BinaryIO:
    """Open a blob for reading."""
    try:
        return cast("BinaryIO", io.BufferedReader(_Loose(_loose(repository, str(blob)), str(blob)), CHUNK))
    except FileNotFoundError:
        if repository.odb.read_header(blob)[1] <= BIG:
            return io.BytesIO(repository.odb.read(blob)[1])
        return _from_pack(repository, blob)


def _from_pack(repository: pygit2.Repository, blob: pygit2.Oid) -> BinaryIO:
    """Let git stream it: libgit2 cannot, and a large blob is in a pack only because git put it there."""
    git = shutil.which("git")
    if git is None:
        message = f"blob {blob} is in a pack, and only git can stream it from there: put git on the PATH"
        raise NotDoneError(message)
    command = [git, f"--git-dir={repository.path}", "cat-file", "blob", str(blob)]
    return cast("BinaryIO", io.BufferedReader(_Piped(command), CHUNK))


class _Loose(io.RawIOBase):
    """The bytes of a loose object, unpacked while they are read and checked against its name at the end."""

    def __init__(self, path: Path, name: str) -> None:
        self._file = path.open("rb")
        self._path = path
        self._name = name
        self._stream = zlib.decompressobj()
        self._pending = b""
        head, _, self._ahead = self._unpacked(128).partition(b"\0")
        self._digest = hashlib.sha1(head + b"\0", usedforsecurity=False)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the typeshed names a private type here
        chunk = self._ahead[: len(buffer)] or self._unpacked(len(buffer))
        self._ahead = self._ahead[len(buffer) :]
        self._digest.update(chunk)
        if not chunk and buffer and self._digest.hexdigest() != self._name:
            raise self._damaged()
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _unpacked(self, limit: int) -> bytes:
        try:
            while not self._stream.eof:
                self._pending = self._pending or self._file.read(CHUNK)
                if not self._pending:
                    break
                found = self._stream.decompress(self._pending, limit)
                self._pending = self._stream.unconsumed_tail
                if found:
                    return found
        except zlib.error as problem:
            raise self._damaged() from problem
        return b""

    def _damaged(self) -> OSError:
        return OSError(f"{self._path} is damaged: run 'git fsck', and restore the object from a copy of the repository")


class _Piped(io.RawIOBase):
    """What a command writes, and its failure as an error at the end instead of a short file."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603  no shell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the typeshed names a private type here
        assert self._process.stdout is not None
        chunk = self._process.stdout.read(len(buffer))
        buffer[: len(chunk)] = chunk
        if not chunk and buffer and self._process.wait() != 0:
            assert self._process.stderr is not None
            raise OSError(self._process.stderr.read().decode(errors="replace").strip())
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._process.kill()
            self._process.communicate()
        super().close()
