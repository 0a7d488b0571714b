"""Where Spark's own writer may write on lakeFS: a folder of the scratch branch, through the S3 gateway.

Spark's committer moves and deletes files and leaves markers. All that happens on the scratch branch, which nobody
commits. The files are linked from there to the staging name, as those of every other writer are; nothing is copied.

Never at the root of a branch: there S3A fails to overwrite and leaves the branch empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.ports import Stored
from perago_lakefs.answers import Refused, answer
from perago_lakefs.connection import Connection
from perago_lakefs.objects.keys import writable
from perago_lakefs.objects.read import listed
from perago_lakefs.objects.transfer import Courier

_PARTIAL = 206


def folder_of(folder: str, write: str) -> str:
    """Give the folder of one write, or refuse one at the root of the branch."""
    if not folder.endswith("/") or not folder.strip("/"):
        raise Refused(f"expected a folder below the root of the branch, found {folder!r}: name the data set")
    return writable(f"{folder}{write}/")


@frozen
class GatewayArea:
    """A folder of the scratch branch, as Spark reaches it."""

    connection: Connection
    repository: str
    branch: str
    folder: str

    @property
    def uri(self) -> str:
        """Say where it is, as Spark names it."""
        return f"s3a://{self.repository}/{self.branch}/{self.folder.rstrip('/')}"

    @property
    def options(self) -> Mapping[str, str]:
        """Give what S3A must be told. Spark hides values whose names speak of keys and secrets."""
        return {
            "fs.s3a.endpoint": self.connection.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.connection.access_key,
            "fs.s3a.secret.key": self.connection.secret_key,
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "fs.s3a.connection.ssl.enabled": str(self.connection.url.startswith("https:")).lower(),
            # Versions of an object do not exist behind this gateway.
            "fs.s3a.change.detection.mode": "none",
            # Else the committer that uploads in parts is taken where its jar is there, which gateways support unevenly.
            "fs.s3a.committer.name": "file",
        }

    def list(self) -> Answer[tuple[Stored, ...]]:
        """List what lies there, by paths relative to it."""
        courier = Courier(self.connection)

        def work() -> tuple[Stored, ...]:
            found = listed(courier, self.repository, self.branch, self.folder)
            # What ends in '/' is a folder that S3A made for itself.
            return tuple(
                evolve(each, path=each.path.removeprefix(self.folder)) for each in found if not each.path.endswith("/")
            )

        return answer(courier, work)

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file."""
        courier = Courier(self.connection)
        place = f"/repositories/{quote(self.repository, safe='')}/refs/{quote(self.branch, safe='')}/objects"

        def work() -> bytes:
            query = {"path": f"{self.folder}{found.path}"}
            response = courier.open(place, query, {"Range": f"bytes={max(0, found.size - size)}-"})
            try:
                data = response.read()
            finally:
                response.close()
            # A server that does not know ranges sends everything.
            return data if response.status == _PARTIAL else data[-size:]

        return answer(courier, work)

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Make a file ready to be linked: its bytes can stay where they are."""
        return Done(evolve(found, path=path), operations=0)
