"""A project to break whose store is a real lakeFS of its own; its orchestrator and its ledger are the embedded ones."""

from __future__ import annotations

from attrs import define, field

from perago_core.values import CommitRef, Target
from perago_lakefs import Connection, LakeFSStore
from perago_lakefs.install import install
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.support.crash.project import FIRST, REPOSITORY, CrashProject, done
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.lakefs import LakeFS

_CONFIGURATION = """
[store]
kind = "lakefs"
url = "{url}"
access_key = "{access_key}"
secret_key = "{secret_key}"
repositories = ["{repository}"]
"""


@define
class LakeFSProject(CrashProject):
    """Every branch begins at one commit on top of that which brought the hook."""

    server: LakeFS = field(init=False)
    stranger: Stranger = field(init=False)
    hooked: CommitRef = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.server = LakeFS(folder=self.folder / "lakefs")
        self.server.start()
        connection = Connection(self.server.url, self.server.access_key, self.server.secret_key)
        self.stranger = Stranger(connection)
        home = f"{self.server.namespaces}/{REPOSITORY}"
        self.hooked = done(install(connection, Target(REPOSITORY, "main"), namespace=home)).head
        path = self.folder / "perago.toml"
        # A merge takes longer than a rename, and longer still while many others are under way.
        text = path.read_text(encoding="utf-8").replace("publish_timeout = 0.6", "publish_timeout = 1.0")
        more = _CONFIGURATION.format(
            url=self.server.url,
            access_key=self.server.access_key,
            secret_key=self.server.secret_key,
            repository=REPOSITORY,
        )
        path.write_text(text + more, encoding="utf-8")
        self.stack = open_stack(load(self.folder, {}, {}))

    def __exit__(self, *trouble: object) -> None:
        super().__exit__(*trouble)
        self.server.kill()

    @property
    def store(self) -> LakeFSStore:
        assert isinstance(self.stack.store, LakeFSStore)
        return self.stack.store

    def branch(self, name: str) -> tuple[Target, CommitRef]:
        target = Target(REPOSITORY, name)
        self.stranger.create_branch(target, self.hooked)
        return target, self.stranger.commits(target, FIRST)

    def add_strangers(self, target: Target, first: CommitRef, count: int = 2) -> tuple[CommitRef, ...]:
        assert self.stranger.head(target) == first
        return tuple(self.stranger.commits(target, {f"stranger{number}": b"s"}) for number in range(count))

    def staging_names(self) -> list[str]:
        names = done(self.store.staging_names(REPOSITORY))
        return list(names)

    def judge_store(self) -> list[str]:
        """Nothing of ours is left but the pinned first commit, no branch is dirty, and ``main`` was never touched."""
        tags = set(self.stranger.tags(REPOSITORY)) - {"perago-first-commit"}
        broken = [f"S-33 tags are left: {sorted(tags)}"] if tags else []
        for branch in sorted(self.stranger.branches(REPOSITORY)):
            head = done(self.store.head(Target(REPOSITORY, branch)))
            if head is None or head.dirty:
                broken.append(f"N-08 {branch} carries uncommitted objects")
        if self.stranger.head(Target(REPOSITORY, "main")) != self.hooked:
            broken.append("S-11 a branch moved that nobody published to")
        return broken
