"""``spark-pipelines run`` with the checkpoints in another folder than the project names: that one is not published.

A process of its own: the project's modules are imported into it, and it ends its session, which is not ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.pipelines import cli


def main(words: list[str]) -> None:
    """Run the project whose specification is named, with checkpoints in the folder that is named after it."""
    spec, storage, options = words
    unpack = cli.unpack_pipeline_spec

    def elsewhere(spec_data: Mapping[str, Any]) -> cli.PipelineSpec:
        return unpack({**spec_data, "storage": storage})

    cli.unpack_pipeline_spec = elsewhere
    cli.run(Path(spec), dry=False, **json.loads(options))


if __name__ == "__main__":
    main(sys.argv[1:])
