"""What the page asks for. Each answer is what a command of that name prints with ``--json``, and comes from its code.

An endpoint returns data, raises ``UnansweredError`` for what nobody can say now, and any other ``CommandError`` for a
question that makes no sense. An unknown is never an empty list: the page shows the two differently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from perago_core.answers import Answer, Done
from perago_core.ledger.records import Audit, SettlementKind, Unreadable
from perago_core.pipelines import Pipelines, PipelineView, steps_of
from perago_core.values import Claim, Target
from perago_report import page
from perago_worker.api.errors import UserError
from perago_worker.cli.audit import describe_audit
from perago_worker.cli.cancel import end_run
from perago_worker.cli.console import CommandError, UnansweredError
from perago_worker.cli.explain import describe_findings, findings_on
from perago_worker.cli.finding import find_attempts
from perago_worker.cli.history import commits_of, describe_commit, never_accepted
from perago_worker.cli.logs import describe_log_line
from perago_worker.cli.policy import describe_standing, standing_of
from perago_worker.cli.project import Project, target_of
from perago_worker.cli.recover import describe_outcome
from perago_worker.cli.render import describe, what_next
from perago_worker.cli.retry import require_retriable
from perago_worker.cli.runs import STATES, describe_line, states_named
from perago_worker.cli.timeline import story_of
from perago_worker.cli.verify import describe_verdict
from perago_worker.config.settings import targets_of
from perago_worker.ops.adopted import adoptions_among
from perago_worker.ops.locks import lock_of
from perago_worker.ops.recover import audits, open_intents
from perago_worker.ops.revert import reverts_among
from perago_worker.ops.verify import verify
from perago_worker.version import version

if TYPE_CHECKING:
    from perago_core.ports import Coordination

T = TypeVar("T")
Query: TypeAlias = Mapping[str, str]
Data: TypeAlias = dict[str, Any]

#: How much one answer holds at most: runs and commits in a list, lines of a log, records of a ledger.
_RUNS, _COMMITS, _LINES, _RECORDS = 200, 500, 2000, 200


class Endpoints:
    """What is answered about one project. Usable from any thread, as its systems are; one action at a time."""

    def __init__(self, project: Project, *, actions: bool) -> None:
        self._project = project
        self._stack = project.stack
        self._actions = actions
        self._acting = threading.Lock()
        self.looks: Mapping[str, Callable[[Query], Data]] = {
            "project": self._about,
            "runs": self._runs,
            "run": self._run,
            "find": self._find,
            "logs": self._logs,
            "explain": self._explain,
            "history": self._history,
            "verify": self._verify,
            "policy": self._policy,
            "ledger": self._ledger,
            "locks": self._lock,
            "claims": self._claims,
            "audit": self._audit,
        }
        #: Empty unless they were allowed when the server was started.
        self.acts: Mapping[str, Callable[[Query], Data]] = (
            {"cancel": self._cancel, "retry": self._retry} if actions else {}
        )

    def timeline(self, query: Query) -> str:
        """Return the page that ``perago timeline --html`` writes of a run."""
        return page(story_of(self._project, self._view(query).workflow_id))

    # ---- runs

    def _about(self, _query: Query) -> Data:
        settings = self._project.settings
        return {
            "project": self._project.folder.name,
            "version": version(),
            "actions": self._actions,
            "now": self._stack.clock.wall(),
            "states": list(STATES),
            "pipelines": sorted(settings.pipelines),
            "targets": [str(each) for each in targets_of(settings)],
            "parts": {
                "store": settings.store.kind,
                "orchestrator": settings.orchestrator.kind,
                "coordination": settings.coordination.kind,
            },
        }

    def _runs(self, query: Query) -> Data:
        limit, skip = _number(query, "limit", 50, _RUNS), _number(query, "skip", 0)
        states = states_named([each for each in query.get("state", "").split(",") if each])
        # One more than is shown says whether there are more.
        found = self._pipelines().newest(limit + 1, skip, name=query.get("pipeline", ""), states=states)
        return {"runs": [describe_line(each) for each in found[:limit]], "more": len(found) > limit, "skip": skip}

    def _run(self, query: Query) -> Data:
        return self._described(self._view(query))

    def _described(self, view: PipelineView) -> Data:
        declared = self._project.settings.pipelines.get(view.name)
        return {
            **describe(view),
            "running": view.running,
            "target": None if view.target is None else str(view.target),
            "steps": [] if declared is None else [each.label for each in steps_of(view.name, declared)],
            "next": what_next(view),
            "now": self._stack.clock.wall(),
        }

    def _find(self, query: Query) -> Data:
        found = find_attempts(self._pipelines(), _given(query, "what"))
        only = found.attempts[0].task_id if len(found.attempts) == 1 < len(found.run.attempts) else None
        return {"workflow_id": found.run.workflow_id, "task": only}

    def _logs(self, query: Query) -> Data:
        """Return what was written of the named attempts since; ``seen`` is TASK:LINES, one after the other."""
        pipelines, view = self._pipelines(), self._view(query)
        asked = [each.rpartition(":") for each in query.get("seen", "").split(",") if each]
        attempts = {each.task_id: each for each in view.attempts}
        lines: list[Data] = []
        seen: dict[str, int] = {}
        more = False
        for task, _, count in asked:
            if task not in attempts or not count.isdecimal():
                raise CommandError(f"expected attempts of {view.workflow_id} as TASK:LINES; found {task}:{count}")
            log_lines = pipelines.log(task)[int(count) :]
            taken = log_lines[: _LINES - len(lines)]
            more = more or len(taken) < len(log_lines)
            lines += [describe_log_line(attempts[task], each) for each in taken]
            seen[task] = int(count) + len(taken)
        return {"lines": lines, "seen": seen, "more": more}

    def _explain(self, query: Query) -> Data:
        return {"findings": describe_findings(findings_on(self._project, self._pipelines(), _given(query, "task")))}

    # ---- branches

    def _history(self, query: Query) -> Data:
        target = self._target(query)
        limit = _number(query, "limit", 50, _COMMITS)
        commits = self._there(target, lambda: commits_of(self._project, target, limit))
        doubtful = never_accepted(self._project, target)
        reverted, adopted = reverts_among(self._stack, target, commits), adoptions_among(self._stack, commits)
        landed: dict[str, list[Audit]] = {each.ref: [] for each in commits}
        aside: list[Data] = []
        for each in doubtful.settled:
            ref, before = _landed(each, target), _before(each, target)
            if ref in landed:
                landed[ref].append(each)
            elif ref is None and before in landed:
                aside.append({**_publication(each), "before": before})
        return {
            "target": str(target),
            "commits": [
                {
                    **describe_commit(each, doubtful, reverted.get(each.ref), adopted.get(each.ref)),
                    "standing": _standing(doubtful.of(each), landed[each.ref]),
                    "publications": [_publication(record) for record in landed[each.ref]],
                }
                for each in commits
            ],
            "aside": aside,
            "more": bool(commits[-1].parents),
            "unknown": list(doubtful.unknown),
        }

    def _verify(self, query: Query) -> Data:
        target = self._target(query)
        found = self._there(target, lambda: verify(self._stack, self._pipelines(), target))
        return describe_verdict(target, found)

    # ---- the cluster

    def _policy(self, _query: Query) -> Data:
        return {
            "policy": self._project.settings.fence.policy,
            **describe_standing(standing_of(self._project)),
            # Without leases nobody tells who is there, and an empty list says nothing.
            "signs_of_life": self._stack.leasing is not None,
        }

    def _ledger(self, query: Query) -> Data:
        target = self._target(query)
        self._coordination()
        swept = _done(open_intents(self._stack, target), f"the open intents of {target}")
        return {"open": [describe_outcome(each) for each in swept.outcomes]}

    def _lock(self, query: Query) -> Data:
        target = self._target(query)
        lock = _done(lock_of(self._coordination(), target), f"the lock of {target}")
        last = lock.last
        return {
            "holder": lock.owner,
            "lease": lock.lease,
            "last": None if last is None else {"owner": last.owner, "token": last.token, "released": last.released},
        }

    def _claims(self, query: Query) -> Data:
        target = self._target(query)
        found = self._there(target, lambda: _done(self._stack.store.all_claims(target.repository), "the claims"))
        here = [each for each in found if each.target == target]
        return {"number": len(here), "claims": [_claim(each) for each in here[-_RECORDS:]]}

    def _audit(self, _query: Query) -> Data:
        self._coordination()
        records = _done(audits(self._stack), "the ledger")
        readable = sorted((each for each in records if isinstance(each, Audit)), key=lambda each: each.at, reverse=True)
        return {
            "number": len(records),
            "audit": [_publication(each) for each in readable[:_RECORDS]],
            "unknown": [str(each) for each in records if isinstance(each, Unreadable)],
        }

    # ---- actions

    def _cancel(self, query: Query) -> Data:
        with self._acting:
            return self._described(end_run(self._pipelines(), self._view(query), "cancelled in the browser"))

    def _retry(self, query: Query) -> Data:
        with self._acting:
            pipelines, view = self._pipelines(), self._view(query)
            require_retriable(self._project, view, self._project.tasks())
            if view.running:
                raise CommandError(
                    f"{view.workflow_id} has not ended: a `perago worker` of this project goes on with it"
                )
            pipelines.retry(view.workflow_id)
            return self._described(self._view(query))

    # ---- what is asked about

    def _pipelines(self) -> Pipelines:
        return self._project.pipelines()

    def _view(self, query: Query) -> PipelineView:
        named = _given(query, "run")
        view = self._pipelines().view(named)
        if view is None:
            raise CommandError(f"there is no run {named!r}; `perago runs` lists them")
        return view

    def _target(self, query: Query) -> Target:
        return target_of(self._project, query.get("target", ""))

    def _there(self, target: Target, look: Callable[[], T]) -> T:
        """Look at a branch. Of one that is nowhere nothing can be read, and nothing about it is unknown."""
        try:
            return look()
        except UserError:
            head = self._stack.store.head(target)
            if isinstance(head, Done) and head.value is None:
                advice = "the first `perago run` makes it where the store is this project's own; else create it there"
                raise CommandError(f"{target} is not there yet: {advice}") from None
            raise

    def _coordination(self) -> Coordination:
        if self._stack.coordination is None:
            raise CommandError("no coordination store is configured, so there is no ledger; set coordination.kind")
        return self._stack.coordination


def _standing(never_accepted: bool | None, settled: Iterable[Audit]) -> str:  # noqa: FBT001  an answer of three
    """Say what the ledger knows of a commit. One without a record may be older than the ledger, or a stranger's."""
    if never_accepted:
        return "never accepted"
    if any(each.kind.accepts for each in settled):
        return "accepted"
    return "unknown" if never_accepted is None else "no record"


