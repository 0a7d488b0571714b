"""``perago init-repo``: lets a lakeFS repository check the expected head of our merges."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from perago_core.answers import Answer, Done
from perago_core.policy import Capability, Evidence
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.ops.policy import standing
from perago_worker.stack import Stack, StackError, lakefs_connection


def init_repo(
    context: typer.Context,
    branch: Annotated[
        str, typer.Argument(help="REPOSITORY or REPOSITORY/BRANCH; that of the only pipeline if not given.")
    ] = "",
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the hook is there.")] = False,
    namespace: Annotated[
        str, typer.Option(help="Where the data goes, e.g. s3://bucket/lake; makes the repository if there is none.")
    ] = "",
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--lenient",
            help="Refuse also a person's merge that says no expected head, or let it through (as it is, else lenient).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install the hook on a branch of a lakeFS repository, or upgrade it, as one commit; exit code 1 if it cannot."""
    project = project_of(context)
    if project.settings.store.kind != "lakefs":
        raise CommandError(f"init-repo is for lakeFS, and store.kind is {project.settings.store.kind!r}")
    try:
        from perago_lakefs.install import install  # noqa: PLC0415  only who has lakeFS needs its SDK
    except ImportError as missing:
        raise StackError(f"{missing.name} is not installed: pip install 'perago-core[lakefs]'") from None
    target = Target(branch, "main") if branch and "/" not in branch else target_of(project, branch)
    with messages.status(f"looking at {target}"):
        connection = lakefs_connection(project.settings)
        answer = install(connection, target, namespace=namespace, check=check, strict=strict)
    if not isinstance(answer, Done):
        if as_json:
            print_json({"target": str(target), "installed": False, "reason": answer.reason})
        else:
            out.print(f"{target}: {answer.reason}", markup=False)
        raise typer.Exit(1)
    found = answer.value
    with messages.status("probing the store"):
        probed = project.stack.store.probe()
    offer = _offer(project.stack, probed)
    if as_json:
        state = {"installed": True, "changed": found.changed, "head": found.head, "protected": found.protected}
        proved = probed.value.value if isinstance(probed, Done) else None
        print_json({"target": str(target), **state, "strict": found.strict, "probed": proved, "offer": offer})
        return
    done = "now checks" if found.changed else "already checks"
    others = "refuses every other merge" if found.strict else "lets every other merge through"
    out.print(f"{target} {done} the expected head of our merges, and {others}; its head is {found.head}", markup=False)
    if isinstance(probed, Done):
        out.print(f"probed: the store is proved {probed.value.value}", markup=False)
    else:
        messages.print(f"[yellow]probed, and not proved yet:[/yellow] {escape(probed.reason)}")
    if offer is not None:
        messages.print(f"[yellow]the cluster still uses another backing:[/yellow] {escape(offer)}")
    if found.protected:
        messages.print(
            f"[yellow]{target} is protected:[/yellow] first publications work; lakeFS refuses to replace what a dead "
            "attempt left. Take it out of the branch protection rules, or be ready to do that by hand"
        )


def _offer(stack: Stack, probed: Answer[Capability]) -> str | None:
    """Return the command that lets the cluster use what is proved now, where its decision says less."""
    if stack.coordination is None or not isinstance(probed, Done):
        return None
    found = standing(stack)
    decision = found.value.decision if isinstance(found, Done) else None
    if decision is None or decision.evidence is Evidence.PROVED:
        return None
    return "perago policy review --write --why '...'"
