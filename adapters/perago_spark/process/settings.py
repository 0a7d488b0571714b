"""How Spark runs, as a value that needs no Spark to be made, and a check of the address of a Spark Connect server.

The address may hold a token, and PySpark quotes an address it cannot parse: the token would then stand in the task's
reason, its log and the doctor's report. So everything that PySpark would refuse is refused here, in messages that quote
nothing.
"""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from attrs import asdict, field, frozen

from perago_spark.errors import SparkUnavailableError
from perago_spark.process.refused import refusals


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

    def __attrs_post_init__(self) -> None:
        wrong = [f"[spark.conf] {each}" for each in refusals(self.conf)]
        if wrong:
            raise SparkUnavailableError("; ".join(wrong))

    def text(self) -> str:
        """Serialise them for another process."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> SparkSettings:
    """Deserialise what ``text`` wrote."""
    return SparkSettings(**json.loads(text))


#: What every session of a task begins with, whoever runs Spark; ``SparkSettings.conf`` goes before it.
TASK_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Else points in time are written as 96 bits, which have no zone and no least and greatest value.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


_SCHEME: Final = "sc://"
#: What gRPC takes as the name of a header; most parameters become one.
_NAME: Final = re.compile(r"[a-z0-9_.-]+")
#: Parameters that become none.
_ANY_TEXT: Final = ("user_id", "user_agent")
_FORM: Final = "expected spark.remote to be sc://host:port, or sc://host:port/;name=value;name=value"


def check_address(remote: str) -> None:
    """Refuse what is no address of a server. Raises ``SparkUnavailableError``, which holds no value of it."""
    objection = _objection(remote)
    if objection is not None:
        raise refused(objection)


def refused(found: str) -> SparkUnavailableError:
    """Make the error for an address, from a description that holds no value of it."""
    return SparkUnavailableError(
        f"{_FORM}; found {found}. Correct it where it is set; it is not shown here, because it may hold a secret"
    )


def _objection(remote: str) -> str | None:
    if not remote.startswith(_SCHEME):
        return "another beginning than sc://"
    place, *parameters = remote.removeprefix(_SCHEME).split(";")
    host, slash, path = place.partition("/")
    if path or (parameters and not slash):
        return "something else than / between host and parameters"
    try:
        parts = urlsplit(f"//{host}")
        fine = bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        return "no host, or no number as its port"
    for number, parameter in enumerate(parameters, 1):
        objection = _parameter_objection(parameter)
        if objection is not None:
            return f"in parameter {number} {objection}"
    return None


def _parameter_objection(parameter: str) -> str | None:
    name, equals, value = parameter.partition("=")
    plain = unquote(value)
    if not equals or any(sign in value for sign in "=/?#"):
        return "not one = sign, or one of / ? #; inside a value they are %3D %2F %3F %23"
    if not _NAME.fullmatch(name):
        return "a name with other signs than a-z 0-9 _ . -"
    if not (plain.isascii() and plain.isprintable()) and name not in _ANY_TEXT:
        return f"a value of {name} that no header can hold"
    return None
