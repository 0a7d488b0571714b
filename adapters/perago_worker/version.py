"""Which release this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """Return the version that is installed; a tree that is only on the path has none."""
    try:
        return installed("perago-core")
    except PackageNotFoundError:
        return "of a tree that is not installed"
