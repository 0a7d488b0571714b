"""S3 as moto has it: in memory, and it believes any signature, so that a proxy may change what was signed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

import urllib3
from attrs import define

from tests.support.servers.environments import interpreter
from tests.support.servers.server import Server


@define(kw_only=True)
class Moto(Server):
    """A server without a bucket."""

    name: ClassVar[str] = "s3"
    health: ClassVar[str] = "/moto-api/data.json"

    def command(self) -> list[str]:
        python = interpreter("moto")
        return [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}

    @property
    def settings(self) -> Mapping[str, str]:
        return {"AWS_ENDPOINT_URL": self.url}

    def make_bucket(self, bucket: str) -> None:
        anybody = "AWS4-HMAC-SHA256 Credential=k/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=s"
        made = urllib3.request("PUT", f"{self.url}/{bucket}", headers={"Authorization": anybody})
        assert made.status == 200, made.data
