"""``perago``: write tasks, run them, look at what happened, mend what is broken, and explore why it cannot go wrong."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

if TYPE_CHECKING:
    from typer._click import Command, Context

_WORK, _LOOK, _MEND, _DEFINE, _PROTOCOL = "Work", "Look", "Mend", "Define", "The protocol itself"


class Entry(NamedTuple):
    """A command in the help. Its module is named after it and is imported when the command is used."""

    panel: str
    help: str


#: Everything ``perago --help`` shows. A test compares each text with the docstring of the command itself.
COMMANDS = {
    "init": Entry(_WORK, "Write a small working project: a configuration and three tasks."),
    "check": Entry(_WORK, "Read the configuration and import the tasks; say what is there."),
    "worker": Entry(_WORK, "Poll for tasks and run them. SIGTERM drains; a second one stops."),
    "run": Entry(
        _WORK,
        "Run a pipeline or a single task here. What a pipeline's steps quote as ${params.NAME} is given by --param.",
    ),
    "import": Entry(
        _WORK,
        "Bring files onto a branch: one publication, fenced as any other, with what they were recorded beside them.",
    ),
    "retry": Entry(
        _WORK,
        "Go on with a run from the step at which it stopped, here; steps that were accepted stay and do not run again.",
    ),
    "cancel": Entry(
        _WORK,
        "End a run: its attempts are refused from now on. What was accepted stays; `perago retry` can go on with it.",
    ),
    "runs": Entry(_LOOK, "List the runs, newest first: state, start, duration and how far each is."),
    "show": Entry(_LOOK, "Show one run: its steps with durations, results and reasons, and what to do next."),
    "logs": Entry(
        _LOOK, "Show what the bodies of a run, of a step or of one attempt printed and logged; --follow shows it live."
    ),
    "ui": Entry(_LOOK, "Show runs, branches and the cluster in a browser, live; read only unless --actions is given."),
    "status": Entry(_LOOK, "Show what runs, and with --all what ran."),
    "history": Entry(_LOOK, "Draw the branch: every publication, newest first."),
    "verify": Entry(
        _LOOK,
        "Prove on a branch that every accepted result is there, in order, once, and nothing else; exit code 1 if not.",
    ),
    "show-failed": Entry(
        _LOOK, "List what did not pass its gates: why, until when it is kept, and under which name it can be read."
    ),
    "explain": Entry(_LOOK, "Say what branch, ledger and orchestrator say of an attempt, and what follows."),
    "why": Entry(
        _LOOK,
        "Say which attempt made a file as it is, from which code, parameters and input, and whether it was accepted.",
    ),
    "doctor": Entry(_LOOK, "Look at every dependency and permission a worker needs; exit code 1 if one is missing."),
    "timeline": Entry(
        _LOOK,
        "Tell a run step by step, from the traces of its workers: who asked for what, what was answered, what then.",
    ),
    "audit": Entry(_LOOK, "List how every publication was settled: one record for each, for good."),
    "policy": Entry(_LOOK, "Show or change the decision of the cluster on how publications are fenced."),
    "recover": Entry(
        _MEND,
        "Say what became of publications nobody finished; with --settle, --roll-back or --keep do something about it.",
    ),
    "gc": Entry(
        _MEND,
        "Remove staging names and folders of attempts that ended, and what is left of workflows that are long over.",
    ),
    "rm": Entry(
        _MEND,
        "Forget ended runs and their logs. Branches and audit stay; a run with unsettled publications stays, too.",
    ),
    "extract": Entry(_DEFINE, "Write the definitions of the project's tasks as JSON, as Conductor takes them."),
    "register": Entry(_DEFINE, "Make the project's tasks known to the orchestrator."),
    "diff": Entry(
        _DEFINE, "Show where what is registered is not what is declared; exit code 1 if there is a difference."
    ),
    "pipeline": Entry(_DEFINE, "Define pipelines at the orchestrator."),
    "init-repo": Entry(
        _DEFINE,
        "Install the hook on a branch of a lakeFS repository, or upgrade it, as one commit; exit code 1 if it cannot.",
    ),
}
#: The simulator's commands. Running a pipeline needs no Hypothesis, so they are handed on to ``perago_simulation``.
SIMULATOR = {
    "explore": Entry(_PROTOCOL, "Explore every interleaving within bounds, and show what breaks."),
    "simulate": Entry(_PROTOCOL, "Run the protocol at random, and shrink what breaks."),
    "campaign": Entry(
        _PROTOCOL,
        "Make random runs by the million, in processes or on Spark, and keep what they came to as a table.",
    ),
    "replay": Entry(_PROTOCOL, "Replay one line."),
    "mutants": Entry(_PROTOCOL, "Break the table in every small way, and see who notices."),
    "windows": Entry(_PROTOCOL, "Die at every point of every path, and say what comes of it."),
    "ladder": Entry(_PROTOCOL, "Say what each backing promises in each environment."),
    "check-trace": Entry(_PROTOCOL, "Replay a worker's trace through the table."),
    "diagram": Entry(_PROTOCOL, "Draw a machine."),
}

_EXIT_CODES = (
    "Exit codes: 0 it was done, and it held; 1 it was not: a task failed, a promise was broken, something needs a "
    "person; 2 the question makes no sense: configuration, arguments, a part that is not there. "
    "Results go to standard output, everything else to standard error; every command takes --json."
)


class LazyCommands(TyperGroup):
    """Shows every command from the tables above, and imports the one that is used."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Name all commands in the order of the tables."""
        del ctx
        return [*COMMANDS, *SIMULATOR]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Make what the help shows of a command."""
        del ctx
        entry = COMMANDS.get(cmd_name) or SIMULATOR.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Import the command that is used; of a name that is none, say which one is near."""
        if args and self.get_command(ctx, args[0]) is None:
            near = {each: self.get_command(ctx, each) for each in self.list_commands(ctx)}
            self.commands = {each: command for each, command in near.items() if command is not None}
        name, shown, rest = super().resolve_command(ctx, args)
        return name, None if shown is None or name is None else load_command(name), rest

    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401  whatever a command gives
        """Run the command; a mistake is one line."""
        from perago_worker.cli.console import one_line_mistakes  # noqa: PLC0415  `perago --help` needs no console of ours

        with one_line_mistakes(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


def load_command(name: str) -> Command:
    """Import a command's module and make the command of its function, or of its ``app`` if it has several."""
    if name in SIMULATOR:
        as_given = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": list[str]()}
        single = typer.Typer(add_completion=False)
        single.command(name, context_settings=as_given)(_simulator(name))
        return get_command(single)
    python_name = name.replace("-", "_")
    if iskeyword(python_name):
        python_name += "_"
    module = import_module(f"perago_worker.cli.{python_name}")
    several: typer.Typer | None = getattr(module, "app", None)
    if several is not None:
        return get_group(several)
    single = typer.Typer(add_completion=False, rich_markup_mode="rich")
    single.command(name)(getattr(module, python_name))
    return get_command(single)


def _simulator(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        from perago_worker.cli.campaign_engines import engines  # noqa: PLC0415  needs the simulator

        simulator: Any = import_module("perago_simulation.cli")
        simulator.app([name, *context.args], prog_name="perago", obj=engines())

    return command


def _show_version(wanted: bool) -> None:  # noqa: FBT001  as the library calls it
    if wanted:
        from perago_worker.version import version  # noqa: PLC0415  reads what is installed

        typer.echo(f"perago {version()}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="Write tasks, run them, look at what happened, mend what is broken, and explore why it cannot go wrong.",
    epilog=_EXIT_CODES,
)


@app.callback()
def perago(
    context: typer.Context,
    *,
    project: Annotated[Path, typer.Option(help="The folder of perago.toml; found upward if not given.")] = Path(),
    given: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. --set fence.policy=soft."),
    ] = [],  # noqa: B006  typer reads it, nobody changes it
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where something went wrong that nobody expected.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and nothing else."),
    ] = False,
) -> None:
    """Publish the result of exactly one attempt."""
    from perago_worker.cli.project import Project, find_project  # noqa: PLC0415  `perago --help` is about no project

    del debug, version  # who runs the command asks for the one, its own callback has served the other
    overrides: dict[str, Any] = {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"expected KEY=VALUE, e.g. fence.policy=soft; found {each!r}", param_hint="--set")
        *sections, name = key.split(".")
        place = overrides
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    context.obj = found = Project(find_project(project), overrides)
    context.call_on_close(found.close)


__all__ = ["app"]
