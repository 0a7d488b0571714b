"""Where Spark's own writer may write on lakeFS: a folder of the scratch branch, through the S3 gateway.

Spark's committer moves and deletes files and leaves markers. All that happens on the scratch branch, which nobody
commits. The files are linked from there to the staging name, as those of every other writer are; nothing is copied.

Never at the root of a branch: there S3A fails to overwrite and leaves the branch empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from perago_core.answers import Answer, Done, NotDoneError
from perago_core.ports import Stored
from perago_lakefs.answers import answer
from perago_lakefs.client import Client, Connection
from perago_lakefs.objects.keys import writable
from perago_lakefs.objects.read import listed


def folder_of(folder: str, write: str) -> str:
    """Return the folder of one write, or refuse one at the root of the branch."""
    if not folder.endswith("/") or not folder.strip("/"):
        raise NotDoneError(f"expected a folder below the root of the branch, found {folder!r}: name the data set")
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
        """Return what S3A must be told. Spark hides values whose names speak of keys and secrets."""
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
        client = Client(self.connection)

        def work() -> tuple[Stored, ...]:
            found = listed(client, self.repository, self.branch, self.folder)
            # What ends in '/' is a folder that S3A made for itself.
            return tuple(
                evolve(each, path=each.path.removeprefix(self.folder)) for each in found if not each.path.endswith("/")
            )

        return answer(client, work)

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file."""
        client = Client(self.connection)

        def work() -> bytes:
            start = max(0, found.size - size)
            # A server that does not know ranges sends everything.
            return client.tail(self.repository, self.branch, f"{self.folder}{found.path}", start)[-size:]

        return answer(client, work)

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Make a file ready to be linked: its bytes can stay where they are."""
        return Done(evolve(found, path=path), operations=0)
