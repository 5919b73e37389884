"""From the end of a transaction to its records in the hands of a reader of committed ones."""

from __future__ import annotations

import selectors
import struct
import time
from typing import NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalite.storage.batch import split_batches
from tests.conformance.raw import RawClient
from tests.perf.pipeline import frame
from tests.perf.transactions import PARTITIONS, TOPIC, Connection, Protocol, encoded, identify

_FETCH = 12
_READ_COMMITTED = 1
_LATEST = -1
_WAIT_MS = 5_000


class Latency(NamedTuple):
    """How long it took in milliseconds: of half, and of all but one in a hundred."""

    p50_ms: float
    p99_ms: float


class Reader:
    """Reads committed records of all partitions with a request that always waits."""

    def __init__(self, port: int) -> None:
        asked = ListOffsetsRequest.ListOffsetsTopic(
            name=TOPIC,
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
                for index in range(PARTITIONS)
            ],
        )
        client = RawClient(port)
        answer = client.call(
            ListOffsetsRequest(replica_id=-1, isolation_level=_READ_COMMITTED, topics=[asked]), 5
        )
        client.close()
        rows = answer.topics[0].partitions
        self._positions = {row.partition_index: row.offset for row in rows}
        self._connection = Connection(port)
        self.socket = self._connection.socket
        self._received = bytearray()
        self.ask()

    def ask(self) -> None:
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

    def take(self) -> int:
        """Take what has come, ask for more after an answer, and count the records that came."""
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
        self.ask()
        return records

    def close(self) -> None:
        """Let the connection go."""
        self.socket.close()


def latency(port: int, protocol: Protocol, *, transactions: int, run: str = "") -> Latency:
    """Carry out transactions one after the other, each until a reader has all of its records."""
    identity = identify(port, f"{protocol.name}{run}-seen")
    plans = [encoded(protocol, identity, number) for number in range(transactions)]
    producer, reader = Connection(port), Reader(port)
    taken = []
    with selectors.DefaultSelector() as selector:
        selector.register(producer.socket, selectors.EVENT_READ)
        selector.register(reader.socket, selectors.EVENT_READ)
        for *body, end in plans:
            for step in body:
                producer.complete(step)
            begin = time.perf_counter()
            producer.send(end)
            left, is_answered = PARTITIONS, False
            while left or not is_answered:
                for key, _ in selector.select():
                    if key.fileobj is reader.socket:
                        left -= reader.take()
                        if not left:
                            taken.append(time.perf_counter() - begin)
                    else:
                        again = producer.receive()
                        assert not again, "the end of a transaction was refused"
                        is_answered = again is not None
    producer.socket.close()
    reader.close()
    taken.sort()
    assert len(taken) == transactions
    return Latency(taken[len(taken) // 2] * 1000, taken[len(taken) * 99 // 100] * 1000)
