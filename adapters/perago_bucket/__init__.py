"""Store and coordination port on plain object storage: S3 and what speaks it, Azure, Google Cloud; or in a folder."""

from __future__ import annotations

from perago_bucket.client import Connection
from perago_bucket.coordination import BucketCoordination
from perago_bucket.store import BucketStore

__all__ = ["BucketCoordination", "BucketStore", "Connection"]
