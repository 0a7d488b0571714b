"""What a run tells the outside: a counter for each fence outcome, replacement, refusal, unknown and leak; spans; logs.

On a real run each: the embedded store and orchestrator, bodies in their own processes, the SDK's own exporters.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from attrs import define, field
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perago_conformance.support import attempt_at, done, plan_for, stage
from perago_core.answers import NotDone, Unknown
from perago_core.budget import PublishBudget
from perago_core.machine.trace import TraceRecord, read_record
from perago_core.measured import CallTimes, Measured
from perago_core.plan import PublishPlan
from perago_core.results import Completed, FailedTerminally
from perago_core.values import Attempt, Backing, CommitRef
from perago_worker.runtime.measuring import BudgetWatch
from perago_worker.runtime.telemetry import COUNTERS, HISTOGRAMS, OpenTelemetry, Silence, instruments, trace_file
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded
from tests.worker.projects import MAIN, TASKS, new_project

Publishing = Callable[[PublishPlan], object]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("counted")) as made:
        yield made


@define
class Watch:
    """Instruments that keep what they are told."""

    reader: InMemoryMetricReader = field(factory=InMemoryMetricReader)
    spans: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    instruments: OpenTelemetry = field(init=False)

    def __attrs_post_init__(self) -> None:
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.instruments = OpenTelemetry(MeterProvider([self.reader]), tracers)

    def counted(self, name: str, *by: str) -> dict[Any, int]:
        """Give one counter by some of its attributes."""
        return self._summed(name, by, "value")

    def recorded(self, name: str, *by: str) -> dict[Any, int]:
        """Give how many measurements one histogram holds, by some of its attributes."""
        return self._summed(name, by, "count")

    def _summed(self, name: str, by: tuple[str, ...], what: str) -> dict[Any, int]:
        found: dict[Any, int] = {}
        data: Any = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        for point in (
            point
            for scope in scopes
            for metric in scope.metrics
            for point in metric.data.data_points
            if metric.name == f"perago.{name}"
        ):
            kept = tuple(point.attributes[each] for each in by)
            key = kept[0] if len(kept) == 1 else kept
            found[key] = found.get(key, 0) + getattr(point, what)
        return found


def test_a_publication_is_counted_by_the_fences_verdict_and_by_what_came_of_it(worker: Embedded) -> None:
    watch = Watch()
    worker.start("write", worker.head(), text="counted")
    outcome = worker.run(instruments=watch.instruments)
    assert isinstance(outcome.result, Completed)
    assert watch.counted("fence", "verdict", "task", "backing") == {("merge", "write", "atomic"): 1}
    assert watch.counted("outcomes", "result", "why", "taken") == {("completed", "none", "accepted"): 1}
    for name in ("replacements", "refusals", "unknowns", "leaks"):
        assert watch.counted(name) == {}, name
    rows = watch.counted("steps", "row")
    assert rows["H1"] == rows["P2"] == 1


def test_a_no_op_is_counted_as_nothing_to_publish(worker: Embedded) -> None:
    """S-12: the same content again moves nothing."""
    watch = Watch()
    worker.start("write", worker.head(), text="twice")
    worker.run()
    before = worker.head()
    worker.start("write", before, text="twice")
    worker.run(instruments=watch.instruments)
    assert watch.counted("fence", "verdict") == {"nothing": 1}
    assert worker.head() == before


def test_an_adoption_is_counted(worker: Embedded) -> None:
    """A worker that is gone right after its publication leaves it abandoned; the next attempt reports it."""
    watch = Watch()

    def die(publish: Publishing, plan: PublishPlan) -> None:
        publish(plan)
        raise Died

    workflow = worker.start("write", worker.head(), text="adopted")
    with pytest.raises(Died):
        worker.run(instruments=watch.instruments, store=Faulty(worker.stack.store, publish=die))
    abandoned = worker.head()
    outcome = worker.run(instruments=watch.instruments)
    assert isinstance(outcome.result, Completed)
    assert worker.head() == abandoned == outcome.result.ref
    assert watch.counted("replacements", "kind") == {}
    assert watch.counted("fence", "verdict") == {"merge": 1, "adopt": 1}
    assert watch.counted("adoptions", "task") == watch.counted("retries", "task") == {"write": 1}
    view = worker.words.view(workflow)
    assert view is not None
    assert [each.number for each in view.attempts] == [1, 2]


def test_a_refusal_by_the_fence_is_counted_as_its_verdict(worker: Embedded) -> None:
    """The branch went elsewhere while the body ran: nothing is published (S-15)."""
    watch = Watch()
    store: Any = worker.stack.store
    harness: Any = SimpleNamespace(port=store)

    def after_a_stranger(commit: Callable[..., Any], *words: object) -> object:
        stranger = attempt_at(worker.head(), target=MAIN)
        done(store.publish(plan_for(harness, stranger, stage(harness, stranger, {"all.txt": b"stranger"}))))
        return commit(*words)

    worker.start("write", worker.head(), text="too late")
    outcome = worker.run(instruments=watch.instruments, store=Faulty(store, commit=after_a_stranger))
    assert isinstance(outcome.result, FailedTerminally)
    why = outcome.result.refusal.classification.value
    assert watch.counted("refusals", "why") == {why: 1}
    assert watch.counted("fence", "verdict") == {"refuse": 1}
    for each in worker.words.running():
        worker.words.stop(each.workflow_id, "seen enough")


def test_a_refusal_before_the_body_is_counted_by_why(worker: Embedded) -> None:
    """The branch went elsewhere before the attempt began: its body does not run, so the fence is never asked."""
    watch = Watch()
    worker.start("write", worker.head(), text="in time")
    worker.run()
    before = worker.head()
    worker.start("write", worker.first, text="late")
    outcome = worker.run(instruments=watch.instruments)
    assert isinstance(outcome.result, FailedTerminally)
    why = outcome.result.refusal.classification.value
    assert watch.counted("refusals", "why") == {why: 1}
    assert watch.counted("fence", "verdict") == {}
    assert watch.counted("outcomes", "result", "why") == {("failedterminally", why): 1}
    assert worker.head() == before
    for each in worker.words.running():
        worker.words.stop(each.workflow_id, "seen enough")


def test_an_answer_nobody_got_is_counted_by_what_was_asked(worker: Embedded) -> None:
    watch = Watch()

    def lose(publish: Publishing, plan: PublishPlan) -> Unknown:
        publish(plan)
        return Unknown("the connection broke")

    worker.start("write", worker.head(), text="unknown")
    outcome = worker.run(instruments=watch.instruments, store=Faulty(worker.stack.store, publish=lose))
    assert watch.counted("unknowns", "command") == {"Publish": 1}
    assert isinstance(outcome.result, Completed), "what is provably ours is ours"


def test_what_is_left_behind_is_counted_and_logged_with_the_command_that_removes_it(
    worker: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    """P-32: the result stands; the name that could not be dropped is a leak."""
    watch = Watch()
    caplog.set_level(logging.WARNING, "perago")
    worker.start("write", worker.head(), text="leak")
    refuse = Faulty(worker.stack.store, drop=always(NotDone("not today")))
    outcome = worker.run(instruments=watch.instruments, store=refuse)
    assert isinstance(outcome.result, Completed)
    assert watch.counted("leaks", "task") == {"write": len(outcome.left_behind)}
    assert outcome.left_behind
    assert any("left behind" in line and "`perago gc` removes it" in line for line in caplog.messages)


def test_an_attempt_is_a_span_with_an_event_for_each_step(worker: Embedded) -> None:
    watch = Watch()
    worker.start("write", worker.head(), text="span")
    worker.run(instruments=watch.instruments)
    (span,) = watch.spans.get_finished_spans()
    assert span.name == "attempt"
    assert {"task", "backing", "task_id"} <= set(span.attributes or {})
    assert len(span.events) == sum(watch.counted("steps", "row").values())
    assert [event.name for event in span.events][:3] == ["ClaimsListed", "WorkspaceReady", "BodyDone"]
    assert dict(span.events[1].attributes or {}) == {"row": "W1", "next": "BODY"}


def test_there_is_one_structured_record_for_each_step(worker: Embedded) -> None:
    watch = Watch()
    worker.start("write", worker.head(), text="traced")
    worker.run(instruments=watch.instruments)
    newest = max(worker.project.traces(), key=lambda path: path.stat().st_mtime_ns)
    state, *records, last = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]
    assert (state["type"], last["type"]) == ("State", Measured.__name__)
    assert {record["type"] for record in records} == {TraceRecord.__name__}
    assert [record["sequence"] for record in records] == list(range(len(records)))
    assert all(record["at"] > 0 for record in records)
    assert len(records) == sum(watch.counted("steps", "row").values())


def test_every_call_is_measured_for_dashboards_and_in_the_trace(worker: Embedded) -> None:
    """A histogram for each call, one for the publication, and how many requests the attempt took."""
    watch = Watch()
    worker.start("write", worker.head(), text="measured")
    assert isinstance(worker.run(instruments=watch.instruments).result, Completed)
    newest = max(worker.project.traces(), key=lambda path: path.stat().st_mtime_ns)
    told = read_record(newest.read_text(encoding="utf-8").splitlines()[-1])
    assert isinstance(told, Measured)
    calls = {each.call: each.calls for each in told.calls}
    assert calls["store.publish"] == calls["workspace.run"] == calls["orchestrator.report"] == 1
    assert watch.recorded("call.seconds", "call") == calls
    assert watch.recorded("publication.seconds", "task") == {"write": 1}
    assert told.publication is not None
    (publish,) = (each for each in told.calls if each.call == "store.publish")
    assert 0 < publish.longest < told.publication
    assert set(watch.recorded("attempt.operations", "class")) == {name for name, _ in told.operations}
    assert dict(told.operations)["target"] >= 1


def test_nothing_published_is_no_publication_time(worker: Embedded) -> None:
    watch = Watch()
    worker.start("write", worker.head(), text="before")
    worker.run()
    worker.start("write", worker.first, text="late")
    assert isinstance(worker.run(instruments=watch.instruments).result, FailedTerminally)
    assert watch.recorded("publication.seconds", "task") == {}
    for each in worker.words.running():
        worker.words.stop(each.workflow_id, "seen enough")


def test_a_worker_warns_once_when_publications_take_longer_than_the_budget_says(
    worker: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    """What was observed is compared with what was typed in."""
    caplog.set_level(logging.WARNING, "perago")
    slow = Measured((reduce(CallTimes.with_call, [0.2] * 30 + [2.34] * 10, CallTimes("store.publish")),))
    watch = BudgetWatch(PublishBudget())
    watch.add(slow)
    watch.add(slow)
    (warned,) = caplog.messages
    assert "40 publications took (p99 2.34 s)" in warned
    assert "set publish_p99 = 2.4 in [budget]" in warned
    BudgetWatch(PublishBudget(publish_p99=2.4)).add(slow)
    few = BudgetWatch(PublishBudget())
    few.add(Measured((CallTimes("store.publish").with_call(100.0),)))
    worker.start("write", worker.head(), text="watched")
    worker.run(budget_watch=few)
    assert caplog.messages == [warned], "a handful proves nothing"


def test_dashboards_are_shown_the_budget_beside_what_was_observed() -> None:
    """The warning of the worker as numbers: after a handful nothing is too short, whatever it took."""

    class Shown(Silence):
        values: ClassVar[dict[str, float]] = {}

        def show(self, name: str, value: float, attributes: object) -> None:
            del attributes
            self.values[name] = value

    watch = BudgetWatch(PublishBudget(publish_p99=1.0), Shown())
    watch.add(Measured((CallTimes("store.look").with_call(9.0),)))
    assert Shown.values == {}
    watch.add(Measured((CallTimes("store.publish").with_call(2.0),)))
    observed, budget, short = "observed.publish_p99.seconds", "budget.publish_p99.seconds", "budget.short"
    assert Shown.values == {observed: 2.0, budget: 1.0, short: 0.0}
    watch.add(Measured((reduce(CallTimes.with_call, [2.5] * 30, CallTimes("store.publish")),)))
    assert Shown.values == {observed: 2.5, budget: 1.0, short: 1.0}


def test_instruments_that_fail_change_nothing(worker: Embedded, caplog: pytest.LogCaptureFixture) -> None:
    """Everything here watches: no failure of it changes a result."""

    class Broken(Silence):
        def count(self, name: str, attributes: object, by: int = 1) -> None:
            del by
            raise RuntimeError(f"no {name} today: {attributes}")

        def record(self, name: str, value: float, attributes: object) -> None:
            raise RuntimeError(f"no {name} of {value} today: {attributes}")

    caplog.set_level(logging.WARNING, "perago")
    workflow = worker.start("write", worker.head(), text="watched badly")
    worker.run(instruments=Broken())
    view = worker.words.view(workflow)
    assert view is not None
    assert view.succeeded
    assert any("was not counted: no outcomes today" in line for line in caplog.messages)
    assert any("was not recorded: no attempt.operations" in line for line in caplog.messages)


def test_a_trace_that_cannot_be_written_changes_nothing(worker: Embedded, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    workflow = worker.start("write", worker.head(), text="untraced")
    worker.run(traces=blocked)
    view = worker.words.view(workflow)
    assert view is not None
    assert view.succeeded


def test_every_counter_says_what_it_counts_and_without_the_extra_nothing_is_counted() -> None:
    assert all((*COUNTERS.values(), *(says for _, says in HISTOGRAMS.values())))
    assert isinstance(instruments(), OpenTelemetry)
    silence = Silence()
    silence.count("steps", {})
    silence.record("call.seconds", 1.0, {})
    silence.note("step", {})
    with silence.span("attempt", {}):
        pass


def test_a_trace_is_named_so_that_nothing_leaves_its_folder(worker: Embedded, tmp_path: Path) -> None:
    """Paths from outside are checked: a task name is not a path."""
    worker.start("write", worker.head(), text="named")
    worker.run()
    assert all(re.fullmatch(r"write-\w+_write-\d{3}-\w+\.jsonl", path.name) for path in worker.project.traces())
    odd = Attempt("wf", "1", 0, "wf/../../etc/passwd\n", 1, "e", MAIN, CommitRef("A"), Backing.SOFT)
    assert trace_file(tmp_path, odd) == tmp_path / "wf_.._.._etc_passwd_-001-e.jsonl"


SECRETS = {
    "CONDUCTOR_AUTH_SECRET": "geheim-conductor-7f3a",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "geheim-lakefs-91bc",
    "PERAGO_COORDINATION__PASSWORD": "geheim-etcd-55d0",
}

#: A body that shows everything it can see.
NOSY = TASKS.replace(
    "    for number in range(params.count):",
    '    import os\n    print("ENVIRONMENT", dict(os.environ))\n    for number in range(params.count):',
)


def test_secrets_are_in_no_log_no_trace_no_output_and_no_file(tmp_path: Path) -> None:
    """All that a run with secrets writes and says is searched for them; a body does not even get them."""
    with new_project(tmp_path / "project", NOSY) as project:
        said: list[str] = []

        def run(*words: str, code: int = 0) -> str:
            done = project.process(*words, **SECRETS)
            assert done.returncode == code, done.stderr
            said.extend((done.stdout, done.stderr))
            return done.stdout

        workflow = json.loads(run("run", "both", "--param", "text=a", "--json"))
        task = workflow["attempts"][0]["task_id"]
        run("run", "broken", code=1)
        for words in (
            ("worker", "--until-idle", "--verbose", "--json"),
            ("check", "--json"),
            ("doctor", "--json"),
            ("explain", task),
            ("timeline", workflow["workflow_id"], "--html", str(tmp_path / "project" / "page.html"), "--json"),
            ("audit", "--json"),
        ):
            run(*words)
        run("--set", "coordination.pasword=geheim-typed-1234", "check", code=2)
        run("--set", "budget.lease_ttl=x", "check", code=2)
        assert "ENVIRONMENT" in "".join(said), "the body did show its environment"
        files = [path.read_bytes() for path in project.folder.rglob("*") if path.is_file()]
        assert len(files) > 10
        for secret in (*SECRETS.values(), "geheim-typed-1234"):
            assert not any(secret in text for text in said)
            assert not any(secret.encode() in content for content in files)
