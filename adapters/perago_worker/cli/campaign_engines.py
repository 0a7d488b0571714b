"""Where campaigns of the simulator can run. Here, because simulator and Spark do not know each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

if TYPE_CHECKING:
    from perago_simulation.campaign import Engine
    from perago_simulation.cli.campaign import Maker, Where

T = TypeVar("T")
R = TypeVar("R")


def engines() -> Mapping[str, Maker]:
    """Return the engines by name; making one says what is missing for it."""
    from perago_simulation.cli.campaign import ENGINES  # noqa: PLC0415  running a pipeline needs no simulator

    return {**ENGINES, "spark": on_spark}


def on_spark(where: Where) -> Engine:
    """Take Spark: on this machine, or on the cluster of a master."""
    if find_spec("pyspark") is None:
        raise ImportError("pyspark is not installed: pip install 'perago-core[spark]'")
    from perago_simulation.cli.campaign import engine_conf  # noqa: PLC0415  as above
    from perago_spark.campaign import SparkMap  # noqa: PLC0415  only who asks for Spark needs it
    from perago_spark.errors import SparkUnavailableError  # noqa: PLC0415  as above
    from perago_spark.process.settings import SparkSettings  # noqa: PLC0415  as above

    try:
        settings = SparkSettings(conf=engine_conf(where.conf))
    except SparkUnavailableError as refused:
        raise ValueError(str(refused)) from None
    return _Explaining(SparkMap(settings if where.master is None else SparkSettings(where.master, settings.conf)))


@frozen
class _Explaining:
    """Says in one line what Spark says in hundreds."""

    spark: Engine

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Do this to each item."""
        from perago_core.errors import one_line  # noqa: PLC0415  as above
        from perago_simulation.campaign import EngineError  # noqa: PLC0415  as above
        from perago_spark.diagnosis.failures import explained  # noqa: PLC0415  as above

        try:
            yield from self.spark(function, items)
        except Exception as error:
            raise EngineError(one_line(str(explained(error)))) from error
