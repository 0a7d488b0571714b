"""The command ``perago``, and ``python -m perago_worker``.

The package can be installed without what the command line needs. Then the command says in one line what is missing.
"""

from __future__ import annotations

import sys

from perago_worker.extras import how_to_install


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        from perago_worker.version import version  # noqa: PLC0415  the only thing asked for

        print(f"perago {version()}")  # noqa: T201  needs no console
        return
    try:
        from perago_worker.cli import app  # noqa: PLC0415  it may be missing
    except ImportError as missing:
        sys.exit(f"error: {how_to_install(missing) or missing}")
    app()


if __name__ == "__main__":
    main()
