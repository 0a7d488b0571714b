"""What a Spark body says to its worker is bounded: it is somebody else's code that says it."""

from __future__ import annotations

import socket

from perago_spark.process.messages import LONGEST, Channel


def test_a_message_longer_than_any_is_the_end_of_the_conversation_and_is_not_taken_into_memory() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        worker = Channel(ours)
        theirs.sendall((5).to_bytes(8, "big") + b"hello")
        assert worker.receive(5.0) == b"hello"
        theirs.sendall((LONGEST + 1).to_bytes(8, "big"))  # and the body goes on living: nobody waits for the rest
        assert worker.receive(5.0) is None
        worker.close()
