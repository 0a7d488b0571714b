"""A gateway before lakeFS that answers some requests itself, as one does whose server is away, or who has enough."""

from __future__ import annotations

from http import HTTPStatus

from tests.support.servers.faulty_proxy import FaultyProxy, Predicate, Request

#: What gateways write beside these statuses is theirs; lakeFS writes JSON with a message.
BODY = b"default backend"


class Gateway(FaultyProxy):
    """Answers the requests that match with this status, without asking lakeFS."""

    def __init__(self, upstream: str, status: HTTPStatus, matches: Predicate) -> None:
        super().__init__(upstream)
        self.status = status
        self.matches = matches

    async def _ask(self, request: Request, message: bytes) -> tuple[bytes, bool]:
        if not self.matches(request):
            return await super()._ask(request, message)
        request.status = self.status.value
        head = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nRetry-After: 3600"
        return f"{head}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY, True
