"""How commands speak: results on standard output, everything else on standard error, mistakes in one line.

Exit codes: 0 done and it held; 1 it did not (a task failed, a promise was broken, something needs a person); 2 the
question makes no sense (configuration, arguments, a part that is not there).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, NoReturn, ParamSpec

import typer
from rich.console import Console
from rich.logging import RichHandler

from perago_worker.api.errors import UserError
from perago_worker.logger import log

P = ParamSpec("P")

out = Console(highlight=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class CommandError(UserError):
    """What was asked for cannot be done; the message says why and what to do instead."""


def teaching(command: Callable[P, None]) -> Callable[P, None]:
    """Turn mistakes into one line on standard error and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except UserError as mistake:
            complain(str(mistake))
        except OSError as error:
            complain(f"{error.filename or 'a file'}: {error.strerror or error}; `perago doctor` looks at every folder")
        except Exception as error:
            if type(error).__name__ in {"OrchestratorError", "DatabaseError"}:  # of adapters that are imported lazily
                complain(str(error))
            raise

    return run


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
