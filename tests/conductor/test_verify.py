"""``perago verify`` on a real lakeFS, a real Conductor and a real etcd: it holds, and it tells what was taken away."""

from __future__ import annotations

from pathlib import Path

from perago_core.verification import Kind
from perago_lakefs import Connection
from tests.conductor.deployment import over_lakefs
from tests.support.etcd.server import running
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.conductor import Conductor
from tests.support.servers.fixtures import lakefs_server
from tests.support.servers.lakefs import LakeFS

__all__ = ["lakefs_server"]


def test_verify_proves_a_branch_on_real_servers_and_lists_what_was_taken_off_it(
    tmp_path: Path, conductor_server: Conductor, lakefs_server: LakeFS
) -> None:
    """Two runs hold; then somebody takes the last accepted commit off the branch, past everything of ours."""
    connection = Connection(lakefs_server.url, lakefs_server.access_key, lakefs_server.secret_key)
    (tmp_path / "etcd").mkdir()
    with running(tmp_path / "etcd") as etcd:
        made = over_lakefs(tmp_path / "project", conductor_server.api, lakefs_server, etcd=etcd.endpoint)
        with made as (life, target):
            life.register()
            for text in ("a", "longer"):
                ran = life.project.perago("run", life.named("line"), "--param", f"text={text}")
                assert ran.code == 0, ran.err
            held = life.project.perago("verify", width=400)
            assert (held.code, "are there, in order, once, and nothing unaccepted lies between" in held.out) == (
                0,
                True,
            )
            found = life.project.perago("verify", "--json").data
            kinds = [each["kind"] for each in found["commits"]]
            assert found["holds"]
            assert kinds[:4] == [Kind.ACCEPTED.value] * 4, "two steps of each run publish"

            head, before, *_ = [each["ref"] for each in found["commits"]]
            assert Stranger(connection).resets(target, before).status < 300
            broken = life.project.perago("verify", "--json")
            assert (broken.code, broken.data["holds"]) == (1, False)
            assert any(f"was accepted with {head}, which is not on {target}" in each for each in broken.data["broken"])
