"""Names inside a data set's folder: data files, seals, partition folders.

A sink lists and does not read. So whatever the driver must know about a write is in names: which write a file
belongs to, and for a whole write its kind (a digest of columns and partitioning), how many files, rows and bytes it has
and the digest of its rows.

    orders/day=2024-05-01/part-00003.<write>.<task>-0.parquet     one file of one task attempt
    orders/part-00003.<write>.<task>-0.csv                        the same in another format: parquet, csv, json, orc
    orders/_replaced_by                                           the write that replaced what was there before
    orders/_seal.<write>.<kind>.<files>.<rows>.<bytes>.<digest>.json    the seal, ignored by readers of Parquet folders
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from perago_spark.errors import DatasetError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WRITE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FILE: Final = re.compile(r"part-\d{5,}\.(?P<write>[^.]+)\.\d+-\d+\.(?:parquet|csv|json|orc)")
_SEAL: Final = re.compile(
    r"_seal\.(?P<write>[^.]+)\.(?P<kind>[0-9a-f]{8})\.(?P<files>\d+)\.(?P<rows>\d+)\.(?P<bytes>\d+)"
    r"\.(?P<digest>[0-9a-f]{16})\.json"
)
PARQUET: Final = "parquet"
FORMATS: Final = (PARQUET, "csv", "json", "orc")
#: Formats by other ends of names, which other people give their files.
_ENDS: Final[Mapping[str, str]] = {"jsonl": "json", "ndjson": "json", "tsv": "csv"}
#: Says which write has replaced a data set last, so that two that replace the same one conflict (``compaction``).
MARK: Final = "_replaced_by"
#: Where Hive and Spark put rows whose partition value is missing.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
#: What Spark escapes in the name of a partition's folder. All else stays, also letters that are not ASCII: Spark takes
#: an escape for a character and not for a byte.
_ESCAPED: Final = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


@frozen
class SealName:
    """A parsed seal name: which write it closes, the kind of its rows, and how many files, rows and bytes it has."""

    write: str
    kind: str
    files: int
    rows: int
    bytes: int
    digest: str

    def __str__(self) -> str:
        return f"_seal.{self.write}.{self.kind}.{self.files}.{self.rows}.{self.bytes}.{self.digest}.json"


def folder(prefix: str, name: str) -> str:
    """Return the folder of a data set below a workspace's prefix, or refuse the name.

    The name comes from a body. ``../x``, ``/x``, ``s3a://x`` and ``x@main`` would be ways to another place or branch.
    """
    if not all(_NAME.fullmatch(part) for part in name.split("/")):
        raise DatasetError(
            "a data set's name of letters, digits, '_', '-' and '.', with '/' for folders",
            repr(name),
            "Name it relative to the task's prefix; branch and commit are the task's own and cannot be chosen",
        )
    return f"{prefix}{name}/"


def checked_write(write: str) -> str:
    """Return a write's identity unchanged; raise if it cannot be part of a name."""
    if _WRITE.fullmatch(write) is None:
        raise DatasetError("a write's identity of letters, digits, '_' and '-'", repr(write), "Use a random one")
    return write


def file_name(partition: int, write: str, task: int, number: int, end: str = "parquet") -> str:
    """Name a file so that no other attempt of any task ever has the same name.

    ``task`` is Spark's task attempt id, unique within an application; ``write`` is unique among applications.
    """
    return f"part-{partition:05d}.{write}.{task}-{number}.{end}"


def write_of(path: str) -> str | None:
    """Return the write that a data file belongs to; ``None``: the name is not one of ours."""
    found = _FILE.fullmatch(path.rpartition("/")[2])
    return None if found is None else found["write"]


def seal_of(path: str) -> SealName | None:
    """Read the name of a seal; ``None``: it is no seal."""
    found = _SEAL.fullmatch(path.rpartition("/")[2])
    if found is None:
        return None
    files, rows, size = (int(found[each]) for each in ("files", "rows", "bytes"))
    return SealName(found["write"], found["kind"], files, rows, size, found["digest"])


def is_data(path: str) -> bool:
    """Whether readers take a file for data: they skip names that begin with ``_`` or ``.``."""
    return not path.rpartition("/")[2].startswith(("_", "."))


def format_of(path: str) -> str:
    """Return the format of a data file by the end of its name; whatever has no known end is Parquet."""
    end = path.rpartition(".")[2].lower()
    known = _ENDS.get(end, end)
    return known if known in FORMATS else PARQUET


def partition_folder(column: str, value: str | None) -> str:
    """Name the folder of one value of a partition column as Hive and Spark do, so that both can read it."""
    return f"{_escaped(column)}={_escaped(value) if value else NO_VALUE}/"


def partition_of(folder: str) -> tuple[str, str | None] | None:
    """Read the name of a partition's folder; ``None``: it is none."""
    column, sign, value = folder.partition("=")
    if not sign:
        return None
    return _plain(column), None if value == NO_VALUE else _plain(value)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _plain(text: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
