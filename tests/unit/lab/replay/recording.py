"""Builds exchanges from messages, as reading a capture would return them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import Connection, Endpoint, Exchange
from kafkalite.capture.reading.messages import request_header, response_start
from kafkalite.storage.batch import NO_PRODUCER, TRANSACTIONAL, BatchProducer, build_batch
from kafkalite.storage.record_format import NewRecord
from tests.unit.frames import request_content, response_content

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

_MS = 1_000_000
START_NS = 1_700_000_000_000 * _MS


def connection(number: int = 0, node_id: int = 1) -> Connection:
    return Connection(
        number=number,
        client=Endpoint("10.0.0.7", 50_000 + number),
        broker=Endpoint("10.0.0.1", 9092),
        opened_ns=START_NS,
        node_id=node_id,
    )


class Recording:
    """Exchanges in order of the calls, one millisecond apart."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def add(
        self,
        request: Message,
        response: Message | None,
        version: int,
        *,
        connection_number: int = 0,
        client_id: str = "client",
        duration_ms: int = 0,
    ) -> Exchange:
        """Add a request and its response."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        number = len(self.exchanges)
        frame = request_content(
            request, version, correlation_id=number, client_id=client_id.encode()
        )
        answer = (
            None if response is None else response_content(response, version, correlation_id=number)
        )
        sent_ns = START_NS + number * _MS
        exchange = Exchange(
            connection=connection(connection_number),
            position=sum(
                earlier.connection.number == connection_number for earlier in self.exchanges
            ),
            api_key=key,
            api_version=version,
            correlation_id=number,
            client_id=client_id,
            sent_ns=sent_ns,
            answered_ns=None if answer is None else sent_ns + duration_ms * _MS,
            request=frame,
            request_start=request_header(frame).start,
            response=answer,
            response_start=0 if answer is None else response_start(answer, key, version),
        )
        self.exchanges.append(exchange)
        return exchange


def batch(
    *values: str,
    offset: int = 0,
    producer: BatchProducer = NO_PRODUCER,
    is_transactional: bool = False,
) -> bytes:
    """Return a batch of records with these values, without keys."""
    return build_batch(
        [NewRecord(timestamp=START_NS // _MS, key=None, value=value.encode()) for value in values],
        base_offset=offset,
        leader_epoch=0,
        attributes=TRANSACTIONAL if is_transactional else 0,
        producer=producer,
    )
