"""Where the kill matrix is played on a bucket."""

from __future__ import annotations

from tests.support.crash.bucket_project import BucketProject
from tests.support.crash.matrix_page import MatrixStack

#: A bucket is `atomic`: this is what `auto` leads to, and what a cluster on one has.
POLICIES = {"atomic": "auto"}
BUCKET = MatrixStack(
    "a bucket",
    "a real S3",
    "no object left after `gc` that nothing reaches, every byte of every commit there",
    POLICIES,
    BucketProject,
)
