"""``perago ui``: runs, branches and the cluster in a browser, live."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated, NoReturn

import typer

from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.ui.endpoints import Endpoints
from perago_worker.ui.server import PageServer


def ui(
    context: typer.Context,
    *,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; a free one if not given.", min=0, max=65535)] = 0,
    actions: Annotated[bool, typer.Option("--actions", help="Let the page cancel and retry runs.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; only print the address.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show runs, branches and the cluster in a browser, live; read only unless --actions is given.

    Only this machine can reach it, and only with the address that is printed: it has a random token in it. Ctrl-C ends
    it.
    """
    endpoints = Endpoints(project_of(context), actions=actions)
    try:
        server = PageServer(endpoints, port)
    except OSError as error:
        raise CommandError(f"port {port} cannot be had: {error.strerror}; without --port a free one is taken") from None
    address = server.door.address
    if as_json:
        print_json({"address": address, "actions": actions})
    else:
        out.print(address)
        allowed = (
            "it may cancel and retry runs" if actions else "it is read only; --actions lets it cancel and retry runs"
        )
        messages.print(f"[dim]{allowed}. Whoever has this address may look; Ctrl-C ends it[/dim]")
    # Ctrl-C too: whoever is started in the background of a shell script is born deaf to it.
    before = {each: signal.signal(each, _end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with TemporaryDirectory() as folder:  # only its owner may look into it
            if not no_browser and _has_screen():
                webbrowser.open(_leading_to(address, Path(folder)))
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        if not as_json:
            messages.print("ended")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        server.server_close()


def _leading_to(address: str, folder: Path) -> str:
    """Write a file that leads to the address: what a browser is started with, every user of the machine can read."""
    file = folder / "perago.html"
    file.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
    return file.as_uri()


def _has_screen() -> bool:
    """Say whether a browser would have a window; in a terminal one would take the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY"))


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
