"""Where the kill matrix is played on lakeFS."""

from __future__ import annotations

from tests.support.crash.lakefs_project import LakeFSProject
from tests.support.crash.matrix_page import MatrixStack

#: Each backing with the policy that leads to it on lakeFS with the hook.
POLICIES = {"conditional": "auto", "locked": "disable", "soft": "soft"}
LAKEFS = MatrixStack(
    "lakeFS",
    "a real lakeFS",
    "no tag left, no branch dirty, none moved but those published to",
    POLICIES,
    LakeFSProject,
)
