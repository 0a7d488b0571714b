"""Text of others on an operator's terminal: nothing in it may steer the terminal."""

from __future__ import annotations

#: Control characters, with those of eight bits that some terminals obey, and what turns the direction of writing.
_STEERING = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: chr(code).encode("unicode_escape").decode() for code in _STEERING if chr(code) not in "\t\n"}


def printable(text: str) -> str:
    r"""Show what would steer a terminal instead of sending it there; lines and tabs stay.

    Counterexample: a body prints ``\x1b]0;`` and a title, or clears the screen of whoever reads its log.
    """
    return text.translate(_SHOWN)
