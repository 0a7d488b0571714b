"""Keys of the coordination store: any string as one part of a key, so that two things never share one."""

from __future__ import annotations

import re

from perago_core.values import Target


def escape(part: str) -> str:
    """Write any string as one part of a key: letters, digits, ``_``, ``.``, ``-`` stay, all else becomes ``%XX``.

    The separator never survives, so the keys of ``repo/main`` and ``repo/main/eu`` share no prefix (T-O8).
    """
    return re.sub(r"[^A-Za-z0-9_.-]", _percent, part)


def unescape(part: str) -> str:
    """Give back what ``escape`` was given."""
    return re.sub(r"(?:%[0-9A-F]{2})+", _plain, part)


def target_key(target: Target) -> str:
    """Name a target inside a key; two targets never share a name nor a prefix ending in ``/`` (W-18)."""
    return f"{escape(target.repository)}/{escape(target.branch)}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _plain(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass")
