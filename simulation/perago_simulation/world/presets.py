"""What stores that people have can do, by name, so that nobody has to know our flags to ask what he gets.

A preset holds what the system itself checks in the update that moves a branch, as its interface is documented, for an
adapter that conditions a publication on the head and on nothing else. What an adapter can make of it besides is said in
words: it is the adapter's work, and for its conformance suite to show.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from perago_core.value import Value, a, line
from perago_core.values import Backing
from perago_simulation.world.capabilities import RELIES_ON, Capabilities

#: A compare-and-set of one record, and nobody who grants leases.
_HEAD_ONLY = Capabilities(lease=False, conditional_merge=True, conditional_relocate=True)


@frozen(repr=False)
class Preset(Value):
    """What a store can do, by which of its calls, and what it takes to get more."""

    can: Capabilities = field(validator=a(Capabilities))
    says: str = field(validator=line)


PRESETS: Mapping[str, Preset] = {
    "s3-if-match": Preset(
        _HEAD_ONLY,
        "the head is an object, put with If-Match; claims are objects, put with If-None-Match. With the task's claim "
        "in the same object as the head it carries `atomic`: `perago_bucket` does that.",
    ),
    "s3-without-conditions": Preset(
        Capabilities(overwrites=True),
        "a put overwrites whatever is there: nothing is checked in the update that moves the head, no name can be "
        "revoked, and what was sent before a lease was lost lands after it, on the head that it read. A lease from "
        "elsewhere changes none of that; --backing locked shows what is lost.",
    ),
    "nessie": Preset(
        _HEAD_ONLY,
        "a branch is assigned with the hash it is expected at. A merge or a commit is not conditioned on the head: "
        "its expected hash only says since when keys are looked at for conflicts, so publish by assigning.",
    ),
    "iceberg-rest": Preset(
        _HEAD_ONLY,
        "a branch of one table is set under the requirement assert-ref-snapshot-id. A commit takes several "
        "requirements: with the claim and the staging name as refs of the same table it carries `atomic`.",
    ),
    "delta": Preset(
        Capabilities(blind=False, lease=False, conditional_merge=True),
        "a version of the log is put if it is absent, which is a compare-and-set of the head; no version is ever "
        "taken back, so a retry can adopt and nothing can be replaced.",
    ),
    "lakefs": Preset(
        evolve(RELIES_ON[Backing.CONDITIONAL], lease=False),
        "merges name a branch that can be deleted, a merge that changes nothing is the barrier, and a pre-merge hook "
        "checks the expected head: `perago_lakefs`. A hard reset checks nothing.",
    ),
    "git": Preset(
        evolve(RELIES_ON[Backing.ATOMIC], blind=True),
        "one transaction of refs, or one push --atomic with a lease for each: head, claim and staging name move "
        "together or not at all: `perago_local`.",
    ),
}
