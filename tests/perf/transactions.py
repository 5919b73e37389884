"""Realistic transactions, encoded in advance.

Each writes one record to each of three partitions, commits an offset of a group, and ends.
Producers run independently. Each waits for its responses like a real client, and retries requests
that were rejected because its previous transaction is still being completed.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import TRANSACTIONAL, Batch
from tests.conformance.raw import RawClient
from tests.perf.pipeline import Rate, cpu_seconds, frame, separate_processors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.protocol.message import Message

TOPIC = "transacted"
PARTITIONS = 3
_GROUP_KIND, _TRANSACTION_KIND = 0, 1
_TIMEOUT_MS = 60_000
_BACKOFF_S = 0.02
"""The backoff of the Java client before it retries AddPartitionsToTxn."""
_TIMEOUT_S = 60.0
_VALUE = bytes(100)
_RETRIED_ERRORS = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class Protocol(NamedTuple):
    """A transaction protocol: the API versions, and their consequences."""

    name: str
    produce: int
    commit_offsets: int
    end: int
    adds_partitions: bool
    """Partitions and offsets are added to the transaction before the writes."""
    bumps_epoch: bool
    """Each transaction has a new epoch, and sequences restart at 0 (KIP-890)."""


OLD = Protocol("old", 11, 4, 4, adds_partitions=True, bumps_epoch=False)
NEW = Protocol("new", 12, 5, 5, adds_partitions=False, bumps_epoch=True)
_ADD_PARTITIONS, _ADD_OFFSETS = 3, 3


class EncodedRequest(NamedTuple):
    """An encoded request, and the API and version for parsing its response."""

    data: bytes
    key: int
    version: int


Step = tuple[EncodedRequest, ...]
"""Requests sent together; the next step waits for all responses."""


class Identity(NamedTuple):
    """A transactional ID, with its producer ID and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def group_id(self) -> str:
        """The group whose offsets its transactions commit."""
        return f"{self.transactional_id}-group"


def prepare(port: int) -> None:
    """Create the topic."""
    client = RawClient(port, _TIMEOUT_S)
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1
    )
    response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    assert not response.topics[0].error_code, response
    client.close()


def identify(port: int, transactional_id: str) -> Identity:
    """Initialize the producer, and wait for the coordinators of the producer and the group."""
    client = RawClient(port, _TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    group_id = Identity(transactional_id, -1, -1).group_id
    for key_type, key in ((_TRANSACTION_KIND, transactional_id), (_GROUP_KIND, group_id)):
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        while client.call(find, 4).coordinators[0].error_code:
            assert time.monotonic() < deadline, f"{key} has no coordinator"
            time.sleep(_BACKOFF_S)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS
    )
    while (initialized := client.call(request, 4)).error_code in _RETRIED_ERRORS:
        assert time.monotonic() < deadline, initialized
        time.sleep(_BACKOFF_S)
    assert not initialized.error_code, initialized
    client.close()
    return Identity(transactional_id, initialized.producer_id, initialized.producer_epoch)


def encode_transaction(protocol: Protocol, identity: Identity, number: int) -> tuple[Step, ...]:
    """Return the steps of one transaction of a producer; `number` starts at 0."""
    name, producer_id, first_epoch = identity
    epoch = first_epoch + number if protocol.bumps_epoch else first_epoch
    batch = Batch(
        values=(_VALUE,),
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0 if protocol.bumps_epoch else number,
    ).encode()
    written = [
        ProduceRequest.PartitionProduceData(index=index, records=batch)
        for index in range(PARTITIONS)
    ]
    produce = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=written)],
    )
    commit = _offset_commit(identity, epoch, number + 1)
    end = EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True
    )
    body: tuple[Step, ...] = (
        (_encode(produce, protocol.produce), _encode(commit, protocol.commit_offsets)),
    )
    if protocol.adds_partitions:
        body = (
            (_encode(_add_partitions(identity, epoch), _ADD_PARTITIONS),),
            (
                _encode(produce, protocol.produce),
                _encode(_add_offsets(identity, epoch), _ADD_OFFSETS),
            ),
            (_encode(commit, protocol.commit_offsets),),
        )
    return (*body, (_encode(end, protocol.end),))


def _encode(request: Message, version: int) -> EncodedRequest:
    return EncodedRequest(frame(request, version), request.API_KEY, version)  # type: ignore[attr-defined]


def _add_partitions(identity: Identity, epoch: int) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
        name=TOPIC, partitions=list(range(PARTITIONS))
    )
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic],
    )


def _add_offsets(identity: Identity, epoch: int) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=epoch,
        group_id=identity.group_id,
    )


