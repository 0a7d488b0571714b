"""A real lakeFS that signs addresses, because its blocks are in an S3 store: moto's, since a local disk cannot sign.

moto keeps everything in memory and believes any signature. So what is tested is which requests we send to whom, and
that what was sent comes back; not whether S3 would believe us, which is between lakeFS and S3.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

from tests.support.servers.faulty_proxy import FaultyProxy
from tests.support.servers.lakefs import LakeFS
from tests.support.servers.moto import Moto

BUCKET = "blocks"


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
        Moto(folder=Path(folder) / "s3") as s3,
        FaultyProxy(s3.url) as store,
        SigningLakeFS(folder=Path(folder) / "lakefs", store=store.url) as server,
    ):
        s3.make_bucket(BUCKET)
        yield Signing(server, store)
