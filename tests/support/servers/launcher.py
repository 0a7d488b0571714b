"""Becomes another program, one that dies with the process that started it.

``launcher.py PARENT PROGRAM [ARGUMENT...]``, run as a script: the process keeps its number, and the program is a
child, not a grandchild, of who started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2:]
    # Elsewhere than on Linux there is no such order, and a killed test run leaves its servers behind.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that died before the order was given will not die again.
    if os.getppid() != parent:
        sys.exit(f"the process {parent} that asked for {program[0]} is gone")
    os.execv(program[0], program)  # noqa: S606  the point of this file


if __name__ == "__main__":
    main()
