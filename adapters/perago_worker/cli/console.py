"""How commands speak: results on standard output, everything else on standard error, mistakes in one line.

Exit codes: 0 done and it held; 1 it did not (a task failed, a promise was broken, something needs a person); 2 the
question makes no sense (configuration, arguments, a part that is not there).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, NoReturn, ParamSpec

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text
from typer.exceptions import TyperException

from perago_core.errors import one_line
from perago_core.pipelines import OrchestratorError
from perago_worker.api.errors import UserError, said
from perago_worker.extras import how_to_install
from perago_worker.logger import log
from perago_worker.printable import printable

P = ParamSpec("P")


class PlainConsole(Console):
    """A console on which only our own markup has colour: no text it is given can steer the terminal."""

    def render_str(self, text: str, **how: Any) -> Text:  # noqa: ANN401  whatever the library adds
        """Make text of a string, the way every string goes, cells of tables too."""
        return super().render_str(printable(text), **how)


out = PlainConsole(highlight=False, soft_wrap=True)
messages = PlainConsole(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class CommandError(UserError):
    """What was asked for cannot be done; the message says why and what to do instead."""


class UnansweredError(CommandError):
    """What was asked for is not known now: somebody who knows does not answer. It follows neither yes nor no."""


def teaching(command: Callable[P, None]) -> Callable[P, None]:
    """Turn mistakes and faults into one line on standard error."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with one_line_mistakes():
            command(*args, **kwargs)

    return run


@contextmanager
def one_line_mistakes(*, debug: bool = False) -> Generator[None]:
    """Turn mistakes into one line and exit code 2, and what nobody expected into one line and exit code 1.

    With ``debug`` what nobody expected is raised as it is.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, TyperException):
        raise  # how a command ends, and what it says of its arguments
    except (UserError, OrchestratorError) as mistake:
        complain(str(mistake))
    except Exception as error:
        if type(error).__name__ == "DatabaseError":  # of an adapter that is imported lazily
            complain(str(error))
        if isinstance(error, OSError) and error.strerror:
            complain(f"{error.filename or 'a file'}: {error.strerror}; `perago doctor` looks at every folder")
        if isinstance(error, ImportError) and (advice := how_to_install(error)):
            complain(advice)
        if debug:
            raise
        complain(f"{one_line(said(error))}. Nobody expected that: `perago --debug ...` shows where; report it", code=1)


def complain(message: str, code: int = 2) -> NoReturn:
    """Say what is wrong and stop."""
    for line in message.splitlines():
        messages.print("[bold red]error:[/bold red]", end=" ")
        messages.print(line, markup=False)
    raise typer.Exit(code)


def print_json(data: Mapping[str, Any] | list[Any]) -> None:
    """Print data for machines: one document, nothing else on standard output."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    out.print("".join(f"\\u{ord(each):04x}" if printable(each) != each else each for each in text), markup=False)


def log_to_screen(*, verbose: bool, as_json: bool = False) -> None:
    """Log to standard error; where nobody watches one record is one line, so that it can be searched."""
    handler: logging.Handler
    if as_json:
        handler = logging.StreamHandler()
        handler.setFormatter(_JsonLines())
    elif messages.is_terminal:
        handler = RichHandler(console=messages, show_path=False, log_time_format="%H:%M:%S")
        handler.setFormatter(_Plain("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    # It tells of every request; a worker that polls would drown its own words in them.
    logging.getLogger("httpx").setLevel(logging.WARNING)


class _Plain(logging.Formatter):
    """A record as text that cannot steer the terminal it is shown on, nor pass for a second record."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")


class _JsonLines(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        text = {"at": round(record.created * 1000), "level": record.levelname, "says": record.getMessage()}
        if record.exc_info:
            text["trouble"] = self.formatException(record.exc_info)
        return json.dumps(text)
