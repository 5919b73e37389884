"""Exchanges made by hand, as a capture would give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.messages import request_header, response_start
from kafkalite.capture.model import Connection, Endpoint, Exchange
from kafkalite.storage.batch import NOBODY, TRANSACTIONAL, Producer, build_batch
from kafkalite.storage.records import NewRecord
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
    """Exchanges one after the other, a millisecond each."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def say(
        self,
        request: Message,
        response: Message | None,
        version: int,
        *,
        on: int = 0,
        client_id: str = "client",
        took_ms: int = 0,
    ) -> Exchange:
        """Add a request and what came back."""
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
            connection=connection(on),
            position=sum(each.connection.number == on for each in self.exchanges),
            api_key=key,
            api_version=version,
            correlation_id=number,
            client_id=client_id,
            sent_ns=sent_ns,
            answered_ns=None if answer is None else sent_ns + took_ms * _MS,
            request=frame,
            request_start=request_header(frame).start,
            response=answer,
            response_start=0 if answer is None else response_start(answer, key, version),
        )
        self.exchanges.append(exchange)
        return exchange


def batch(
    *values: str, offset: int = 0, producer: Producer = NOBODY, is_transactional: bool = False
) -> bytes:
    """Return a batch of records with these values, without keys."""
    return build_batch(
        [NewRecord(timestamp=START_NS // _MS, key=None, value=value.encode()) for value in values],
        base_offset=offset,
        leader_epoch=0,
        attributes=TRANSACTIONAL if is_transactional else 0,
        producer=producer,
    )
