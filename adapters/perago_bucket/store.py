"""The store port on a bucket, and what its users need beside the port: branches, history, names, what to collect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from io import BytesIO

from perago_bucket import claims, commits, garbage, manifest, mounts, publish, record, staging, together
from perago_bucket.access import BucketSink, BucketSource, put
from perago_bucket.answers import answer
from perago_bucket.client import Connection, bucket
from perago_bucket.layout import FIRST, Place, coordination_of, place_of
from perago_bucket.probe import probe
from perago_bucket.record import Record
from perago_core.answers import Answer, Done, NotDoneError, Unknown
from perago_core.landed import above, landed
from perago_core.names import branch_of_a_run, run_of
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.ports import BranchCreator, ObjectCollector, Overwriting, RunBranches, SeveralTargets
from perago_core.values import Claim, Commit, CommitRef, Head, Landed, StagedRef, Target


class BucketStore(BranchCreator, RunBranches, ObjectCollector, SeveralTargets, Overwriting):
    """The repositories below one prefix of a bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def head(self, target: Target) -> Answer[Head | None]:
        """Read the tip of the target; a branch here never carries uncommitted objects."""

        def work() -> Head | None:
            place = self._place(target.repository)
            found = record.read(place, target.branch)
            return None if found is None else Head(commits.needed(place, found.head))

        return answer(work)

    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]:
        """Read one commit by its id."""
        return answer(lambda: commits.look(self._place(repository), ref))

    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, each with paths under the prefixes that differ."""

        def work() -> tuple[Landed, ...] | None:
            place = self._place(repository)
            found = above(base, head, lambda ref: commits.needed(place, ref))

            def differing(one: CommitRef, other: CommitRef) -> Iterator[str]:
                left, right = (commits.needed(place, ref).tree for ref in (one, other))
                return (path for path in manifest.differing(place, left, right) if path.startswith(prefixes))

            return None if found is None else landed(found, base, differing)

        return answer(work)

    def read(self, repository: str, ref: CommitRef) -> BucketSource:
        """Open a commit for reading."""
        return BucketSource(self._connection, repository, ref)

    def sink(self, target: Target, name: str) -> BucketSink:
        """Open a staging name for writing."""
        return BucketSink(self._connection, target, name)

    def open_staging(self, target: Target, name: str, at: CommitRef) -> Answer[None]:
        """Create the staging name at a commit; not done if the name exists, whoever made it (P-42)."""
        return answer(lambda: staging.make(self._place(target.repository), target, name, at))

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what the sink linked; ``None`` says there was nothing to commit (S-12)."""
        return answer(lambda: staging.commit(self._place(target.repository), target, name, message))

    def revert(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit, on a staging name, the content before the commit it stands at."""
        return answer(lambda: staging.revert(self._place(target.repository), target, name, message))

    def claim(self, claim: Claim) -> Answer[Claim]:
        """Create the attempt's claim if absent and raise the task's claim strictly upward."""
        return answer(lambda: claims.make(self._place(claim.target.repository), claim))

    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        """Read the claim that stands for this claim's attempt."""
        return answer(lambda: claims.standing(self._place(claim.target.repository), claim))

    def claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of one logical task."""
        return answer(lambda: claims.of_task(self._place(target.repository), target, logical_task))

    def staging_names(self, repository: str, prefix: str = "") -> Answer[tuple[str, ...]]:
        """List the staging names that exist and begin with this."""
        return answer(lambda: staging.names(self._place(repository), prefix))

    def barrier(self, target: Target) -> Answer[None]:
        """Swap the record for its successor: whatever is on its way was conditioned on the one before (ST-5)."""

        def pass_on(found: Record) -> tuple[Record | None, None]:
            return found, None

        return answer(lambda: record.change(self._place(target.repository), target.branch, pass_on))

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        """Move the target as the plan says and give the published commit."""
        return answer(lambda: publish.publish(self._place(plan.target.repository), plan))

    def moves_together(self, targets: tuple[Target, ...]) -> Answer[None]:
        """Say whether these branches can move in one step: all of one bucket can."""
        del targets
        return Done(None)

    def drop(self, target: Target, name: str) -> Answer[None]:
        """Delete a staging name; done also when it is not there."""
        return answer(lambda: staging.drop(self._place(target.repository), target, name))

    def probe(self) -> Answer[Capability]:
        """Try for real whether the bucket honours the conditions everything rests on."""
        try:
            tried = bucket(self._connection)
        except NotDoneError as wrong:  # says nothing of what the bucket can do
            return Unknown(str(wrong))
        return probe(tried)

    def caution(self) -> Answer[str]:
        """Say what is to be known of a folder; of a bucket there is nothing to say."""
        folder = self._connection.folder
        return Done("" if folder is None else mounts.described(folder))

    def despite_leases(self) -> str:
        """Say what a lease does not keep where conditions were not proved, and what to use."""
        return (
            "a lease does not replace conditional writes here: without them a publication that comes late overwrites "
            "what was accepted since. Use a bucket that has them"
        )

    def create(self, target: Target, files: Mapping[str, bytes] | None = None) -> Answer[CommitRef]:
        """Make the branch at a first commit that holds these files; a repository is there once it has a branch."""

        def work() -> CommitRef:
            place = self._place(target.repository)
            stored = {path: put(place, FIRST, path, BytesIO(data)) for path, data in (files or {}).items()}
            tree = manifest.root_of(place, stored)
            first = commits.write(place, tree, (), f"Create {target.branch}", "perago")
            record.create(place, target.branch, first)
            return first

        return answer(work)

    def branch_off(self, target: Target, at: CommitRef) -> Answer[None]:
        """Make the branch of a run at a commit; not done if there is one."""

        def work() -> None:
            place = self._place(target.repository)
            record.create(place, branch_of_a_run(target), commits.needed(place, at).ref)

        return answer(work)

    def run_branches(self, repository: str) -> Answer[tuple[str, ...]]:
        """List the branches of runs."""
        return answer(lambda: tuple(each for each in self._place(repository).branches() if run_of(each) is not None))

    def remove_branch(self, target: Target) -> Answer[None]:
        """Remove the branch of a run with its names and claims; done also when it is not there."""
        return answer(lambda: record.remove(self._place(target.repository), branch_of_a_run(target)))

    def history(self, target: Target, limit: int = 100, at: CommitRef | None = None) -> Answer[tuple[Commit, ...]]:
        """List the target's commits by first parent, newest first; ``at``: from this one down, not from the head."""

        def work() -> tuple[Commit, ...]:
            place = self._place(target.repository)
            tip = record.read(place, target.branch) if at is None else None
            found: list[Commit] = []
            here = at or (None if tip is None else tip.head)
            while here is not None and len(found) < limit:
                found.append(commits.needed(place, here))
                here = next(iter(found[-1].parents), None)
            return tuple(found)

        return answer(work)

    def all_claims(self, repository: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of all tasks, for whoever collects garbage."""
        return answer(lambda: tuple(claims.every(self._place(repository))))

    def remove_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        return answer(lambda: claims.remove(self._place(target.repository), target, logical_task))

    def collect_objects(
        self, repository: str, kept: Collection[CommitRef], older_than: float, *, dry_run: bool = False
    ) -> Answer[int]:
        """Remove what nothing reaches and is older than so many seconds, except these commits; give how many.

        What coordination on the same bucket has left goes too, and what was never finished, which does not count.
        """

        def work() -> int:
            place = self._place(repository)
            unfinished = together.collect(place, older_than, dry_run=dry_run)
            beside = coordination_of(place.bucket)
            going = (*garbage.unreached(place, kept, older_than), *garbage.unreached_values(beside, older_than))
            if not dry_run:
                place.bucket.delete(going)
                place.bucket.sweep(older_than)
            return len(going) + unfinished

        return answer(work)

    def _place(self, repository: str) -> Place:
        return place_of(bucket(self._connection), repository)
