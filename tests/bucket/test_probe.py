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
from perago_core.policy.messages import Capability
from tests.support.servers.faulty_proxy import LOSE_REQUEST, FaultyProxy, Handling, Request, always, when
from tests.support.servers.moto import Moto

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    """Give a proxy before a server that believes any signature: else what is stripped would be noticed."""
    with tempfile.TemporaryDirectory() as folder, Moto(folder=Path(folder)) as server, FaultyProxy(server.url) as proxy:
        server.make_bucket("lake")
        yield proxy


def probed(proxy: FaultyProxy) -> Answer[Capability]:
    options = {
        "aws_endpoint_url": proxy.url,
        "aws_region": "us-east-1",
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
    }
    connection = Connection(f"s3://lake/{token_hex(8)}", tuple(options.items()), timeout=5.0)
    answer = BucketStore(connection).probe()
    proxy.script = always(Handling())
    assert list(bucket(connection).list("")) == [], "a probe leaves nothing behind"
    return answer


def without(*fields: str) -> Handling:
    return Handling(without=frozenset(fields))


def is_put(request: Request) -> bool:
    return request.method == "PUT"


def test_a_bucket_that_honours_conditions_is_proved(proxy: FaultyProxy) -> None:
    assert probed(proxy) == Done(Capability.ATOMIC)


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
