"""The coordination port on a real etcd, where the suites do not reach: users, TLS, several endpoints, and its death."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.ports import Entry
from perago_etcd import coordination
from perago_etcd.cluster import Cluster
from perago_etcd.coordination import EtcdCoordination
from perago_etcd.gateway import Gateway
from tests.local.coordinating import done, race_to_create, resolve_policy, take_over, together
from tests.local.crashing import run_in_child
from tests.support.etcd.server import FORGETFUL, Certificates, Etcd, running

TTL = 3.0
KILLS = 5
MARGIN = 0.5
WAIT = 1.0
WRONG = {"user": "worker", "password": "wrong-Word"}
USER = {"user": "worker", "password": "s3cret-Word"}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Generator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Keep the tests of one server apart."""
    return f"perago/{request.node.name}/"


# ---- listings


def test_a_long_listing_comes_in_pages_of_one_moment(etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of etcd is limited, and what changes between two pages is in neither."""
    ask = Gateway.read
    with closing(etcd.recipe(prefix=prefix)()) as port, closing(etcd.recipe(prefix=prefix)()) as other:
        keys = [f"k/{number:02}" for number in range(25)]
        for key in keys:
            port.create_if_absent(key, key)

        def read_and_be_overtaken(gateway: Gateway, path: str, body: dict[str, Any]) -> Answer[dict[str, Any]]:
            answer = ask(gateway, path, body)
            other.create_if_absent("k/99", "came later")
            other.swap("k/12", "k/12", None)
            return answer

        monkeypatch.setattr(coordination, "PAGE", 10)
        monkeypatch.setattr(Gateway, "read", read_and_be_overtaken)
        listed = port.list("k/")
        assert listed == Done(tuple(Entry(key, key) for key in keys), operations=3)
        again = done(port.list("k/"))
        assert [entry.key for entry in again] == [*keys[:12], *keys[13:], "k/99"]
        assert port.list("k/", "k/02", 10).operations == 1


# ---- what the gateway leaves out


def test_what_the_gateway_leaves_out_is_read_as_no_and_nothing(etcd: Etcd, prefix: str) -> None:
    """servers.md, etcd: false, zero and empty fields are not written."""
    with closing(etcd.recipe(prefix=prefix)()) as port:
        assert port.create_if_absent("empty", "") == Done(Entry("empty", ""))
        assert port.get("empty") == Done(Entry("empty", ""))
        assert port.swap("empty", "something", "else") == Done(value=False)
        assert port.swap("empty", "", "full") == Done(value=True)
        assert port.swap("absent", "", "full") == Done(value=False)
        assert port.list("nothing/") == Done(())
        lease = done(port.grant(TTL))
        assert port.keep_alive(lease) == Done(value=True)
        assert port.revoke(lease) == Done(None)
        assert port.keep_alive(lease) == Done(value=False)
        assert port.revoke(lease) == Done(None)
        assert isinstance(port.create_if_absent("bound", "x", lease), NotDone)


def test_a_swap_does_not_free_a_key_from_its_lease(etcd: Etcd, prefix: str) -> None:
    """CO-3."""
    with closing(etcd.recipe(prefix=prefix)()) as port:
        lease = done(port.grant(60))
        port.create_if_absent("k", "one", lease)
        assert port.swap("k", "one", "two") == Done(value=True)
        port.revoke(lease)
        assert port.get("k") == Done(None)


def test_two_prefixes_share_an_etcd_and_no_key(etcd: Etcd, prefix: str) -> None:
    with closing(etcd.recipe(prefix=f"{prefix}a/")()) as one, closing(etcd.recipe(prefix=f"{prefix}b/")()) as other:
        one.create_if_absent("k", "one")
        assert other.get("k") == Done(None)
        assert other.list("") == Done(())
        assert one.list("") == Done((Entry("k", "one"),))


# ---- users and TLS


def test_with_tls_and_a_user_it_works_and_without_either_it_says_why_not(tmp_path: Path) -> None:
    with running(tmp_path, Certificates.made_in(tmp_path)) as server:
        server.demand_users(**USER)
        with closing(server.recipe(**USER)()) as port:
            assert port.create_if_absent("k", "v") == Done(Entry("k", "v"))
            assert port.list("") == Done((Entry("k", "v"),))
            assert port.keep_alive(done(port.grant(60))) == Done(value=True)
        with closing(server.recipe()()) as nobody:
            refused = nobody.swap("k", "v", "w")
            assert isinstance(refused, NotDone)
            assert "user name is empty" in refused.reason
        with closing(server.recipe(**WRONG)()) as wrong:
            refused = wrong.swap("k", "v", "w")
            assert isinstance(refused, NotDone)
            assert "did not let user 'worker' in" in refused.reason
            assert "wrong-Word" not in refused.reason
        with closing(server.recipe(**USER, prefix="foreign/")()) as elsewhere:
            refused = elsewhere.swap("k", None, "w")
            assert isinstance(refused, NotDone)
            assert "permission denied" in refused.reason
        with closing(EtcdCoordination((server.endpoint,), user="worker", password=USER["password"])) as trusting:
            refused = trusting.swap("k", "v", "w")
            assert isinstance(refused, NotDone)
            assert "could not be reached" in refused.reason


def test_a_token_etcd_has_forgotten_is_replaced_without_anybody_noticing(tmp_path: Path) -> None:
    """Tokens live in etcd's memory: after a restart every one of them is unknown."""
    with running(tmp_path) as server:
        server.demand_users(**USER)
        with closing(server.recipe(**USER)()) as port:
            assert port.create_if_absent("k", "1") == Done(Entry("k", "1"))
            server.kill()
            server.start()
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(port.get, ["k"] * 32))
            # The connections of before are dead, so some reads may find that out first; none may be wrong.
            assert {answer for answer in answers if isinstance(answer, Done)} == {Done(Entry("k", "1"))}
            assert port.swap("k", "1", "2") == Done(value=True)


