"""``perago_worker.dataset``: a data set of a branch for notebooks and scripts, with or without Spark.

    dataset("lake/main/orders").pandas()
    dataset("lake/main/orders@2f9c1d").polars()         # a commit, by the beginning of its id
    dataset("lake/main/orders@wip").duckdb()            # another branch
    pd.read_parquet(dataset("lake/main/orders"))        # or whatever reads a folder of files

The commit is looked up once, when it is called; its files are fetched when they are wanted, and kept for the next time.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from perago_core.ports import Source
from perago_core.values import CommitRef, Target
from perago_worker.api.errors import UserError

if TYPE_CHECKING:
    from perago_spark.format.seal import DataFile, Dataset

_PLACE: Final = re.compile(r"(?P<repository>[^/@]+)/(?P<branch>[^/@]+)/(?P<name>[^@]+?)/?(?:@(?P<ref>[^@]+))?")


class DatasetNotFoundError(UserError):
    """There is no such data set, or what reads it is not installed; the message says what to do."""


@frozen
class Found:
    """Where a data set is: one commit of one repository."""

    repository: str
    name: str
    commit: CommitRef
    source: Source = field(repr=False)
    cache: Path = field(repr=False)

    @property
    def folder(self) -> str:
        """Return its folder in the repository."""
        return f"{self.name}/"


def find(place: str, project: str | Path = ".") -> Found:
    """Look ``REPOSITORY/BRANCH/NAME`` up, at the head of the branch or at what follows an ``@``: branch or commit."""
    from perago_worker.cli.project import FILE, find_project  # noqa: PLC0415  a task's module needs no command line
    from perago_worker.config.load import load  # noqa: PLC0415  as above
    from perago_worker.ops.refs import branch_or_commit  # noqa: PLC0415  as above
    from perago_worker.stack import open_store  # noqa: PLC0415  as above

    named = _PLACE.fullmatch(place)
    if named is None:
        raise DatasetNotFoundError(
            f"expected REPOSITORY/BRANCH/NAME, such as lake/main/orders, or with @ and a commit or another branch; "
            f"found {place!r}"
        )
    folder = find_project(Path(project))
    if not (folder / FILE).is_file():
        raise DatasetNotFoundError(
            f"expected {FILE} in {folder} or above it, which says where {named['repository']} is; found none. Give "
            "project= the folder it is in"
        )
    settings = load(folder)
    store = open_store(settings)
    ref = branch_or_commit(store, Target(named["repository"], named["branch"]), named["ref"] or "")
    source = store.read(named["repository"], ref)
    return Found(named["repository"], named["name"], ref, source, settings.worker.cache / "datasets")


def dataset(place: str, *, project: str | Path = ".") -> LocalDataset:
    """Find a data set: ``REPOSITORY/BRANCH/NAME``, or with ``@`` and a commit or another branch."""
    from perago_spark.format.seal import dataset_of  # noqa: PLC0415  only who has data sets needs it

    found = find(place, project)
    known = dataset_of(found.source, found.folder)
    if not known:
        raise DatasetNotFoundError(f"expected a data set at {place}; found nothing at {found.commit[:12]}")
    return LocalDataset(found, known)


@frozen
class LocalDataset:
    """A data set of one commit. Each call that gives rows gives all of them, with the same columns."""

    found: Found
    known: Dataset = field(repr=False)

    @property
    def commit(self) -> str:
        """The commit it is read from."""
        return self.found.commit

    def __fspath__(self) -> str:
        return str(self.fetch())

    def fetch(self) -> Path:
        """Bring its files to this machine and return their folder; what is there already is not fetched again."""
        folder = self.found.cache / self.found.repository / self.found.commit / self.found.name
        for each in self.known.files:
            self._fetched(folder, each)
        return folder

    def files(self) -> tuple[Path, ...]:
        """Bring its files to this machine and return them."""
        folder = self.fetch()
        return tuple(folder / each.path.removeprefix(self.found.folder) for each in self.known.files)

    def arrow(self, *, text: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401  pyarrow
        """Return a table of Arrow. ``text``: how CSV that somebody brought is read (``sep``, ``header``)."""
        arrow = _module("pyarrow")
        from perago_spark.format import reading  # noqa: PLC0415  as above; needs Arrow

        how = dict(text or {})
        schema = (
            reading.arrow_schema(self.known.seals[-1].schema)
            if self.known.seals
            else reading.file_schema(self.found.source, self.known, how)
        )
        batches = [batch for each in self._opened() for batch in reading.batches(each[1], each[0], schema, how)]
        return arrow.Table.from_batches(batches, schema=schema)

    def pandas(self) -> Any:  # noqa: ANN401  a data frame
        """Return a frame of pandas."""
        return self.arrow().to_pandas()

    def polars(self) -> Any:  # noqa: ANN401  a data frame
        """Return a frame of Polars."""
        return _module("polars").from_arrow(self.arrow())

    def duckdb(self) -> Any:  # noqa: ANN401  a relation
        """Return a relation of DuckDB."""
        return _module("duckdb").from_arrow(self.arrow())

    def _opened(self) -> Iterator[tuple[DataFile, Any]]:
        folder = self.fetch()
        for each in self.known.files:
            with (folder / each.path.removeprefix(self.found.folder)).open("rb") as stream:
                yield each, stream

    def _fetched(self, folder: Path, file: DataFile) -> None:
        """Bring one file, whole or not at all; two who do it at once bring the same."""
        from perago_spark.errors import value_or_raise  # noqa: PLC0415  as above

        place = folder / file.path.removeprefix(self.found.folder)
        if place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        half = place.with_name(f".{secrets.token_hex(8)}")
        try:
            with value_or_raise(self.found.source.get(file.path)) as data, half.open("wb") as kept:
                shutil.copyfileobj(data, kept, 1 << 20)
            half.replace(place)
        finally:
            half.unlink(missing_ok=True)


def _module(name: str) -> Any:  # noqa: ANN401  a package without types
    try:
        return import_module(name)
    except ImportError:
        raise DatasetNotFoundError(f"expected {name} beside perago-core; found none. pip install {name}") from None
