"""The fence inside lakeFS's own branch update: a hook that compares the head a merge really lands on with the expected.

lakeFS runs it after it has made the commit and before it moves the branch, and again if the branch moved meanwhile
(F-03), so what the hook saw is what the branch was moved from. It takes the hook from the *merged* commit, not from the
target (F-05): a staged commit without the hook is not fenced. So whoever relies on the hook looks for it there first.

A merge that says no expected head is nobody's publication of ours. ``LENIENT`` lets it through; ``STRICT`` refuses it.
"""

from __future__ import annotations

import hashlib
import re

FOLDER = "_lakefs_actions/"
PATH = f"{FOLDER}perago_head_fence.yaml"
EXPECTED = "perago_expected_head"
STAGED = "perago_staged"
_MARK = "PERAGO-FENCE"

_NO_EXPECTED_HEAD = f"""\
        if expected == nil then
          error("{_MARK} the head is <" .. head .. ">, and the merge says none: give metadata {EXPECTED}=" .. head)
        end
"""
#: A person's merge says no expected head and is let through: it moves the head, which is what our own merges compare.
_LET_THROUGH = """\
        if expected == nil then
          return
        end
"""


def _text(without_expected_head: str) -> str:
    return f"""\
name: perago head fence
description: Refuses a merge that would land on another head than the one its sender has seen.
on:
  pre-merge:
    branches: []
hooks:
  - id: perago_head_fence
    type: lua
    properties:
      script: |
        local head = action.commit.parents[1]
        local expected = action.commit.metadata["{EXPECTED}"]
        local staged = action.commit.metadata["{STAGED}"]
{without_expected_head}\
        if expected ~= head then
          error("{_MARK} the head is <" .. head .. ">")
        end
        if staged ~= nil and staged ~= action.source_ref then
          error("{_MARK} the source is <" .. action.source_ref .. ">")
        end
"""


#: Change one, and ``perago init-repo`` has to be run again: a publication checks that it is one of these very texts.
LENIENT = _text(_LET_THROUGH).encode()
STRICT = _text(_NO_EXPECTED_HEAD).encode()


def checksum(content: bytes) -> str:
    """Return what lakeFS gives as the checksum of an object that was uploaded to it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


#: Each text of this release, by its checksum. Both check an expected head that a merge says.
TEXTS = {checksum(each): each for each in (LENIENT, STRICT)}

_HEAD = re.compile(rf"{_MARK} the (head|source) is <([0-9a-f]+)>")


def found_by(refusal: str) -> tuple[str, str] | None:
    """Return what the hook found, and of what, if it was our hook that refused."""
    found = _HEAD.search(refusal)
    return None if found is None else (found[1], found[2])