def _offset_commit(identity: Identity, epoch: int, offset: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=identity.group_id,
        producer_id=identity.producer_id,
        producer_epoch=epoch,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        ],
    )


def error_codes_of(answer: Any) -> Iterator[int]:  # noqa: ANN401 - any response class
    """Yield all error codes in a response."""
    for name in answer.__slots__:
        if name.endswith("error_code"):
            yield getattr(answer, name)
        elif isinstance(rows := getattr(answer, name), list):
            for row in rows:
                yield from error_codes_of(row)


class Connection:
    """The connection of one producer: sends a step, and reads its responses."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unanswered: list[EncodedRequest] = []
        self._retried: list[EncodedRequest] = []
        self._received = bytearray()

    def send(self, step: Sequence[EncodedRequest]) -> None:
        """Send requests at once."""
        self._unanswered = list(step)
        self._retried = []
        self.socket.sendall(b"".join(request.data for request in step))

    def receive(self) -> list[EncodedRequest] | None:
        """Receive data; with the last response, return the requests to retry, else None."""
        data = self.socket.recv(1 << 16)
        assert data, "the broker closed the connection"
        received = self._received
        received += data
        while len(received) >= (end := 4 + _length(received)):
            request = self._unanswered.pop(0)
            self._check(request, received, end)
            del received[:end]
        return None if self._unanswered else self._retried

    def complete(self, step: Sequence[EncodedRequest]) -> None:
        """Send a step, with retries, and wait for its responses."""
        while step:
            self.send(step)
            while (refused := self.receive()) is None:
                pass
            if refused:
                time.sleep(_BACKOFF_S)
            step = refused

    def _check(self, request: EncodedRequest, received: bytearray, end: int) -> None:
        start = 8 + codec.is_flexible(request.key, request.version)
        answer, _ = codec.response_parser(request.key, request.version)(received, start, end)
        errors = {code for code in error_codes_of(answer) if code}
        if errors:
            assert errors <= _RETRIED_ERRORS, answer
            self._retried.append(request)


def _length(received: bytearray) -> int:
    return int(struct.unpack_from(">i", received)[0]) if len(received) >= 4 else 1 << 30


def rate(
    port: int, pid: int, protocol: Protocol, *, producers: int, transactions: int, run: str = ""
) -> Rate:
    """Run several producers concurrently, with this number of transactions each."""
    identities = [identify(port, f"{protocol.name}{run}-{number}") for number in range(producers)]
    connections = [Connection(port) for _ in identities]
    plans = [
        [
            step
            for number in range(transactions)
            for step in encode_transaction(protocol, identity, number)
        ]
        for identity in identities
    ]
    with separate_processors(pid):
        cpu, started = cpu_seconds(pid), time.perf_counter()
        _run_plans(connections, plans)
        elapsed_s, cpu = time.perf_counter() - started, cpu_seconds(pid) - cpu
    for connection in connections:
        connection.socket.close()
    for identity in identities:
        committed = committed_offset(port, identity.group_id)
        assert committed == transactions, f"{identity.group_id}: committed offset {committed}"
    return Rate(producers * transactions / elapsed_s, producers * transactions / max(cpu, 0.01))


def _run_plans(connections: Sequence[Connection], plans: Sequence[Sequence[Step]]) -> None:
    """Run the steps of all producers concurrently."""
    next_steps = [1] * len(plans)
    delayed: list[tuple[float, int, list[EncodedRequest]]] = []
    remaining = len(plans)
    with selectors.DefaultSelector() as selector:
        for index, connection in enumerate(connections):
            selector.register(connection.socket, selectors.EVENT_READ, index)
            connection.send(plans[index][0])
        while remaining:
            now = time.perf_counter()
            while delayed and delayed[0][0] <= now:
                _, index, refused = heapq.heappop(delayed)
                connections[index].send(refused)
            wait = delayed[0][0] - now if delayed else _TIMEOUT_S
            for key, _ in selector.select(wait):
                index = key.data
                retries = connections[index].receive()
                if retries is None:
                    continue
                if retries:
                    heapq.heappush(delayed, (time.perf_counter() + _BACKOFF_S, index, retries))
                elif next_steps[index] < len(plans[index]):
                    connections[index].send(plans[index][next_steps[index]])
                    next_steps[index] += 1
                else:
                    remaining -= 1


def committed_offset(port: int, group_id: str) -> int:
    """Return the committed offset of partition 0, after pending transactions have ended."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    client = RawClient(port, _TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        answer = client.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
        partition = answer.groups[0].topics[0].partitions[0]
        if partition.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            client.close()
            return int(partition.committed_offset)
        assert time.monotonic() < deadline, answer
        time.sleep(_BACKOFF_S)
