"""The tasks of the guide's page about streams, as they stand there, as a module that a worker's process can import."""

from __future__ import annotations

from tests.docs.documents import blocks

(SHOWN,) = [block for block in blocks("specs/guide/howto/spark.md", "python") if "ws.run_query" in block]
exec(compile(SHOWN, "streams.py", "exec", dont_inherit=True), globals())  # noqa: S102  the page is ours
