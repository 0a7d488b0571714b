"""The task of burns that runs on Spark: one row, with a word that is in the files and in the result.

Copied into a project like ``breakable``, with the constants replaced.
"""

import secrets
import time
from pathlib import Path

from pydantic import BaseModel

from perago_core.values import OnAbandoned
from perago_spark import SparkDatasets
from perago_worker import Workspace, task

NAME = "breakable_spark"
RETRIES = 30
ON_ABANDONED = "adopt"
#: Seconds without a sign of life after which the orchestrator gives an attempt up.
PATIENCE = 4.0


class Orders(BaseModel):
    """What every task of a burn is given; there is one thing this one can do."""

    plan: Path
    seconds: float = 0.0


class Token(BaseModel):
    """What the published files say, so that a result can be compared with what it was published with (S-06)."""

    token: str


@task(
    name=NAME,
    workspace=Workspace(prefix="tables"),
    retries=RETRIES,
    retry_delay=0,
    response_timeout=PATIENCE,
    on_abandoned=OnAbandoned(ON_ABANDONED),
)
def breakable_spark(ws: SparkDatasets, params: Orders) -> Token:
    """Replace the data set by one row."""
    time.sleep(params.seconds)
    token = secrets.token_hex(8)
    rows = ws.spark.createDataFrame([(token,)], "token string")  # pyright: ignore[reportUnknownMemberType]
    ws.write("tokens", rows, format="json", files=1)
    return Token(token=token)
