"""How commands speak: results on standard output, everything else on standard error, mistakes in one line.

Exit codes: 0 done and it held; 1 it did not (a task failed, a promise was broken, something needs a person); 2 the
question makes no sense (configuration, arguments, a part that is not there).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer
from attrs import define, field
from rich.console import Console
from rich.logging import RichHandler

from perago_worker.assembly import load_tasks
from perago_worker.errors import TaskDefinitionError
from perago_worker.loading import SettingsError, find_project, load
from perago_worker.registry import Registry
from perago_worker.settings import Settings
from perago_worker.stack import Stack, StackError, open_stack
from perago_worker.starting import StartError
from perago_worker.telemetry import log

P = ParamSpec("P")

out = Console(highlight=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class CommandError(Exception):
    """What was asked for cannot be done; the message says why and what to do instead."""


_MISTAKES = (CommandError, SettingsError, StackError, StartError, TaskDefinitionError)


@define
class Project:
    """The project a command is about, read when it is needed."""

    folder: Path = field(factory=lambda: find_project(Path.cwd()))
    overrides: dict[str, Any] = field(factory=dict[str, Any])
    _settings: Settings | None = field(default=None, init=False)
    _stack: Stack | None = field(default=None, init=False)

    @property
    def settings(self) -> Settings:
        """Give the settings."""
        if self._settings is None:
            self._settings = load(self.folder, self.overrides)
        return self._settings

    @property
    def stack(self) -> Stack:
        """Give the systems the settings name."""
        if self._stack is None:
            self._stack = open_stack(self.settings)
        return self._stack

    def close(self) -> None:
        """Close the systems, if they were opened."""
        if self._stack is not None:
            self._stack.close()
            self._stack = None

    def tasks(self) -> Registry:
        """Import the tasks."""
        return load_tasks(self.settings, self.folder)


def project_of(context: typer.Context) -> Project:
    """Give the project the command line named, or the one around the current folder."""
    found = context.find_object(Project)
    return Project() if found is None else found


def teaching(command: Callable[P, None]) -> Callable[P, None]:
    """Turn mistakes into one line on standard error and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except _MISTAKES as mistake:
            complain(str(mistake))
        except OSError as error:
            complain(f"{error.filename or 'a file'}: {error.strerror or error}; `perago doctor` looks at every folder")
        except Exception as error:
            if type(error).__name__ in {"OrchestratorError", "DatabaseError"}:  # of adapters that are imported lazily
                complain(str(error))
            raise

    return run


def add_commands(app: typer.Typer, panel: str, **commands: Callable[..., None]) -> None:
    """Add commands under their names, in one panel of the help."""
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(teaching(command))


def complain(message: str) -> NoReturn:
    """Say what is wrong and stop with exit code 2."""
    for line in message.splitlines():
        messages.print("[bold red]error:[/bold red]", end=" ")
        messages.print(line, markup=False)
    raise typer.Exit(2)


def print_json(data: Mapping[str, Any] | list[Any]) -> None:
    """Print data for machines: one document, nothing else on standard output."""
    out.print(json.dumps(data, ensure_ascii=False, indent=2), markup=False)


def log_to_screen(*, verbose: bool, as_json: bool = False) -> None:
    """Log to standard error; where nobody watches one record is one line, so that it can be searched."""
    handler: logging.Handler
    if as_json:
        handler = logging.StreamHandler()
        handler.setFormatter(_JsonLines())
    elif messages.is_terminal:
        handler = RichHandler(console=messages, show_path=False, log_time_format="%H:%M:%S")
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    # It tells of every request; a worker that polls would drown its own words in them.
    logging.getLogger("httpx").setLevel(logging.WARNING)


class _JsonLines(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        text = {"at": round(record.created * 1000), "level": record.levelname, "says": record.getMessage()}
        if record.exc_info:
            text["trouble"] = self.formatException(record.exc_info)
        return json.dumps(text, ensure_ascii=False)
