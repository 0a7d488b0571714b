"""The client of lakeFS: where the server is, and one method for each request we send, counted, with a time-out.

lakefs-sdk carries every request but those whose body is an object's bytes (``objects/transfer``; specs/adr/0023).

A client that repeats a request by itself is wrong here. Counterexample: ``lakefs_sdk`` sends a hard reset that got no
answer four times; the last copy may land after somebody else's publication and undo it. So the SDK repeats nothing, and
this module repeats reads only. And every request ends: a time-out is an answer, waiting for ever is none.

What is missing is ``None`` where a call asks for it; every other answer than the good one is raised, for ``answers`` to
judge.
"""

from __future__ import annotations

import json
import operator
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import urllib3
from attrs import field, frozen
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.models.abort_presign_multipart_upload import AbortPresignMultipartUpload
from lakefs_sdk.models.branch_creation import BranchCreation
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.commit_record_creation import CommitRecordCreation
from lakefs_sdk.models.complete_presign_multipart_upload import CompletePresignMultipartUpload
from lakefs_sdk.models.merge import Merge
from lakefs_sdk.models.object_stage_creation import ObjectStageCreation
from lakefs_sdk.models.path_list import PathList
from lakefs_sdk.models.repository_creation import RepositoryCreation
from lakefs_sdk.models.staging_metadata import StagingMetadata
from lakefs_sdk.models.tag_creation import TagCreation
from lakefs_sdk.models.upload_part import UploadPart
from lakefs_sdk.models.upload_part_from import UploadPartFrom

from perago_clock import seconds
from perago_core.answers import NotDoneError, UnknownError
from perago_core.contract import is_list
from perago_core.ports import Stored
from perago_core.values import Commit, CommitRef
from perago_http.pool import Pool
from perago_http.secrets import refuse_clear_text
from perago_lakefs.answers import Problem, documented, is_missing, is_passing

T = TypeVar("T")
Json: TypeAlias = Any

_API = "/api/v1"
#: The most lakeFS gives at once; it gives 100 if it is not asked.
PAGE = 1000
#: The most paths lakeFS deletes in one request.
DELETIONS = 1000
#: Part of what lakeFS takes for a change, so it is always the same: equal bytes must be no change (S-12).
CONTENT_TYPE = "application/octet-stream"
#: Seconds before each further send of a request that may be repeated. Soon, even if the server says when to come again:
#: that may be hours, and a time-out would not end them.
_PAUSES = (0.1, 0.3, 1.0)
#: Bytes that go from a file to a socket at once.
_BLOCK = 1 << 17
#: What is read of an object.
_OBJECT = ("path", "physical_address", "checksum", "size_bytes")
#: How many scratch branches, and how many commits, a process remembers to have seen.
_SEEN = 1000
_COMMITS = 10_000
#: Turns among the branches that a process moves, and seconds after which a request is sent without one.
_TURNS = 64
_TURN = 1.0


def _without_api(url: str) -> str:
    return url.rstrip("/").removesuffix(_API)


@frozen(cache_hash=True)
class Connection:
    """One lakeFS server and who we are there: a small value that can be sent to any process.

    ``timeout``: seconds for a whole answer. ``publish_timeout``: seconds a publication has, from its first check to
    its answer, so that a lease can be known to outlast it. ``pool``: connections kept open, so also how many transfers
    run at once. ``insecure``: the keys may cross the network in clear text.
    """

    url: str = field(converter=_without_api)
    access_key: str
    secret_key: str = field(repr=False)
    timeout: float = 30.0
    publish_timeout: float = 5.0
    ca: Path | None = None
    pool: int = 16
    insecure: bool = False

    def __attrs_post_init__(self) -> None:
        if self.secret_key and not self.insecure:
            refuse_clear_text(self.url, "secret key", "store.insecure")

    @property
    def api(self) -> str:
        """Return the address the paths of the API are appended to."""
        return f"{self.url}{_API}"

    def session(self) -> Session:
        """Return what this process keeps of the server, the same to every thread of it."""
        key = (os.getpid(), self)
        with _making:
            if key not in _sessions:
                _sessions[key] = Session(self)
            return _sessions[key]


@frozen
class Storage:
    """The store behind lakeFS. ``signs``: addresses for single objects; ``signs_parts``: also for parts of one."""

    kind: str
    signs: bool
    signs_parts: bool


@frozen
class Named:
    """A branch or a tag, and the commit it is at."""

    name: str
    at: CommitRef


