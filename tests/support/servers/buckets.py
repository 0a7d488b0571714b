"""Real object storage on loopback: two servers that speak S3 and share no code."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import ClassVar

from attrs import define, field

from tests.support.servers.cache import Part
from tests.support.servers.server import Server, free_port

MINIO = Part("minio", "0.0.0-20260212201848-7aac2a2c5b7c", "minio")
VERSITYGW = Part("versitygw", "1.8.0", "versitygw")
BUCKET = "perago"


@define(kw_only=True)
class BucketServer(Server):
    """A server with one bucket, ``perago``. Both keep a bucket in a folder of that name, so it is made before them."""

    access_key: str = field(factory=lambda: f"AK{secrets.token_hex(8).upper()}")
    secret_key: str = field(factory=lambda: secrets.token_hex(20), repr=False)

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def start(self) -> None:
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        super().start()

    def surroundings(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}


@define(kw_only=True)
class MinIO(BucketServer):
    name: ClassVar[str] = "minio"
    health: ClassVar[str] = "/minio/health/ready"

    console_port: int = field(factory=free_port)

    def command(self) -> list[str]:
        addresses = [f"--address=127.0.0.1:{self.port}", f"--console-address=127.0.0.1:{self.console_port}"]
        return [str(MINIO.path), "server", "--quiet", *addresses, str(self.folder / "data")]

    def environment(self) -> Mapping[str, str]:
        return {
            **self.surroundings(),
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_CALLHOME_ENABLE": "off",
        }


@define(kw_only=True)
class VersityGW(BucketServer):
    name: ClassVar[str] = "versitygw"
    health: ClassVar[str] = "/health"

    def command(self) -> list[str]:
        options = [f"--port=127.0.0.1:{self.port}", "--quiet", f"--health={self.health}"]
        return [str(VERSITYGW.path), *options, "posix", str(self.folder / "data")]

    def environment(self) -> Mapping[str, str]:
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        return {**self.surroundings(), **keys}
