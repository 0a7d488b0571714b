"""The store on lakeFS: translates answers of its API, decides nothing.

Read ``publish`` first, the only thing that moves a target, then ``hook``, which makes lakeFS itself check the expected
head. ``answers`` says what each status means, ``client`` what is sent, ``objects`` how bytes travel.
"""

from perago_lakefs.client import Connection
from perago_lakefs.store import LakeFSStore

__all__ = ["Connection", "LakeFSStore"]
