"""`perago why`: the attempt, code, parameters and input that made a file, accepted or not, or unknown and said so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pygit2
import pytest
from attrs import evolve

from perago_core.answers import Done, Unknown
from perago_core.plan import PublishPlan
from perago_core.results import Completed, Outcome
from perago_worker.ops import refs
from perago_worker.ops.refs import RefError
from perago_worker.ops.why import why
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded
from tests.worker.projects import MAIN


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("why")) as made:
        yield made


def published(worker: Embedded, task: str = "write", **params: object) -> Completed:
    worker.start(task, worker.head(), **params)
    outcome: Outcome = worker.run()
    assert isinstance(outcome.result, Completed)
    return outcome.result


def asked(worker: Embedded, *words: str, code: int = 0) -> dict[str, Any]:
    ran = worker.project.perago("why", *words, "--json")
    assert ran.code == code, ran.err
    found: dict[str, Any] = ran.data
    return found


def test_a_file_is_traced_to_its_attempt_code_parameters_and_input(worker: Embedded) -> None:
    before = worker.head()
    made = published(worker, text="traced", count=1)
    found = asked(worker, "data/0.txt")
    assert (found["commit"], found["at"]) == (made.ref, made.ref)
    assert found["inputs"] == [{"repository": "lake", "branch": "main", "commit": before}]
    assert found["attempt"]["execution"] == made.execution
    assert found["attempt"]["number"] == 1
    assert found["attempt"]["evidence"] == ["claim", "ledger", "orchestrator"]
    assert found["code"] == worker.runtime.codes["write"]
    assert found["params"] == {"text": "traced", "count": 1}
    assert found["accepted"] is True
    assert found["unknown"] == []


def test_a_later_commit_that_left_the_file_alone_did_not_make_it(
    worker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where history comes in pages, and where the look starts at an older commit or the beginning of its id."""
    monkeypatch.setattr(refs, "PAGE", 2)
    first = published(worker, text="first", count=2)
    for number in range(4):
        published(worker, text=f"only the first file {number}", count=1)
    last = worker.head()
    assert asked(worker, "data/1.txt")["commit"] == first.ref
    assert asked(worker, "data/0.txt")["commit"] == last
    assert asked(worker, "data/0.txt", "--at", first.ref[:12])["commit"] == first.ref
    assert asked(worker, "data/0.txt", "--at", first.ref)["params"]["text"] == "first"
    assert asked(worker, "data")["commit"] == last, "a folder is as new as the newest of it"
    ran = worker.project.perago("why", "data/1.txt", "--limit", "2")
    assert ran.code == 2
    assert "unknown: 'data/1.txt' is unchanged in the last 2 commits" in " ".join(ran.err.split())


def test_an_abandoned_publication_is_never_accepted_until_it_is_adopted(worker: Embedded) -> None:
    def die(publish: Any, plan: PublishPlan) -> None:  # noqa: ANN401  a port's method
        publish(plan)
        raise Died

    worker.start("write", worker.head(), text="abandoned", count=1)
    with pytest.raises(Died):
        worker.run(store=Faulty(worker.stack.store, publish=die))
    found = asked(worker, "data/0.txt", code=1)
    assert (found["accepted"], found["attempt"]["number"]) == (None, 1)
    assert found["unknown"] == ["whether it is accepted: its run is under way"]
    adopted = worker.run()
    assert adopted.adopted
    found = asked(worker, "data/0.txt")
    assert (found["accepted"], found["attempt"]["number"]) == (True, 1), "the second attempt did not make it"


def test_a_run_that_failed_for_good_leaves_what_was_never_accepted(worker: Embedded) -> None:
    def die(publish: Any, plan: PublishPlan) -> None:  # noqa: ANN401  a port's method
        publish(plan)
        raise Died

    workflow = worker.start("write", worker.head(), text="failed", count=1)
    with pytest.raises(Died):
        worker.run(store=Faulty(worker.stack.store, publish=die))
    worker.words.stop(workflow, "seen enough")
    found = asked(worker, "data/0.txt")
    assert (found["accepted"], found["unknown"]) == (False, [])
    shown = worker.project.perago("why", "data/0.txt")
    assert "never accepted" in shown.out
    assert worker.project.perago("recover", "--roll-back").code == 0


