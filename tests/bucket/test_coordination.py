"""What coordination on a bucket does not have, and says so."""

from __future__ import annotations

from perago_bucket import BucketCoordination
from perago_core.answers import NotDone
from tests.support.bucket.harness import BucketHarness


def test_a_lease_is_refused_with_what_to_use_instead(memory: BucketHarness) -> None:
    port = BucketCoordination(memory.connection)
    refusals = [
        port.grant(10.0),
        port.keep_alive("lease"),
        port.revoke("lease"),
        port.create_if_absent("lock", "mine", "lease"),
    ]
    for answer in refusals:
        assert isinstance(answer, NotDone)
        assert "etcd" in answer.reason
    assert port.list("").value == ()  # type: ignore[union-attr]
