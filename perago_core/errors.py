"""The two ways to misuse the core. Outcomes of the protocol are values, never exceptions."""

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