def test_what_orchestrator_and_ledger_have_forgotten_is_unknown(worker: Embedded) -> None:
    made = published(worker, text="forgotten", count=1)
    stack = evolve(worker.stack, coordination=None)
    found = why(stack, worker.words, MAIN, "data/0.txt")
    assert found.accepted is True, "the orchestrator knows"
    task = found.maker.task_id if found.maker else ""
    gone: Any = Faulty(worker.words, find=always(None))
    found = why(stack, gone, MAIN, "data/0.txt")
    assert (found.commit.ref, found.accepted, found.params) == (made.ref, None, None)
    assert found.maker is not None
    assert found.maker.evidence == ("claim",)
    assert f"the orchestrator does not know task {task} any more" in found.unknown[0]
    forgetful: Any = evolve(stack, store=Faulty(worker.stack.store, claims=always(Done(()))))
    found = why(forgetful, gone, MAIN, "data/0.txt")
    assert found.maker is not None
    assert found.maker.evidence == ()
    assert any("its message says so, and neither claim nor ledger" in each for each in found.unknown)
    silent: Any = evolve(worker.stack, coordination=Faulty(worker.stack.coordination, get=always(Unknown("silence"))))
    found = why(silent, gone, MAIN, "data/0.txt")
    assert "what the ledger says: silence" in found.unknown


def test_a_strangers_commit_is_nobodys_and_a_message_proves_nothing(worker: Embedded) -> None:
    """A stranger may write any message; what it names is not taken for the maker unless somebody else says so."""
    made = published(worker, text="real", count=1)
    said = worker.stack.store.look("lake", made.ref)
    assert isinstance(said, Done)
    assert said.value is not None
    intrude(worker, "data/0.txt", "not an attempt's", "by hand")
    found = asked(worker, "data/0.txt", code=1)
    assert (found["attempt"], found["accepted"], found["commit"]) == (None, None, worker.head())
    assert "its message names no attempt" in found["unknown"][0]
    intrude(worker, "data/0.txt", "forged", said.value.message)
    found = asked(worker, "data/0.txt", code=1)
    assert found["attempt"]["evidence"] == []
    assert any("its message says so, and neither claim" in each for each in found["unknown"])
    assert found["accepted"] is None


def intrude(worker: Embedded, path: str, text: str, message: str) -> None:
    """Put a commit onto the branch as somebody would who knows nothing of us: with git."""
    repository = pygit2.Repository(str(next((worker.project.folder / ".perago" / "store").glob("lake*"))))
    head = repository.branches["main"].target
    index = pygit2.Index()
    index.read_tree(repository[head].peel(pygit2.Tree))
    index.add(pygit2.IndexEntry(path, repository.create_blob(text.encode()), pygit2.enums.FileMode.BLOB))
    tree = index.write_tree(repository)
    who = pygit2.Signature("stranger", "stranger@example.org")
    repository.create_commit("refs/heads/main", who, who, message, tree, [head])


def test_what_is_not_there_and_what_cannot_be_read_is_said(worker: Embedded) -> None:
    published(worker, text="there", count=1)
    ran = worker.project.perago("why", "data/none.txt")
    assert ran.code == 2
    assert "found nothing of that name" in " ".join(ran.err.split())
    silent: Any = Faulty(worker.stack.store, history=always(Unknown("the server is away")))
    with pytest.raises(RefError, match="unknown: the history of lake/main cannot be read: the server is away"):
        why(evolve(worker.stack, store=silent), worker.words, MAIN, "data/0.txt")


def test_a_bucket_tells_the_same(tmp_path: Path) -> None:
    """Its history and its commits are read by the same calls; the bucket is one in memory, that of this process."""
    bucket = f'\n[store]\nkind = "bucket"\nurl = "memory://{token_hex(8)}"\n'
    with embedded(tmp_path / "project", more=bucket) as worker:
        first = published(worker, text="first", count=2)
        second = published(worker, text="second", count=1)
        found = asked(worker, "data/1.txt")
        assert (found["commit"], found["inputs"][0]["commit"]) == (first.ref, worker.first)
        assert (found["accepted"], found["params"]["text"]) == (True, "first")
        assert asked(worker, "data/0.txt")["commit"] == second.ref
        assert asked(worker, "data/0.txt", "--at", first.ref[:12])["code"] == worker.runtime.codes["write"]
