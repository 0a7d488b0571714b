"""What says how a bucket is reached goes along with sink and source; what is secret in it is shown to nobody."""

from __future__ import annotations

import pickle
import subprocess
import sys
from secrets import token_hex

import pytest

from perago_bucket import BucketStore, Connection
from perago_conformance.support import FIRST, MAIN, done
from perago_worker.config.settings import StoreSettings
from perago_worker.stack import bucket_connection
from tests.support.servers.buckets import BUCKET, VersityGW

#: What the other process does: list what it was sent.
READING = "import pickle, sys; print(*(each.path for each in pickle.loads(bytes.fromhex(sys.argv[1])).list().value))"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}


def test_variables_are_taken_along_and_what_was_given_stays() -> None:
    variables = {**KEYS, "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT": "http://b", "AWS_DEFAULT_REGION": "eu"}
    carried = Connection("s3://lake", (("region", "us"),)).carrying(variables)
    assert dict(carried.options) == {
        "region": "us",
        "endpoint": "http://a",
        "access_key_id": "key",
        "secret_access_key": "secret",
        "session_token": "token",
    }
    assert "secret" not in repr(carried)


def test_keys_that_were_given_are_not_mixed_with_a_token_from_a_variable() -> None:
    """The server would refuse them together, and say that the keys are wrong, which they are not."""
    given = (("access_key_id", "mine"), ("secret_access_key", "mine too"))
    assert Connection("s3://lake", given).carrying(KEYS).options == given


def test_other_clouds_take_their_own_variables() -> None:
    variables = {**KEYS, "AZURE_STORAGE_ACCOUNT_NAME": "name", "AZURE_STORAGE_ACCOUNT_KEY": "key"}
    assert dict(Connection("az://lake").carrying(variables).options) == {"account_name": "name", "account_key": "key"}
    assert Connection("memory://lake").carrying(variables).options == ()


@pytest.mark.servers
def test_a_source_that_was_sent_reads_where_there_are_no_variables(
    server: VersityGW, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an executor of Spark does, which a cluster's manager has started on another machine."""
    for name, value in server.settings.items():
        monkeypatch.setenv(name, value)
    store = BucketStore(bucket_connection(StoreSettings(kind="bucket", url=f"s3://{BUCKET}/{token_hex(8)}")))
    source = store.read(MAIN.repository, done(store.create(MAIN, FIRST)))
    assert server.secret_key not in repr(source)
    words = [sys.executable, "-c", READING, pickle.dumps(source).hex()]
    # An executor has other variables, and the keys that are among them are not those of this bucket.
    ran = subprocess.run(words, env={"AWS_ACCESS_KEY_ID": "other"}, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    assert ran.stdout.split() == sorted(FIRST), ran.stderr
