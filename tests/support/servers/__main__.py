"""``python -m tests.support.servers obtain|start|stop|status [lakefs|conductor|...]``: real servers, and tools."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tests.support.servers import detached
from tests.support.servers.cache import ObtainError
from tests.support.servers.detached import Running
from tests.support.servers.obtaining import OBTAIN, ON_REQUEST
from tests.support.servers.server import ServerError
from tests.support.servers.tools import TOOLS


def tell(name: str, line: str) -> None:
    print(f"{name:10} {line}", flush=True)  # noqa: T201  a command


def show(running: Running | None, name: str) -> None:
    if running is None:
        tell(name, "does not run")
        return
    tell(name, f"{running.url}   (process {running.pid}, log {running.log})")
    for key, value in running.settings.items():
        tell("", f"export {key}={value}")


def carry_out(verb: str, name: str) -> None:
    report = partial(tell, name)
    match verb:
        case "obtain":
            report(str({**OBTAIN, **TOOLS}[name](report)))
        case "start":
            show(detached.start(name, report), name)
        case "stop":
            stopped = detached.stop(name)
            report("does not run" if stopped is None else f"stopped; its log stays at {stopped.log}")
        case _:
            show(detached.status(name), name)


def main() -> int:
    about = "Real servers, for tests and people."
    parser = argparse.ArgumentParser(prog="python -m tests.support.servers", description=about)
    parser.add_argument("verb", choices=["obtain", "start", "stop", "status"])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"{', '.join((*OBTAIN, *TOOLS))}; if none is named, all but {', '.join(ON_REQUEST)}",
    )
    asked = parser.parse_args()
    known = [*OBTAIN, *(TOOLS if asked.verb == "obtain" else ())]
    if unknown := set(asked.names) - set(known):
        parser.error(f"expected {', '.join(known)}; found {', '.join(sorted(unknown))}")
    failed = 0
    for name in asked.names or (each for each in known if each not in ON_REQUEST):
        try:
            carry_out(asked.verb, name)
        except (ObtainError, ServerError) as trouble:
            tell(name, f"FAILED: {trouble}")
            failed = 1
    if asked.verb == "start" and not failed:
        tell("", "They go on until: make servers-stop")
    return failed


if __name__ == "__main__":
    sys.exit(main())
