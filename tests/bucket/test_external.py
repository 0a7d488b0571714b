"""The identity of an input that is in a bucket: what the server says of it, by the variables that its users know."""

from __future__ import annotations

from importlib import import_module
from secrets import token_hex
from typing import Any

import pytest

from perago_spark.api.external import check_untouched, external
from perago_spark.errors import DatasetError
from tests.support.servers.buckets import BUCKET, VersityGW

pytestmark = pytest.mark.servers


def test_objects_are_known_by_their_entity_tags(server: VersityGW, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single object, or all below a key; a change of content is seen although size and name stay."""
    for name, value in server.settings.items():
        monkeypatch.setenv(name, value)
    obstore: Any = import_module("obstore")
    stores: Any = import_module("obstore.store")
    store = stores.from_url(f"s3://{BUCKET}", client_options={"allow_http": True})
    prefix = f"raw-{token_hex(4)}"
    for name, content in (("a.csv", b"id\n1\n"), ("day=1/b.csv", b"id\n2\n")):
        obstore.put(store, f"{prefix}/{name}", content)
    folder, one = external(f"s3://{BUCKET}/{prefix}/"), external(f"s3a://{BUCKET}/{prefix}/a.csv")
    assert (folder.identity.files, folder.identity.size) == (2, 10)
    assert (one.identity.files, one.identity.size, one.address) == (1, 5, f"s3a://{BUCKET}/{prefix}/a.csv")
    check_untouched(folder)
    obstore.put(store, f"{prefix}/a.csv", b"id\n3\n")
    with pytest.raises(DatasetError, match="to stay as it is while the task reads it"):
        check_untouched(folder)
    assert external(f"s3://{BUCKET}/{prefix}").identity.digest != folder.identity.digest
    with pytest.raises(DatasetError, match="found no object there"):
        external(f"s3://{BUCKET}/{prefix}-none")