@frozen
class SignedAddress:
    """Where the bytes of one object may be sent past lakeFS, and what it is called when it is linked."""

    url: str
    physical: str
    location: Any = field(repr=False)


@frozen
class SignedUpload:
    """An upload in parts that has begun."""

    upload_id: str
    physical: str


class Session:
    """What one process keeps of one server: open connections, the SDK over them, and what it has seen once.

    Calls of the SDK take keyword arguments of no type, hence ``Any``.
    """

    def __init__(self, connection: Connection) -> None:
        self.pool = Pool(
            maxsize=connection.pool,
            timeout=connection.timeout,
            ca_certs=None if connection.ca is None else str(connection.ca),
            blocksize=_BLOCK,
        )
        #: Past the manager, which takes each address apart for a tenth of the time of a small transfer.
        self.server = self.pool.connection_from_url(connection.api)
        self.path = urlsplit(connection.api).path
        self.credentials = urllib3.make_headers(basic_auth=f"{connection.access_key}:{connection.secret_key}")
        self.sdk: Any = _sdk(connection, self.pool)
        self.storage: Storage | None = None
        self._scratch: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._commits: OrderedDict[tuple[str, str], Commit] = OrderedDict()
        self._lock = threading.Lock()
        self._turns = tuple(threading.Lock() for _ in range(_TURNS))

    def known(self, repository: str, ref: str) -> Commit | None:
        """Return a commit this process has seen: its id is a digest of all it says, so it never says anything else."""
        return self._commits.get((repository, ref))

    def keep(self, repository: str, commits: Sequence[Commit]) -> None:
        """Remember commits as the server has shown them."""
        with self._lock:
            for each in commits:
                self._commits[repository, each.ref] = each
            while len(self._commits) > _COMMITS:
                self._commits.popitem(last=False)

    @contextmanager
    def turn(self, repository: str, branch: str) -> Generator[None]:
        """Let the threads of this process move one branch one after the other, or nearly so.

        Of two requests that move a branch at once lakeFS takes one and lets the other wait for half a second before it
        tries again. Nothing rests on it: who is not let in goes on.
        """
        turn = self._turns[hash((repository, branch)) % _TURNS]
        taken = turn.acquire(timeout=_TURN)
        try:
            yield
        finally:
            if taken:
                turn.release()

    def has_seen(self, repository: str, branch: str) -> bool:
        """Return whether this process has seen that there is such a scratch branch."""
        return (repository, branch) in self._scratch

    def note(self, repository: str, branch: str) -> None:
        """Remember that there is."""
        with self._lock:
            self._scratch[repository, branch] = None
            if len(self._scratch) > _SEEN:
                self._scratch.popitem(last=False)


def _sdk(connection: Connection, pool: urllib3.PoolManager) -> Any:  # noqa: ANN401  see ``Session``
    configuration: Any = Configuration(
        host=connection.api, username=connection.access_key, password=connection.secret_key
    )
    make: Any = LakeFSClient
    sdk = make(configuration)
    # The SDK's own pool would repeat a lost PUT three times, and open as many connections again.
    sdk._api.rest_client.pool_manager = _Checking(pool)  # noqa: SLF001  it has no other way in
    return sdk


@frozen
class _Checking:
    """The pool as the SDK uses it: an answer that lakeFS does not document is none."""

    pool: urllib3.PoolManager

    def request(self, method: str, url: str, **given: Any) -> urllib3.BaseHTTPResponse:  # noqa: ANN401  as the SDK
        """Send one request of the SDK, and take its answer whole, whatever the SDK says, so that it has a limit."""
        given["preload_content"] = True
        return documented(method, url, self.pool.request(method, url, **given))


#: Keyed by process as well: a connection that a fork shares with its parent would mix up their answers.
_sessions: dict[tuple[int, Connection], Session] = {}
#: Held across a fork, so that no child finds it held by a thread it does not have.
_making = threading.Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