def _landed(record: Audit, target: Target) -> str | None:
    """Return the commit a publication was settled with on a branch; ``None``: it left nothing there."""
    if not record.kind.accepts and record.kind is not SettlementKind.ABANDONED:
        return None
    return next((move.after for move in record.movements if move.target == target), None)


def _before(record: Audit, target: Target) -> str | None:
    return next((move.before for move in record.movements if move.target == target), None)


def _publication(record: Audit) -> Data:
    return {**describe_audit(record), "workflow_id": record.workflow_id}


def _claim(claim: Claim) -> Data:
    return {
        "workflow_id": claim.workflow_id,
        "task": claim.task_id,
        "logical_task": claim.logical_task,
        "attempt": claim.number,
        "execution": claim.execution,
        "parent": claim.parent,
        "tree": claim.tree,
        "reverts": claim.reverts,
    }


def _given(query: Query, name: str) -> str:
    value = query.get(name, "")
    if not value:
        raise CommandError(f"expected {name}=...; found nothing")
    return value


def _number(query: Query, name: str, otherwise: int, most: int | None = None) -> int:
    text = query.get(name, str(otherwise))
    # Fifteen digits are more than anybody has runs, and fewer than a database takes for a number.
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):  # noqa: PLR2004  see above
        raise CommandError(f"expected {name} to be a number; found {text!r}")
    return int(text) if most is None else min(int(text), most)


def _done(answer: Answer[T], what: str) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise UnansweredError(f"{what} cannot be read: {answer.reason}")
