"""``perago policy``: the decision of the cluster on how publications are fenced."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.policy import Changed, Decision, Policy, PolicyFailed
from perago_worker.cli.console import AsJson, CommandError, UnansweredError, messages, out, print_json
from perago_worker.cli.project import Project, project_of
from perago_worker.ops.policy import Standing, next_decision, person, says_the_same, standing, write
from perago_worker.ops.run_branches import written_targets

app = typer.Typer(no_args_is_help=True, add_completion=False)

Why = Annotated[str, typer.Option(help="Why; goes into the record, for everybody who asks later.")]
Who = Annotated[str, typer.Option(help="Who decides; you, if not given.")]
Wait = Annotated[float, typer.Option(min=0.0, help="Seconds to wait until every worker rests.")]
Force = Annotated[
    bool, typer.Option("--force", help="Write it also if somebody still works; --why then says on what grounds.")
]


@app.callback()
def policy() -> None:
    """Show or change the decision of the cluster on how publications are fenced."""


@app.command("show")
def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the stored decision: which backing, since which epoch, on what evidence, by whom and why; and who works."""
    project = project_of(context)
    found = standing_of(project)
    wanted = project.settings.fence.policy
    if as_json:
        print_json({"policy": wanted, **describe_standing(found)})
        return
    if found.decision is None:
        out.print(f"policy {wanted}; nothing is decided yet: the first worker that starts decides")
    else:
        _tell(found.decision, f"policy {wanted}; ")
    for each in found.workers:
        late = each in found.behind
        resting = ", resting" if each.rests_for else ""
        mark = "  [yellow]behind[/yellow]" if late else ""
        out.print(f"worker {escape(each.name)}: epoch {each.epoch}, policy {each.policy.value}{resting}{mark}")


@app.command("set")
def set_policy(
    context: typer.Context,
    policy: Annotated[Policy, typer.Argument(help="What every worker of the cluster is to follow.")],
    *,
    why: Why,
    who: Who = "",
    wait: Wait = 60.0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the next decision when every worker rests: disable and soft are chosen, auto and enable are probed for.

    Workers take no new task while it is announced, finish what runs, and go on under it by themselves. Exit code 1, and
    nothing is written, if one still works when the time is over.
    """
    project = project_of(context)
    found = standing_of(project)
    with messages.status("probing the store") if policy in {Policy.AUTO, Policy.ENABLE} else messages.status("looking"):
        wanted = next_decision(project.stack, policy, found.decision, who=who or person(), why=why)
    if isinstance(wanted, PolicyFailed):
        _refuse(wanted, as_json=as_json)
    _write(project, found, wanted, wait=wait, force=force, as_json=as_json)


@app.command("review")
def review(
    context: typer.Context,
    *,
    write_it: Annotated[bool, typer.Option("--write", help="Write the next decision, not only propose it.")] = False,
    why: Why = "",
    who: Who = "",
    wait: Wait = 60.0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Probe the store again and propose the next decision; with --write, write it as `perago policy set` does."""
    project = project_of(context)
    found = standing_of(project)
    if write_it and not why:
        raise CommandError("--write changes the policy of every worker: say why with --why 'the hook is installed'")
    with messages.status("probing the store"):
        wanted = next_decision(project.stack, Policy.AUTO, found.decision, who=who or person(), why=why)
    if isinstance(wanted, PolicyFailed):
        _refuse(wanted, as_json=as_json)
    if write_it:
        _write(project, found, wanted, wait=wait, force=force, as_json=as_json)
        return
    same = says_the_same(found.decision, wanted)
    if as_json:
        print_json({**describe_standing(found), "proposed": None if same else _decision(wanted)})
        return
    if found.decision is not None:
        _tell(found.decision, "stands: ")
    if same:
        out.print("the store was probed and proves the same; nothing to change")
    else:
        _tell(wanted, "proposed: ")
        out.print("write it with: perago policy review --write --why '...'")


def standing_of(project: Project) -> Standing:
    """Read the stored decision and the workers that are there."""
    if project.stack.coordination is None:
        raise CommandError("no coordination store is configured, so nothing is stored; set coordination.kind")
    found = standing(project.stack)
    if not isinstance(found, Done):
        raise UnansweredError(f"the decision cannot be read: {found.reason}")
    return found.value


def _write(project: Project, found: Standing, wanted: Decision, *, wait: float, force: bool, as_json: bool) -> None:
    if says_the_same(found.decision, wanted):
        assert found.decision is not None
        if as_json:
            print_json({"changed": False, "decision": _decision(found.decision)})
        else:
            _tell(found.decision, "nothing to change: ")
        return
    with messages.status(f"waiting for {len(found.workers)} worker(s) to rest, at most {wait:g} s"):
        changed = write(
            project.stack, wanted, written_targets(project.stack, project.settings), patience=wait, forced=force
        )
    if not isinstance(changed, Changed):
        _refuse(changed, as_json=as_json)
    if as_json:
        print_json({"changed": True, "decision": _decision(changed.decision)})
        return
    _tell(changed.decision)
    if not changed.behind.quiet:
        messages.print("[yellow]forced:[/yellow] what they had under way fails closed and is tried again")
    if not _fits(project, changed.decision):
        messages.print(
            f"[yellow]this project says fence.policy = {project.settings.fence.policy}:[/yellow] its workers will not "
            "start. Say auto, and they follow whatever is decided"
        )


def _fits(project: Project, decision: Decision) -> bool:
    from perago_core.policy.state import fits  # noqa: PLC0415  only who has changed something asks

    return fits(Policy(project.settings.fence.policy), decision)


def _refuse(failed: PolicyFailed, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"changed": False, "reason": failed.reason, "next": failed.next_action})
    else:
        messages.print(f"[bold red]not changed:[/bold red] {escape(failed.reason)}. {escape(failed.next_action)}")
    raise typer.Exit(1)


def _tell(decision: Decision, lead: str = "") -> None:
    out.print(f"{lead}backing [bold]{decision.backing.value}[/bold] since epoch {decision.epoch}")
    why = f": {decision.why}" if decision.why else ""
    out.print(f"{decision.evidence.value} by {decision.detector}{why}", markup=False)


def describe_standing(found: Standing) -> dict[str, object]:
    """Describe the stored decision and the workers that are there."""
    behind = found.behind
    workers = [
        {
            "name": each.name,
            "epoch": each.epoch,
            "policy": each.policy.value,
            "rests": bool(each.rests_for),
            "behind": each in behind,
        }
        for each in found.workers
    ]
    return {"decision": None if found.decision is None else _decision(found.decision), "workers": workers}


def _decision(decision: Decision) -> dict[str, object]:
    return {
        "backing": decision.backing.value,
        "epoch": decision.epoch,
        "evidence": decision.evidence.value,
        "policy": decision.policy.value,
        "detector": decision.detector,
        "why": decision.why,
    }
