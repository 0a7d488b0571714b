"""What a probe of a bucket proves and disproves: by what happens, never by what a server says of itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from perago_bucket import BucketStore, Connection
from perago_bucket.client import bucket
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.driver import Ports, run
from perago_core.policy import OnIndeterminate, Policy, PolicyFailed, PolicySettings, Resolved, resolve
from perago_core.policy.messages import Capability
from perago_core.values import Backing
from perago_simulation.ports import SimulatedWorld
from perago_worker.config.load import load
from perago_worker.ops.doctor import examine
from perago_worker.runtime import bootstrap
from perago_worker.stack import open_stack
from tests.support.bucket.harness import connection_to
from tests.support.servers.buckets import BucketServer, VersityGW
from tests.support.servers.faulty_proxy import LOSE_REQUEST, FaultyProxy, Handling, Request, Script, always, when
from tests.support.servers.moto import Moto
from tests.worker.projects import new_project

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    """Give a proxy before a server that believes any signature: else what is stripped would be noticed."""
    with tempfile.TemporaryDirectory() as folder, Moto(folder=Path(folder)) as server, FaultyProxy(server.url) as proxy:
        server.make_bucket("lake")
        yield proxy


def connection(proxy: FaultyProxy) -> Connection:
    options = {
        "aws_endpoint_url": proxy.url,
        "aws_region": "us-east-1",
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
    }
    return Connection(f"s3://lake/{token_hex(8)}", tuple(options.items()), timeout=5.0)


def probed(proxy: FaultyProxy) -> Answer[Capability]:
    place = connection(proxy)
    answer = BucketStore(place).probe()
    proxy.script = always(Handling())
    assert list(bucket(place).list("")) == [], "a probe leaves nothing behind"
    return answer


def without(*fields: str) -> Handling:
    return Handling(without=frozenset(fields))


def is_put(request: Request) -> bool:
    return request.method == "PUT"


def test_a_bucket_that_honours_conditions_is_proved(each_server: BucketServer) -> None:
    """Not on moto: it checks and then writes, and of eight at once sometimes two win, which is a disproof."""
    place = connection_to(each_server, token_hex(8))
    assert BucketStore(place).probe() == Done(Capability.ATOMIC)
    assert list(bucket(place).list("")) == [], "a probe leaves nothing behind"


@pytest.mark.parametrize(
    ("ignored", "seen"),
    [
        (("if-match", "if-none-match"), "a swap made an object that was not there"),
        (("if-match",), "a swap made an object that was not there"),
        (("if-none-match",), "created although there was one"),
    ],
    ids=["both", "swap", "create"],
)
def test_a_bucket_that_ignores_a_condition_is_disproved(
    proxy: FaultyProxy, ignored: tuple[str, ...], seen: str
) -> None:
    """It answers 200 and overwrites: whoever only looked whether conditional writes succeed would believe it."""
    proxy.script = always(without(*ignored))
    answer = probed(proxy)
    assert isinstance(answer, NotDone), answer
    assert seen in answer.reason


def test_a_bucket_that_ignores_a_stale_tag_only_is_disproved(proxy: FaultyProxy) -> None:
    """One that refuses to swap what is not there may still let an old tag pass."""
    puts = iter(range(1_000))

    def from_the_second_swap(request: Request) -> Handling:
        # In order: a swap of nothing, two creations, a swap by the right tag, a swap by an old one.
        return without("if-match") if is_put(request) and next(puts) == 4 else Handling()

    proxy.script = from_the_second_swap
    answer = probed(proxy)
    assert isinstance(answer, NotDone), answer
    assert "a swap by an old tag overwrote" in answer.reason


def test_a_bucket_that_says_it_has_no_conditions_is_disproved(proxy: FaultyProxy) -> None:
    proxy.script = when(is_put, Handling(refusal=501))
    answer = probed(proxy)
    assert isinstance(answer, NotDone), answer
    assert "has no conditional writes" in answer.reason


@pytest.mark.parametrize("trouble", [Handling(refusal=503), LOSE_REQUEST], ids=["unavailable", "unanswered"])
def test_a_bucket_that_does_not_answer_is_neither_proved_nor_disproved(proxy: FaultyProxy, trouble: Handling) -> None:
    """A disproof is final; a minute of silence must not weaken a cluster for good."""
    proxy.script = when(is_put, trouble)
    assert isinstance(probed(proxy), Unknown)


# ---- What a cluster decides on it: every setting, on behaviour.


class CountingStore(BucketStore):
    """Counts how often it was probed."""

    probes = 0

    def probe(self) -> Answer[Capability]:
        self.probes += 1
        return super().probe()


UNAVAILABLE = when(is_put, Handling(refusal=503))


@pytest.mark.parametrize(
    ("policy", "script", "probes", "decided"),
    [
        (Policy.AUTO, None, 1, Backing.ATOMIC),
        (Policy.AUTO, always(without("if-match")), 1, Backing.LOCKED),
        (Policy.AUTO, UNAVAILABLE, 30, Backing.LOCKED),
        (Policy.ENABLE, None, 1, Backing.ATOMIC),
        (Policy.ENABLE, always(without("if-match")), 1, None),
        (Policy.ENABLE, UNAVAILABLE, 10, None),
        (Policy.DISABLE, None, 0, Backing.LOCKED),
    ],
    ids=[
        "auto, proved", "auto, disproved", "auto, silent", "enable, proved", "enable, disproved", "enable, silent",
        "disable",
    ],
)  # fmt: skip
def test_a_cluster_decides_by_what_the_bucket_does(
    server: VersityGW,
    proxy: FaultyProxy,
    *,
    policy: Policy,
    script: Script | None,
    probes: int,
    decided: Backing | None,
) -> None:
    """Proved once wins for all; a disproof is final; silence is asked again with a back-off, and then it is locks."""
    if script is not None:
        proxy.script = script
    store = CountingStore(connection_to(server, token_hex(8)) if script is None else connection(proxy))
    world = SimulatedWorld()
    settings = PolicySettings(policy, OnIndeterminate.FALLBACK, coordination=True, node="worker-1")
    ports = Ports(
        orchestrator=world.orchestrator(),
        store=store,
        workspace=None,
        clock=world.clock(),
        coordination=world.coordination(),
    )
    found = run(resolve(settings), ports)
    proxy.script = always(Handling())
    assert store.probes == probes
    if decided is None:
        assert isinstance(found, PolicyFailed)
        assert found.next_action
    else:
        assert isinstance(found, Resolved)
        assert found.backing is decided
        waited = world.clock().now()
        assert (waited > 0) is (probes > 1), "whoever asks again waits in between"


@pytest.mark.parametrize(
    ("script", "fix"),
    [
        (always(without("if-match", "if-none-match")), "a lease does not replace conditional writes here"),
        (UNAVAILABLE, "start it, or correct its address and keys"),
    ],
    ids=["ignored", "silent"],
)
def test_who_has_a_bucket_without_conditions_is_told_that_a_lease_is_no_substitute(
    proxy: FaultyProxy, tmp_path: Path, caplog: pytest.LogCaptureFixture, script: Script, fix: str
) -> None:
    """The ladder's line *no conditions* says what is lost. ``auto`` goes on with leases, as it is asked, and warns."""
    with new_project(tmp_path / "project") as project:
        place = connection(proxy)
        store = {"kind": "bucket", "url": place.url, "endpoint": proxy.url, "access_key": "k", "secret_key": "s"}
        settings = load(project.folder, {"store": store}, {})
        proxy.script = script
        (found,) = (each for each in examine(settings, dict) if each.what == "store")
        assert not found.fine
        assert fix in found.fix
        if script is not UNAVAILABLE:
            node = bootstrap.settle_policy(open_stack(settings), settings, "me")
            assert node.backing is Backing.LOCKED
            assert fix in caplog.text
        proxy.script = always(Handling())