class Client:
    """Sends the requests of one call of the port, from any thread. Made for each call, so that they can be counted.

    ``within``: seconds that all of them have together, from now on. Then each is sent once, reads too, and none later.
    """

    def __init__(self, connection: Connection, within: float | None = None) -> None:
        self._began = seconds()
        self._within = within
        self.connection = connection
        self.session = connection.session()
        self._sdk = self.session.sdk
        self._sent = 0
        self._lock = threading.Lock()

    @property
    def sent(self) -> int:
        """Say how many requests were sent so far, repeated ones too."""
        return self._sent

    def count(self) -> None:
        """Count one request."""
        with self._lock:
            self._sent += 1

    # Reading

    def commit(self, repository: str, ref: str) -> Commit | None:
        """Read one commit; one that was seen before is not asked for again."""
        seen = self.session.known(repository, ref)
        if seen is not None:
            return seen
        found = self._found(lambda: _commit(self._read(self._sdk.commits_api.get_commit, repository, ref)))
        if found is not None:
            self.session.keep(repository, (found,))
        return found

    def tip(self, repository: str, branch: str) -> Commit | None:
        """Read the commit a branch is at, with its parents and its tree, in one go."""
        found = self._found(lambda: self.log(repository, branch, amount=1))
        return found[0] if found else None

    def log(self, repository: str, ref: str, *, amount: int = PAGE, after: str = "") -> tuple[Commit, ...]:
        """Give commits by first parent, newest first."""
        given = {"amount": amount, "after": after, "first_parent": True, "limit": True}
        found = tuple(map(_commit, _all_of(self._read(self._sdk.refs_api.log_commits, repository, ref, **given))))
        self.session.keep(repository, found)
        return found

    def history(self, repository: str, ref: str, limit: int) -> Iterator[Commit]:
        """Give commits by first parent, newest first, down to the first one, in pages as large as they are needed.

        What was seen before is not asked for again: who looks at a branch again and again reads what is new.
        """
        at: str | None = ref
        while at is not None:
            seen = self.session.known(repository, at)
            page = (seen,) if seen is not None else self.log(repository, at, amount=min(limit, PAGE))
            if not page:
                raise UnknownError(f"expected commit {at} with those before it; found no commit at all")
            yield from page
            at = page[-1].parents[0] if page[-1].parents else None

    def is_dirty(self, repository: str, branch: str) -> bool | None:
        """Return whether a branch carries uncommitted objects; ``None``: there is no such branch."""
        diff = self._sdk.branches_api.diff_branch
        return self._found(lambda: bool(_all_of(self._read(diff, repository, branch, amount=1))))

    def differing(self, repository: str, one: str, other: str, prefix: str) -> tuple[str, ...]:
        """Name paths under a prefix that differ between two commits: all, or as many as come at once."""
        diff = self._sdk.refs_api.diff_refs
        given = {"prefix": prefix, "type": "two_dot", "amount": PAGE}
        return tuple(str(each.path) for each in _all_of(self._read(diff, repository, one, other, **given)))

    def checksum(self, repository: str, ref: str, path: str) -> str | None:
        """Return the checksum of an object."""
        stat = self._sdk.objects_api.stat_object
        return self._found(lambda: str(self._read(stat, repository, ref, path, user_metadata=False).checksum))

    def tag(self, repository: str, name: str) -> CommitRef | None:
        """Return the commit a tag is at."""
        get = self._sdk.tags_api.get_tag
        return self._found(lambda: CommitRef(self._read(get, repository, name).commit_id))

    def tags(self, repository: str, prefix: str) -> Iterator[Named]:
        """List the tags whose name begins like this."""
        return self._listed(self._sdk.tags_api.list_tags, repository, prefix)

    def branch(self, repository: str, name: str) -> CommitRef | None:
        """Return the commit a branch is at."""
        get = self._sdk.branches_api.get_branch
        return self._found(lambda: CommitRef(self._read(get, repository, name).commit_id))

    def branches(self, repository: str, prefix: str = "") -> Iterator[Named]:
        """List the branches whose name begins like this, hidden ones too."""
        return self._listed(self._sdk.branches_api.list_branches, repository, prefix, show_hidden=True)

    def default_branch(self, repository: str) -> str | None:
        """Name the branch a repository was made with."""
        get = self._sdk.repositories_api.get_repository
        return self._found(lambda: str(self._read(get, repository).default_branch))

    def repositories(self) -> tuple[str, ...]:
        """Name the repositories we may see, as many as come at once."""
        found = self._read(self._sdk.repositories_api.list_repositories, amount=PAGE)
        return tuple(str(each.id) for each in found.results)

    def protected(self, repository: str) -> tuple[str, ...]:
        """Return the patterns of the branches that are protected."""
        found = self._read(self._sdk.repositories_api.get_branch_protection_rules, repository)
        return tuple(str(each.pattern) for each in found)

    # Changing

    def create_repository(self, name: str, namespace: str, branch: str) -> None:
        """Create a repository whose data lies in a namespace of its own."""
        creation = RepositoryCreation(
            name=name,
            storage_id=None,
            storage_namespace=namespace,
            default_branch=branch,
            sample_data=None,
            read_only=None,
        )
        _value(self._change(self._sdk.repositories_api.create_repository, creation))

    def create_branch(self, repository: str, name: str, at: str) -> None:
        """Create a hidden branch at a commit."""
        creation = BranchCreation(name=name, source=at, hidden=True)
        _value(self._change(self._sdk.branches_api.create_branch, repository, creation))

    def delete_branch(self, repository: str, name: str) -> None:
        """Delete a branch; if it is not there, it need not be."""
        delete = self._sdk.branches_api.delete_branch
        self._found(lambda: self._change(delete, repository, name))

    def create_tag(self, repository: str, name: str, at: str) -> None:
        """Create a tag at a commit."""
        _value(self._change(self._sdk.tags_api.create_tag, repository, TagCreation(id=name, ref=at)))

    def delete_tag(self, repository: str, name: str) -> None:
        """Delete a tag; if it is not there, it need not be."""
        delete = self._sdk.tags_api.delete_tag
        self._found(lambda: self._change(delete, repository, name))

    def create_record(self, repository: str, ref: str, message: str, tree: str, metadata: Mapping[str, str]) -> None:
        """Write a commit that no branch is at; its id must be what its content says."""
        record = CommitRecordCreation(
            commit_id=ref,
            version=1,
            committer="perago",
            message=message,
            metarange_id=tree,
            creation_date=0,
            parents=[],
            metadata=dict(metadata),
            generation=1,
        )
        self._change(self._sdk.internal_api.create_commit_record, repository, record)

    def upload(self, repository: str, branch: str, path: str, content: bytes) -> None:
        """Write one small object."""
        upload = self._sdk.objects_api.upload_object
        _value(self._change(upload, repository, branch, path, content=content))

    def commit_branch(
        self, repository: str, branch: str, message: str, metadata: Mapping[str, str], tree: str | None = None
    ) -> Commit:
        """Commit what a branch carries uncommitted; or, to one that carries nothing, the content of another commit."""
        creation = CommitCreation(message=message, metadata=dict(metadata), date=None, allow_empty=None)
        commit = self._sdk.commits_api.commit
        given = {} if tree is None else {"source_metarange": tree}
        made = _commit(_value(self._change(commit, repository, branch, creation, **given)))
        self.session.keep(repository, (made,))
        return made

    def merge(
        self,
        repository: str,
        source: str,
        branch: str,
        message: str,
        metadata: Mapping[str, str],
        *,
        squash: bool = True,
    ) -> CommitRef:
        """Merge into a branch as one commit whose only parent is its head; not squashed, the source is its second."""
        merge_metadata = dict(metadata)
        merge = Merge(
            message=message, metadata=merge_metadata, strategy=None, force=None, allow_empty=None, squash_merge=squash
        )
        send = self._sdk.refs_api.merge_into_branch
        with self.session.turn(repository, branch):
            return CommitRef(_value(self._move(send, repository, source, branch, merge)).reference)

    def hard_reset(self, repository: str, branch: str, to: str) -> None:
        """Move a branch to wherever a name is, whatever it was at before."""
        send = self._sdk.experimental_api.hard_reset_branch
        self._move(send, repository, branch, to)

    # Objects

    def storage(self) -> Storage:
        """Say what the server can do with the store behind it; a process asks once."""
        if self.session.storage is None:
            found = self._read(self._sdk.config_api.get_config).storage_config
            parts = bool(found.pre_sign_multipart_upload)
            self.session.storage = Storage(str(found.blockstore_type), bool(found.pre_sign_support), parts)
        return self.session.storage

    def objects(self, repository: str, ref: str, prefix: str) -> Iterator[Stored]:
        """List the objects under a prefix, in the order of their keys' bytes.

        Carried by the SDK and read as JSON: its models take seven times the time for a page (specs/adr/0023).
        """
        send = self._sdk.objects_api.list_objects_with_http_info
        given: Json = {"prefix": prefix, "user_metadata": False, "_preload_content": False}

        def read(after: str) -> tuple[Json, str, bool]:
            answer = self._read(send, repository, ref, after=after, amount=PAGE, **given)
            with as_described("a page of objects"):
                page: Json = json.loads(answer.raw_data)
                turn, results = page["pagination"], page["results"]
                if not is_list(results) or len(results) != turn["results"]:
                    raise TypeError(f"{turn['results']} results are not {str(results)[:40]}")
                return results, str(turn["next_offset"]), bool(turn["has_more"])

        for page in _pages(read):
            yield from map(stored_object, page)

    def tail(self, repository: str, ref: str, path: str, start: int) -> bytes:
        """Read a small object, or the end of a large one, from a byte on; all of it from a server without ranges."""
        read = self._sdk.objects_api.get_object
        return bytes(self._read(read, repository, ref, path, range=f"bytes={start}-"))

    def link(self, repository: str, branch: str, stored: Stored) -> None:
        """Make bytes that are stored anywhere in the repository an object of a branch.

        Below the SDK's method for it, which warns at each call that lakeFS advises against the request. Nothing else
        links what is stored already: what ``link_signed`` sends takes an address only on the branch and under the path
        that it was signed for.
        """
        creation = ObjectStageCreation(
            physical_address=stored.address,
            checksum=stored.checksum,
            size_bytes=stored.size,
            mtime=None,
            content_type=CONTENT_TYPE,
        )
        made = self._change(
            self._sdk._api.call_api,  # noqa: SLF001  as above
            "/repositories/{repository}/branches/{branch}/objects",
            "PUT",
            {"repository": repository, "branch": branch},
            [("path", stored.path)],
            {"Accept": "application/json", "Content-Type": "application/json"},
            body=creation,
            response_types_map={"201": "ObjectStats"},
            auth_settings=["basic_auth"],
            _return_http_data_only=True,
        )
        if _value(made).path != stored.path:
            raise UnknownError(
                f"expected lakeFS to answer with the object it linked as {stored.path!r}; found another answer"
            )

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Delete up to ``DELETIONS`` objects of a branch; say which were not, and why: lakeFS answers 200 all the same.

        lakeFS also says 200 of a branch that does not exist.
        """
        send = self._sdk.objects_api.delete_objects
        gone = _value(self._change(send, repository, branch, PathList(paths=list(paths))))
        return tuple(f"{each.path!r}: {each.message}" for each in gone.errors)

    def sign(self, repository: str, branch: str, path: str) -> SignedAddress:
        """Return an address past lakeFS for an object. Of a branch that is gone too: only the link notices."""
        found = self._read(self._sdk.staging_api.get_physical_address, repository, branch, path, presign=True)
        return SignedAddress(str(found.presigned_url), str(found.physical_address), found)

    def link_signed(self, repository: str, branch: str, stored: Stored, address: SignedAddress) -> None:
        """Make bytes that were sent to a signed address an object of the branch."""
        about = StagingMetadata(
            staging=address.location,
            checksum=stored.checksum,
            size_bytes=stored.size,
            content_type=CONTENT_TYPE,
            mtime=None,
        )
        _value(self._change(self._sdk.staging_api.link_physical_address, repository, branch, stored.path, about))

    def begin_parts(self, repository: str, branch: str, path: str) -> SignedUpload:
        """Begin an upload in parts."""
        send = self._sdk.experimental_api.create_presign_multipart_upload
        begun = _value(self._change(send, repository, branch, path))
        return SignedUpload(str(begun.upload_id), str(begun.physical_address))

    def sign_part(self, repository: str, branch: str, path: str, upload: SignedUpload, number: int) -> str:
        """Return the address for one part."""
        send, whole = self._sdk.experimental_api.upload_part, UploadPartFrom(physical_address=upload.physical)
        return str(self._read(send, repository, branch, upload.upload_id, path, number, whole).presigned_url)

    def complete_parts(
        self, repository: str, branch: str, path: str, upload: SignedUpload, etags: Sequence[str]
    ) -> Stored:
        """Make the parts that were sent one object of the branch."""
        sent = [UploadPart(part_number=number, etag=each) for number, each in enumerate(etags, 1)]
        completion = CompletePresignMultipartUpload(
            physical_address=upload.physical, parts=sent, content_type=CONTENT_TYPE
        )
        send = self._sdk.experimental_api.complete_presign_multipart_upload
        made = _value(self._change(send, repository, branch, upload.upload_id, path, completion))
        # The address that comes back is only the end of it, which cannot be linked elsewhere.
        return Stored(path, upload.physical, str(made.checksum), int(made.size_bytes))

    def abort_parts(self, repository: str, branch: str, path: str, upload: SignedUpload) -> None:
        """Throw away the parts that were sent."""
        send = self._sdk.experimental_api.abort_presign_multipart_upload
        abort = AbortPresignMultipartUpload(physical_address=upload.physical)
        self._change(send, repository, branch, upload.upload_id, path, abort)

    # How

    def again(self, send: Callable[[], T]) -> T:
        """Send, and send again what got no answer or one that passes. Not for what must happen once."""
        for pause in _PAUSES if self._within is None else ():
            try:
                return send()
            except Problem as problem:
                if not is_passing(problem):
                    raise
            time.sleep(pause)
        return send()

    def _listed(self, call: Callable[..., Any], repository: str, prefix: str, **given: object) -> Iterator[Named]:
        def read(after: str) -> tuple[Json, str, bool]:
            page = self._read(call, repository, prefix=prefix, after=after, amount=PAGE, **given)
            return _all_of(page), page.pagination.next_offset, page.pagination.has_more

        for page in _pages(read):
            yield from (Named(str(each.id), CommitRef(each.commit_id)) for each in page)

    def _found(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Problem as problem:
            if is_missing(problem):
                return None
            raise

    def _read(self, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        return self.again(lambda: _value(self._send(self.connection.timeout, call, *given, **named)))

    def _change(self, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        return self._send(self.connection.timeout, call, *given, **named)

    def _move(self, call: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401  as the SDK
        return self._send(self.connection.publish_timeout, call, *given)

    def _send(self, timeout: float, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        if self._within is not None:
            timeout = min(timeout, self._left(self._within))
        self.count()
        with as_described("an answer"):
            return call(*given, **named, _request_timeout=timeout)

    def _left(self, within: float) -> float:
        left = within - (seconds() - self._began)
        if left <= 0:
            message = (
                f"expected a check that leaves time to send what it is for within {within:g} s, found them used up: it "
                "was not sent. Try again; if this repeats, raise publish_timeout, or find out why lakeFS is slow"
            )
            raise NotDoneError(message)
        return left


def _pages(read: Callable[[str], tuple[Json, str, bool]]) -> Iterator[Json]:
    """Give the pages of a listing. ``read``: one page, the name after which the next one comes, and if there is one."""
    after, more = "", True
    while more:
        page, following, more = read(after)
        if more and following <= after:
            raise UnknownError(f"expected a page after {after!r}; found that the next one begins at {following!r}")
        after = following
        yield page


def _all_of(page: Any) -> Any:  # noqa: ANN401  as the SDK
    """Return the results of a page, as many as it says it has.

    The SDK takes an object for a list of nothing. Counterexample: a name that stands is not in that list, so it counts
    as revoked.
    """
    if len(page.results) != page.pagination.results:
        raise UnknownError(f"expected {page.pagination.results} results on a page; found {len(page.results)}")
    return page.results


def _value(found: Any) -> Any:  # noqa: ANN401  as the SDK
    """Return what the SDK made of an answer; it makes nothing of a status that is not documented."""
    if found is None:
        raise UnknownError("expected an answer as lakeFS documents it; found another status with 2 in front")
    return found


@contextmanager
def as_described(what: str) -> Generator[None]:
    """Read JSON that must be as lakeFS describes it; where it is not, nobody can tell what has happened."""
    try:
        yield
    except Problem:
        raise  # those are known, and a read is asked again
    except (KeyError, TypeError, ValueError, AttributeError) as surprise:
        found = " ".join(f"{type(surprise).__name__}: {surprise}".split())
        raise UnknownError(f"expected {what} as lakeFS describes it; found something else: {found}") from None


def stored_object(found: Json) -> Stored:
    """Read the description of one object."""
    with as_described("an object"):
        path, address, checksum, size = (found[name] for name in _OBJECT)
        if not (isinstance(path, str) and isinstance(address, str) and isinstance(checksum, str)):
            raise TypeError(f"{path!r}, {address!r}, {checksum!r} are not texts")
        return Stored(path, address, checksum, operator.index(size))


def _commit(found: Any) -> Commit:  # noqa: ANN401  as the SDK
    parents = tuple(CommitRef(parent) for parent in found.parents)
    said: dict[str, str] = found.metadata or {}
    metadata = tuple(sorted(said.items()))
    return Commit(CommitRef(found.id), parents, found.meta_range_id or "-", found.message, metadata)
