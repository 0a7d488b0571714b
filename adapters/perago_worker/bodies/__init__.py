"""Running bodies, each in a process of its own.

Four processes, and who watches whom:

    worker ── Bodies ──> template ──fork──> guard ──fork──> body ──> whatever the body starts

* The *template* has imported the task modules once. A body is a fork of it, which takes milliseconds; an interpreter
  with its imports takes hundreds.
* The *guard* runs no code of the author. It owns the body: the deadline, the orderly and the hard stop, and the end of
  everything the body has started, also of what has left its process group. It tells how the body died.
* The *body* runs checks and function, and writes its verdict into a file. What it logs and prints goes through pipes.

Nothing is shared between two bodies: no queue, no lock, no pipe. A process killed at any moment can only take its own
lines with it (peer study, R1). If the worker dies, each guard sees its line closed and ends its body.
"""
