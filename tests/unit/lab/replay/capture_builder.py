"""Builds the events of a capture from messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import (
    Closed,
    Connection,
    Direction,
    Endpoint,
    Exchange,
    Frame,
    Opened,
)
from kafkalite.protocol import codec
from tests.unit.frames import request_content, response_content

if TYPE_CHECKING:
    from kafkalite.capture.model import Event

MS = 1_000_000
CLIENT_ID = b"app"


def connection(number: int, node_id: int | None = None) -> Connection:
    return Connection(
        number=number,
        client=Endpoint("10.0.0.1", 40_000 + number),
        broker=Endpoint("10.0.0.9", 9092),
        opened_ns=None,
        node_id=node_id,
    )


class CaptureBuilder:
    """Events in order of the calls, one millisecond apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now_ns = 1_700_000_000_000 * MS
        self._correlation = 0

    def wait(self, ms: int) -> None:
        self.now_ns += ms * MS

    def _advance(self) -> int:
        self.now_ns += MS
        return self.now_ns

    def open(self, connection: Connection) -> None:
        self.events.append(Opened(self._advance(), connection))

    def close(self, connection: Connection) -> None:
        self.events.append(Closed(self._advance(), connection))

    def send(self, connection: Connection, message: Any, version: int) -> int:  # noqa: ANN401 - any request
        self._correlation += 1
        self.add_frame(
            connection,
            Direction.REQUEST,
            request_content(
                message, version, correlation_id=self._correlation, client_id=CLIENT_ID
            ),
        )
        return self._correlation

    def answer(
        self,
        connection: Connection,
        correlation_id: int,
        message: Any,  # noqa: ANN401 - any response
        version: int,
    ) -> None:
        self.add_frame(
            connection,
            Direction.RESPONSE,
            response_content(message, version, correlation_id=correlation_id),
        )

    def call(self, connection: Connection, request: Any, response: Any, version: int) -> None:  # noqa: ANN401 - any messages
        self.answer(connection, self.send(connection, request, version), response, version)

    def add_frame(self, connection: Connection, direction: Direction, body: bytes) -> None:
        self.events.append(Frame(self._advance(), connection, direction, body, "built.pcapng", 0))


def exchange(request: Any, response: Any, version: int, duration_ms: int = 1) -> Exchange:  # noqa: ANN401 - any messages
    """Return one exchange; `response` may be None."""
    api_key = request.API_KEY
    return Exchange(
        connection=connection(0),
        position=0,
        api_key=api_key,
        api_version=version,
        correlation_id=7,
        client_id=CLIENT_ID.decode(),
        sent_ns=0,
        answered_ns=None if response is None else duration_ms * MS,
        request=request_content(request, version, correlation_id=7, client_id=CLIENT_ID),
        request_start=10 + len(CLIENT_ID) + codec.is_flexible(api_key, version),
        response=None
        if response is None
        else response_content(response, version, correlation_id=7),
        response_start=4 + codec.response_header_version(api_key, version),
    )
