"""``perago history``: the commits of a branch."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from attrs import frozen
from rich.markup import escape

from perago_core.answers import Done
from perago_core.ledger.records import Audit, SettlementKind, Unreadable
from perago_core.names import task_in
from perago_core.values import Commit, CommitRef, Target
from perago_worker.cli.console import AsJson, CommandError, UnansweredError, messages, out, print_json
from perago_worker.cli.project import Project, project_of, target_of
from perago_worker.ops.recover import audits, unaccepted, unknown_acceptance
from perago_worker.ops.revert import look, reverts_among


def history(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    limit: Annotated[int, typer.Option(help="How many commits.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Draw the branch: every publication, newest first."""
    project = project_of(context)
    target = target_of(project, branch)
    commits = commits_of(project, target, limit)
    doubtful = never_accepted(project, target)
    reverted = reverts_among(project.stack, target, commits)
    for sentence in doubtful.unknown:
        messages.print(f"[yellow]unknown:[/yellow] {escape(sentence)}")
    if as_json:
        print_json([describe_commit(each, doubtful, reverted.get(each.ref)) for each in commits])
        return
    out.print(f"[bold]{target}[/bold]")
    for number, each in enumerate(commits):
        first = f"{each.message.splitlines()[0] if each.message else ''}{joining(each)}"
        mark = "[bold red]never accepted[/bold red]  " if each.ref in doubtful.refs else ""
        if each.ref in reverted:
            mark = f"[yellow]reverted by {reverted[each.ref][:12]}[/yellow]  "
        line = f"[yellow]●[/yellow] [cyan]{each.ref[:12]}[/cyan]  {mark}{escape(first)}"
        out.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=False)
        if number + 1 < len(commits):
            out.print("[yellow]│[/yellow]")
        elif each.parents:
            out.print(f"[dim]┆ and more; --limit {2 * limit}[/dim]")


def joining(commit: Commit) -> str:
    """Say that a commit was published onto what others had published meanwhile: its work is its second parent's."""
    if len(commit.parents) < 2 or task_in(commit.message) is None:  # noqa: PLR2004  the head it joined, and its work
        return ""
    return f"  onto {commit.parents[0][:12]}, published by others meanwhile"


@frozen
class Doubtful:
    """The commits of which the ledger knows that nobody accepted them, and why it may know of more.

    ``settled`` is how the publications to the branch were settled.
    """

    refs: frozenset[str]
    unknown: tuple[str, ...]
    ledger: bool
    settled: tuple[Audit, ...] = ()

    def of(self, commit: Commit) -> bool | None:
        """Say whether nobody accepted a commit; ``None`` where nobody can say."""
        if commit.ref in self.refs:
            return True
        return False if self.ledger and not self.unknown else None


def never_accepted(project: Project, target: Target) -> Doubtful:
    """Ask the ledger which commits nobody accepted: the head, and what was kept."""
    looked = unaccepted(project.stack, target)
    heads = {each.unaccepted for each in looked.heads if each.unaccepted is not None}
    shared = look(project.stack, target)
    heads.update(each.found.commit.ref for each in shared if each.found is not None and not each.trouble)
    ledger = project.stack.coordination is not None
    records = audits(project.stack)
    if not isinstance(records, Done):
        reason = f"the records of the ledger cannot be read: {records.reason}"
        return Doubtful(frozenset(heads), (*looked.unknown, unknown_acceptance(target, reason)), ledger)
    settled = tuple(
        each
        for each in records.value
        if isinstance(each, Audit) and any(move.target == target for move in each.movements)
    )
    kept = {
        move.after
        for each in settled
        if each.kind is SettlementKind.ABANDONED
        for move in each.movements
        if move.target == target and move.after is not None
    }
    unread = tuple(unknown_acceptance(target, str(each)) for each in records.value if isinstance(each, Unreadable))
    return Doubtful(frozenset({*kept, *heads}), (*looked.unknown, *unread), ledger, settled)


def commits_of(project: Project, target: Target, limit: int) -> tuple[Commit, ...]:
    """Read the newest commits of a branch."""
    found = project.stack.store.history(target, limit)
    if not isinstance(found, Done):
        raise UnansweredError(f"{target} cannot be read: {found.reason}")
    if not found.value:
        raise CommandError(f"{target} cannot be read: no such branch")
    return found.value


def describe_commit(commit: Commit, doubtful: Doubtful, reverted_by: CommitRef | None = None) -> dict[str, Any]:
    """Describe one commit, whether nobody accepted it, and what has reverted it."""
    return {
        "ref": commit.ref,
        "parents": list(commit.parents),
        "message": commit.message,
        "never_accepted": doubtful.of(commit),
        "reverted_by": reverted_by,
    }
