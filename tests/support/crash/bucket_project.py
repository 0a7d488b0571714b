"""A project to break whose store is a bucket on a real S3; its orchestrator and its ledger are the embedded ones."""

from __future__ import annotations

from secrets import token_hex

from attrs import define, evolve, field

from perago_bucket import BucketStore, Connection
from perago_bucket.client import bucket
from perago_bucket.layout import place_of
from perago_core.answers import Done
from perago_core.values import CommitRef, Target
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.support.bucket.harness import commit_as_stranger, connection_to
from tests.support.crash.project import FIRST, REPOSITORY, CrashProject, done
from tests.support.servers.buckets import BUCKET
from tests.support.servers.sharing import shared_versitygw

_CONFIGURATION = """
[store]
kind = "bucket"
url = "{url}"
endpoint = "{endpoint}"
access_key = "{access_key}"
secret_key = "{secret_key}"
"""


@define
class BucketProject(CrashProject):
    """Each project has a prefix of its own on the run's S3."""

    connection: Connection = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        server, prefix = shared_versitygw(), token_hex(8)
        # A stranger, and whoever judges, share no memory with the workers, which are other processes.
        self.connection = connection_to(server, prefix)
        path = self.folder / "perago.toml"
        more = _CONFIGURATION.format(
            url=f"s3://{BUCKET}/{prefix}",
            endpoint=server.url,
            access_key=server.access_key,
            secret_key=server.secret_key,
        )
        path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
        self.stack = open_stack(load(self.folder, {}, {}))

    @property
    def store(self) -> BucketStore:
        assert isinstance(self.stack.store, BucketStore)
        return self.stack.store

    def branch(self, name: str) -> tuple[Target, CommitRef]:
        target = Target(REPOSITORY, name)
        return target, done(self.store.create(target, FIRST))

    def add_strangers(self, target: Target, first: CommitRef, count: int = 2) -> tuple[CommitRef, ...]:
        head = done(self.store.head(target))
        assert head is not None
        assert head.commit.ref == first
        return tuple(
            commit_as_stranger(self.connection, target, {f"stranger{number}": b"s"}) for number in range(count)
        )

    def staging_names(self) -> list[str]:
        names = done(self.store.staging_names(REPOSITORY))
        return list(names)

    def judge_store(self) -> list[str]:
        """Whatever can be collected is, and then every commit of every branch can still be read, to the last byte."""
        done(self.store.collect_objects(REPOSITORY, (), 0.0))
        left = done(self.store.collect_objects(REPOSITORY, (), 0.0))
        broken = [f"S-33 {left} object(s) are left that nothing reaches"] if left else []
        fresh = BucketStore(evolve(self.connection, timeout=self.connection.timeout + 2))
        for branch in place_of(bucket(self.connection), REPOSITORY).branches():
            for commit in done(fresh.history(Target(REPOSITORY, branch))):
                source = fresh.read(REPOSITORY, commit.ref)
                lost = [each.path for each in done(source.list()) if not isinstance(source.get(each.path), Done)]
                broken += [f"P-16 {path} of {commit.ref} on {branch} is gone" for path in lost]
        return broken
