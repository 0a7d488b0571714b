"""A real lakeFS that signs addresses, because its blocks are in an S3 store: moto's, since a local disk cannot sign.

moto keeps everything in memory and believes any signature. So what is tested is which requests we send to whom, and
that what was sent comes back; not whether S3 would believe us, which is between lakeFS and S3.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import urllib3
from attrs import define, frozen

from tests.support.servers.environments import interpreter
from tests.support.servers.faulty_proxy import FaultyProxy
from tests.support.servers.lakefs import LakeFS
from tests.support.servers.server import Server

BUCKET = "blocks"


@define(kw_only=True)
class S3(Server):
    """The store of the blocks."""

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

    def make_bucket(self) -> None:
        anybody = "AWS4-HMAC-SHA256 Credential=k/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=s"
        made = urllib3.request("PUT", f"{self.url}/{BUCKET}", headers={"Authorization": anybody})
        assert made.status == 200, made.data


@define(kw_only=True)
class SigningLakeFS(LakeFS):
    """A lakeFS whose blocks are there."""

    store: str

    @property
    def namespaces(self) -> str:
        return f"s3://{BUCKET}"

    def environment(self) -> Mapping[str, str]:
        plain = super().environment()
        s3 = {
            "ENDPOINT": self.store,
            "REGION": "us-east-1",
            "DISCOVER_BUCKET_REGION": "false",
            "FORCE_PATH_STYLE": "true",
            "CREDENTIALS_ACCESS_KEY_ID": "k",
            "CREDENTIALS_SECRET_ACCESS_KEY": "s",
        }
        ours = {f"LAKEFS_BLOCKSTORE_S3_{key}": value for key, value in s3.items()}
        return {**plain, "LAKEFS_BLOCKSTORE_TYPE": "s3", **ours}


@frozen
class Signing:
    """The server, and what stands before its store and counts."""

    server: SigningLakeFS
    store: FaultyProxy


@contextmanager
def signing() -> Generator[Signing]:
    """Run both."""
    with (
        tempfile.TemporaryDirectory() as folder,
        S3(folder=Path(folder) / "s3") as s3,
        FaultyProxy(s3.url) as store,
        SigningLakeFS(folder=Path(folder) / "lakefs", store=store.url) as server,
    ):
        s3.make_bucket()
        yield Signing(server, store)