# ---- death and silence


def test_nothing_that_was_answered_is_lost_when_etcd_is_killed_and_started_again(tmp_path: Path) -> None:
    with running(tmp_path) as server, closing(server.recipe(timeout=5.0)()) as port:
        answered: set[str] = set()
        for run in range(KILLS):
            for each in range(20):
                key = f"k{run}-{each:02}"
                if isinstance(port.create_if_absent(key, key), Done):
                    answered.add(key)
            assert len(answered) > 17 * (run + 1)
            server.kill()
            assert isinstance(port.create_if_absent(f"dead-{run}", "x"), NotDone | Unknown)
            server.start()
            assert answered <= {entry.key for entry in done(port.list(""))}


def test_a_version_that_forgets_is_told_to_whoever_asks_the_doctor(etcd: Etcd, tmp_path: Path) -> None:
    """etcd-io/etcd issue 13766."""
    with closing(etcd.recipe()()) as port:
        assert port.caution() == Done("")
    with running(tmp_path, program=FORGETFUL) as old, closing(old.recipe()()) as port:
        said = done(port.caution())
    assert old.version == "3.5.1"
    assert said == f"etcd {old.version} may forget an answered change when it is killed; use 3.5.3 or later"


def test_a_lease_outlives_a_restart_of_etcd_and_its_holder_is_not_told_that_it_is_gone(tmp_path: Path) -> None:
    """A blip must not cost the lock: while etcd is down a renewal is unknown, not refused (W-22)."""
    with running(tmp_path) as server, closing(server.recipe(timeout=5.0)()) as port:
        lease = done(port.grant(60))
        port.create_if_absent("lock", "mine", lease)
        server.kill()
        assert isinstance(port.keep_alive(lease), Unknown)
        server.start()
        assert port.keep_alive(lease) == Done(value=True)
        assert port.get("lock") == Done(Entry("lock", "mine"))


def test_a_write_whose_answer_is_lost_is_unknown_although_it_landed(etcd: Etcd, prefix: str) -> None:
    with losing_answers(etcd) as deaf, closing(EtcdCoordination((deaf,), prefix=prefix, timeout=20.0)) as port:
        assert isinstance(port.create_if_absent("k", "landed"), Unknown)
    with closing(etcd.recipe(prefix=prefix)()) as port:
        assert port.get("k") == Done(Entry("k", "landed"))


def test_a_read_whose_answer_is_lost_is_asked_of_the_next_endpoint(etcd: Etcd, prefix: str) -> None:
    with losing_answers(etcd) as deaf, closing(EtcdCoordination((deaf, etcd.endpoint), prefix=prefix)) as port:
        assert port.get("k") == Done(None)


def test_a_silent_etcd_makes_a_write_unknown(tmp_path: Path) -> None:
    with running(tmp_path) as server, closing(server.recipe(timeout=0.5)()) as port:
        server.send(signal.SIGSTOP)
        assert isinstance(port.create_if_absent("k", "late"), Unknown)


