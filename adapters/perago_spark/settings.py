"""How Spark runs, as a value that needs no Spark to be made."""

from __future__ import annotations

import json

from attrs import asdict, field, frozen


@frozen
class SparkSettings:
    """How Spark runs. ``local[2,4]``: two slots, and four tries for a task as on a cluster; ``local[2]`` has one."""

    master: str = "local[2,4]"
    conf: dict[str, str] = field(factory=dict[str, str])

    def text(self) -> str:
        """Write them as text, for another process."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> SparkSettings:
    """Read what ``text`` wrote."""
    return SparkSettings(**json.loads(text))
