"""The coordination port on etcd, for workers on several machines."""

from __future__ import annotations

from perago_etcd.coordination import EtcdCoordination

__all__ = ["EtcdCoordination"]
