"""The latency from the end of a transaction to its records at a read_committed consumer."""

from __future__ import annotations

import selectors
import struct
import time
from typing import NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.storage.batch import split_batches
from tests.conformance.raw import RawClient
from tests.perf.pipeline import frame
from tests.perf.transactions import (
    PARTITIONS,
    TOPIC,
    Connection,
    Protocol,
    encode_transaction,
    identify,
)

_FETCH = 12
_READ_COMMITTED = 1
_LATEST = -1
_WAIT_MS = 5_000


class Latency(NamedTuple):
    """The median and the 99th percentile in milliseconds."""

    p50_ms: float
    p99_ms: float


class Reader:
    """Reads committed records of all partitions with long-polling Fetch requests."""

    def __init__(self, port: int) -> None:
        topic = ListOffsetsRequest.ListOffsetsTopic(
            name=TOPIC,
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
                for index in range(PARTITIONS)
            ],
        )
        client = RawClient(port)
        answer = client.call(
            ListOffsetsRequest(replica_id=-1, isolation_level=_READ_COMMITTED, topics=[topic]), 5
        )
        client.close()
        rows = answer.topics[0].partitions
        self._positions = {row.partition_index: row.offset for row in rows}
        self._connection = Connection(port)
        self.socket = self._connection.socket
        self._received = bytearray()
        self.fetch()

    def fetch(self) -> None:
        """Send the next request."""
        partitions = [
            FetchRequest.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            for index, offset in self._positions.items()
        ]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=_READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=partitions)],
        )
        self.socket.sendall(frame(request, _FETCH))

    def receive(self) -> int:
        """Receive data, fetch again after a response, and return the number of records received."""
        received = self._received
        received += self.socket.recv(1 << 16)
        if len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            return 0
        parse = codec.response_parser(FetchRequest.API_KEY, _FETCH)
        answer, _ = parse(received, 8 + codec.is_flexible(FetchRequest.API_KEY, _FETCH),
                          len(received))  # fmt: skip
        records = 0
        for row in answer.responses[0].partitions if answer.responses else ():
            assert not row.error_code, row
            for batch in split_batches(bytes(row.records or b"")):
                self._positions[row.partition_index] = batch.last_offset + 1
                records += 0 if batch.is_control else batch.record_count
        self._received = bytearray()
        self.fetch()
        return records

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def latency(port: int, protocol: Protocol, *, transactions: int, run: str = "") -> Latency:
    """Run transactions one after another, each until a reader has all of its records."""
    identity = identify(port, f"{protocol.name}{run}-seen")
    plans = [encode_transaction(protocol, identity, number) for number in range(transactions)]
    producer, reader = Connection(port), Reader(port)
    elapsed_s = []
    with selectors.DefaultSelector() as selector:
        selector.register(producer.socket, selectors.EVENT_READ)
        selector.register(reader.socket, selectors.EVENT_READ)
        for *body, end in plans:
            for step in body:
                producer.complete(step)
            started = time.perf_counter()
            producer.send(end)
            missing, is_answered = PARTITIONS, False
            while missing or not is_answered:
                for key, _ in selector.select():
                    if key.fileobj is reader.socket:
                        missing -= reader.receive()
                        if not missing:
                            elapsed_s.append(time.perf_counter() - started)
                    else:
                        retries = producer.receive()
                        assert not retries, "EndTxn was rejected"
                        is_answered = retries is not None
    producer.socket.close()
    reader.close()
    elapsed_s.sort()
    assert len(elapsed_s) == transactions
    return Latency(
        elapsed_s[len(elapsed_s) // 2] * 1000, elapsed_s[len(elapsed_s) * 99 // 100] * 1000
    )
