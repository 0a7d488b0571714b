"""The ways to misuse the core, and the form of an error that adapters raise for people to read.

Outcomes of the protocol are values, never exceptions.
"""

from __future__ import annotations


class PeragoError(Exception):
    """Root of every exception the core raises on purpose."""


class ProtocolError(PeragoError):
    """The embedder fed an event the phase does not allow; the state it passed in is unchanged.

    The message names the phase, the event and what is allowed there.
    """


class DefinitionError(PeragoError):
    """A machine's table is wrong; raised while the package is imported, never at run time."""


class CodecError(PeragoError, ValueError):
    """A stored value cannot be read back: unknown schema version, unknown type, or a malformed field."""


class ExplainedError(Exception):
    """Something is not as it must be: what was expected, what was found, and what to do."""

    def __init__(self, expected: str, found: str, fix: str) -> None:
        super().__init__(expected, found, fix)
        self.expected = expected
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        return f"expected {self.expected}; found {self.found}. {self.fix}"


def one_line(text: str, limit: int = 500) -> str:
    """Join a text into one line and cut off its end, so that it can be read in a list of tasks."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"