def test_a_write_that_could_not_be_sent_is_not_done_and_goes_to_the_next_endpoint(etcd: Etcd, prefix: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with closing(EtcdCoordination((nobody,))) as port:
            assert isinstance(port.swap("k", None, "v"), NotDone)
            assert isinstance(port.get("k"), NotDone)
        with closing(EtcdCoordination((nobody, etcd.endpoint), prefix=prefix, timeout=20.0)) as port:
            assert port.swap("k", None, "v") == Done(value=True)
            assert port.get("k") == Done(Entry("k", "v"))


def test_something_else_that_speaks_http_is_not_taken_for_etcd() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        pool.submit(_answer_once, listening, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        with closing(EtcdCoordination((f"http://127.0.0.1:{listening.getsockname()[1]}",))) as port:
            answer = port.swap("k", None, "v")
    assert isinstance(answer, Unknown)
    assert "is that etcd's JSON gateway?" in answer.reason


@contextmanager
def losing_answers(etcd: Etcd) -> Generator[str]:
    """Carry one request to etcd, wait for its answer, and hang up without passing it on."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        pool.submit(_carry_one, listening, etcd.port)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def _carry_one(listening: socket.socket, port: int) -> None:
    connection, _ = listening.accept()
    with connection, socket.create_connection(("127.0.0.1", port)) as onward:
        # Head and body come in two pieces; what comes back comes only after both.
        onward.setblocking(False)  # noqa: FBT003  its only argument
        while not select.select([onward], [], [], 0.05)[0]:
            if select.select([connection], [], [], 0.0)[0]:
                onward.sendall(connection.recv(65536))


def _answer_once(listening: socket.socket, answer: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)


# ---- several processes


def test_a_forked_child_makes_its_own_connection_and_leaves_its_parents_alone(etcd: Etcd, prefix: str) -> None:
    with closing(etcd.recipe(prefix=prefix)()) as port:
        assert port.create_if_absent("parent", "wrote") == Done(Entry("parent", "wrote"))
        assert run_in_child(lambda: done(port.create_if_absent("child", "wrote"))) == 0
        assert [entry.key for entry in done(port.list(""))] == ["child", "parent"]


def test_twenty_processes_create_one_key_and_one_wins_each_of_fifty_rounds(etcd: Etcd, prefix: str) -> None:
    """CO-1."""
    rounds = list(zip(*together(20, race_to_create, etcd.recipe(prefix=prefix), 50), strict=True))
    assert len(rounds) == 50
    for each in rounds:
        assert sum(won for won, _ in each) == 1
        assert len({standing for _, standing in each}) == 1


def test_eight_nodes_that_start_at_once_and_see_different_stores_follow_one_decision(etcd: Etcd, prefix: str) -> None:
    """W-08, S-27."""
    found = together(8, resolve_policy, etcd.recipe(prefix=prefix))
    assert len({(each.decision, each.backing, each.epoch) for each in found}) == 1
    assert sum(each.own for each in found) == 1


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lock_is_taken_over_only_after_its_holder_has_stopped_acting(
    etcd: Etcd,
    prefix: str,
    fatal: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CO-3, W-22: the heir's lock begins after the holder's own deadline, and it knows of the unclean end."""
    found = take_over(etcd.recipe(prefix=prefix), TTL, MARGIN, WAIT, fatal)
    assert found.taken_at > found.deadline
    assert not found.clean
    assert found.token == 2
    with capsys.disabled():
        print(f"\netcd: {fatal.name} of the holder: {found} (TTL {TTL:g} + wait {WAIT:g} s)")  # noqa: T201  asked for


# ---- how it is told where etcd is


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param({"endpoints": ()}, "at least one endpoint", id="no endpoint"),
        pytest.param({"endpoints": ("etcd-1:2379",)}, "such as https://host:2379", id="no scheme"),
        pytest.param({"endpoints": ("ftp://etcd-1",)}, "such as https://host:2379", id="another scheme"),
        pytest.param({"endpoints": ("https://u:s3cret@etcd-1",)}, "apart from it", id="a password in the address"),
        pytest.param({"endpoints": ("http://etcd-1:2379",), **USER}, "clear text", id="a password in clear text"),
        pytest.param({"endpoints": ("https://e",), "user": "u"}, "both user and password", id="no password"),
        pytest.param({"endpoints": ("https://e",), "cert": Path("c")}, "both a certificate", id="no key"),
        pytest.param({"endpoints": ("https://e",), "timeout": 0.0}, "more than 0 seconds", id="no time"),
    ],
)
def test_a_malformed_cluster_is_refused_with_the_fix_and_without_the_secret(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Cluster(**wrong)
    assert "s3cret" not in str(caught.value)


def test_the_password_is_never_printed() -> None:
    assert "s3cret" not in repr(Cluster(("https://etcd-1:2379",), user="worker", password=USER["password"]))


def test_a_prefix_is_needed() -> None:
    with pytest.raises(ValueError, match="prefix"):
        EtcdCoordination(("http://127.0.0.1:1",), prefix=" ")
