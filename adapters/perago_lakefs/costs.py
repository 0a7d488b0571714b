"""How many requests each call of the port takes on lakeFS. Tests count them on a real server and demand these numbers.

What comes on top, and why it is no part of a usual publication:

* the first barrier of a process in a repository looks at the pinned first commit: two more;
* ``claims`` reads each claim of an earlier attempt once: one more for each;
* ``revoke_older`` deletes what it finds: one more for each name;
* a listing has pages of a thousand: one more for each thousand objects, claims or names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REQUESTS: Mapping[str, int] = MappingProxyType(
    {
        "head": 2,  # is it dirty, then the tip with its parents and its tree
        "look": 1,
        "open_staging": 1,
        "commit": 1,
        "drop": 2,  # the name, then its scratch branch
        "claim": 2,  # the record, then the tag
        "read_claim": 1,
        "claims": 1,
        "revoke_older": 1,
        "barrier": 1,
        "publish": 2,  # is the hook in the staged commit, or the name where it must be; then the merge or the reset
    }
)
