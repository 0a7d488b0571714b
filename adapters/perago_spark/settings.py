"""How Spark runs, as a value that needs no Spark to be made."""

from __future__ import annotations

import json
from typing import Final

from attrs import asdict, field, frozen


@frozen
class SparkSettings:
    """How Spark runs: in the body's own process and from there on a cluster, or on a server it is connected to.

    ``master``: ``local[2,4]`` is two slots, and four tries for a task as on a cluster; ``local[2]`` has one.
    ``remote``: the address of a Spark Connect server, ``sc://host:port``; then there is no master, and ``conf`` is what
    such a server lets a session change. Either may hold a secret, so neither is shown.
    """

    master: str = "local[2,4]"
    conf: dict[str, str] = field(factory=dict[str, str], repr=False)
    remote: str = field(default="", repr=False)

    def text(self) -> str:
        """Write them as text, for another process."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> SparkSettings:
    """Read what ``text`` wrote."""
    return SparkSettings(**json.loads(text))


#: What every session of a task begins with, whoever runs Spark; ``SparkSettings.conf`` goes before it.
TASK_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Else points in time are written as 96 bits, which have no zone and no least and greatest value.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
