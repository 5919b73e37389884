"""Transactions of real shape, encoded beforehand: what a producer sends, and what it waits for.

Each writes one record to each of three partitions, commits a group's offset with them, and ends.
Producers do not wait for each other; each waits for its own answers as clients do, and sends again
what was refused because its last transaction is still being completed.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.conformance.batches import TRANSACTIONAL, Batch
from tests.conformance.raw import RawClient
from tests.perf.pipeline import Rate, apart, cpu_seconds, frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.protocol.message import Message

TOPIC = "transacted"
PARTITIONS = 3
_GROUP_KIND, _TRANSACTION_KIND = 0, 1
_TIMEOUT_MS = 60_000
_BACKOFF_S = 0.02
"""Java's wait before it adds partitions again to a transaction that follows at once."""
_PATIENCE_S = 60.0
_VALUE = bytes(100)
_RETRIED = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class Protocol(NamedTuple):
    """A way to transact: the versions that are spoken, and what follows from them."""

    name: str
    produce: int
    commit_offsets: int
    end: int
    names_partitions: bool
    """Partitions and offsets are announced before they are written."""
    bumps_epoch: bool
    """Each transaction has an epoch of its own, and sequences begin anew (KIP-890)."""


OLD = Protocol("old", 11, 4, 4, names_partitions=True, bumps_epoch=False)
NEW = Protocol("new", 12, 5, 5, names_partitions=False, bumps_epoch=True)
_ADD_PARTITIONS, _ADD_OFFSETS = 3, 3


class Asked(NamedTuple):
    """A request as it goes over the wire, and how its answer is read."""

    data: bytes
    key: int
    version: int


Step = tuple[Asked, ...]
"""What is sent together; the next step waits for all of its answers."""


class Identity(NamedTuple):
    """A transactional id, and who it was given to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def group_id(self) -> str:
        """The group whose offsets go with its transactions."""
        return f"{self.transactional_id}-group"


def prepare(port: int) -> None:
    """Have the topic, and whatever topics the broker keeps transactions and groups in."""
    client = RawClient(port, _PATIENCE_S)
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1
    )
    made = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    assert not made.topics[0].error_code, made
    client.close()


def identify(port: int, transactional_id: str) -> Identity:
    """Become the producer of this id, whose group has a coordinator as well."""
    client = RawClient(port, _PATIENCE_S)
    until = time.monotonic() + _PATIENCE_S
    group_id = Identity(transactional_id, -1, -1).group_id
    for kind, key in ((_TRANSACTION_KIND, transactional_id), (_GROUP_KIND, group_id)):
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while client.call(asked, 4).coordinators[0].error_code:
            assert time.monotonic() < until, f"{key} has no coordinator"
            time.sleep(_BACKOFF_S)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS
    )
    while (given := client.call(request, 4)).error_code in _RETRIED:
        assert time.monotonic() < until, given
        time.sleep(_BACKOFF_S)
    assert not given.error_code, given
    client.close()
    return Identity(transactional_id, given.producer_id, given.producer_epoch)


def encoded(protocol: Protocol, identity: Identity, number: int) -> tuple[Step, ...]:
    """Return the steps of the producer's transaction of that number, from 0."""
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
        (_asked(produce, protocol.produce), _asked(commit, protocol.commit_offsets)),
    )
    if protocol.names_partitions:
        body = (
            (_asked(_add_partitions(identity, epoch), _ADD_PARTITIONS),),
            (
                _asked(produce, protocol.produce),
                _asked(_add_offsets(identity, epoch), _ADD_OFFSETS),
            ),
            (_asked(commit, protocol.commit_offsets),),
        )
    return (*body, (_asked(end, protocol.end),))


def _asked(request: Message, version: int) -> Asked:
    return Asked(frame(request, version), request.API_KEY, version)  # type: ignore[attr-defined]


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


def errors_of(answer: Any) -> Iterator[int]:  # noqa: ANN401 - any response class
    """Yield every error code of an answer, wherever it stands."""
    for name in answer.__slots__:
        if name.endswith("error_code"):
            yield getattr(answer, name)
        elif isinstance(rows := getattr(answer, name), list):
            for row in rows:
                yield from errors_of(row)


class Connection:
    """One producer's connection: sends a step, and reads until it is answered."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unanswered: list[Asked] = []
        self._refused: list[Asked] = []
        self._received = bytearray()

    def send(self, step: Sequence[Asked]) -> None:
        """Send some requests in one piece."""
        self._unanswered = list(step)
        self._refused = []
        self.socket.sendall(b"".join(asked.data for asked in step))

    def receive(self) -> list[Asked] | None:
        """Take what has come; once all is answered, return what must be sent again."""
        data = self.socket.recv(1 << 16)
        assert data, "the broker closed the connection"
        received = self._received
        received += data
        while len(received) >= (end := 4 + _length(received)):
            asked = self._unanswered.pop(0)
            self._judge(asked, received, end)
            del received[:end]
        return None if self._unanswered else self._refused

    def complete(self, step: Sequence[Asked]) -> None:
        """Send a step, as often as it must be, and wait for its answers."""
        while step:
            self.send(step)
            while (refused := self.receive()) is None:
                pass
            if refused:
                time.sleep(_BACKOFF_S)
            step = refused

    def _judge(self, asked: Asked, received: bytearray, end: int) -> None:
        start = 8 + codec.is_flexible(asked.key, asked.version)
        answer, _ = codec.response_parser(asked.key, asked.version)(received, start, end)
        errors = {code for code in errors_of(answer) if code}
        if errors:
            assert errors <= _RETRIED, answer
            self._refused.append(asked)


def _length(received: bytearray) -> int:
    return int(struct.unpack_from(">i", received)[0]) if len(received) >= 4 else 1 << 30


def rate(
    port: int, pid: int, protocol: Protocol, *, producers: int, transactions: int, run: str = ""
) -> Rate:
    """Let some producers carry out so many transactions each, all at the same time."""
    who = [identify(port, f"{protocol.name}{run}-{number}") for number in range(producers)]
    connections = [Connection(port) for _ in who]
    plans = [
        [step for number in range(transactions) for step in encoded(protocol, each, number)]
        for each in who
    ]
    with apart(pid):
        cpu, begin = cpu_seconds(pid), time.perf_counter()
        _carry_out(connections, plans)
        taken, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
    for connection in connections:
        connection.socket.close()
    for each in who:
        committed = committed_offset(port, each.group_id)
        assert committed == transactions, f"{each.group_id} is at {committed}"
    return Rate(producers * transactions / taken, producers * transactions / max(cpu, 0.01))


def _carry_out(connections: Sequence[Connection], plans: Sequence[Sequence[Step]]) -> None:
    """Keep every producer busy with its own steps until all have taken the last one."""
    nexts = [1] * len(plans)
    delayed: list[tuple[float, int, list[Asked]]] = []
    left = len(plans)
    with selectors.DefaultSelector() as selector:
        for index, connection in enumerate(connections):
            selector.register(connection.socket, selectors.EVENT_READ, index)
            connection.send(plans[index][0])
        while left:
            now = time.perf_counter()
            while delayed and delayed[0][0] <= now:
                _, index, refused = heapq.heappop(delayed)
                connections[index].send(refused)
            wait = delayed[0][0] - now if delayed else _PATIENCE_S
            for key, _ in selector.select(wait):
                index = key.data
                again = connections[index].receive()
                if again is None:
                    continue
                if again:
                    heapq.heappush(delayed, (time.perf_counter() + _BACKOFF_S, index, again))
                elif nexts[index] < len(plans[index]):
                    connections[index].send(plans[index][nexts[index]])
                    nexts[index] += 1
                else:
                    left -= 1


def committed_offset(port: int, group_id: str) -> int:
    """Return what the group has committed of partition 0, once no transaction holds it back."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    client = RawClient(port, _PATIENCE_S)
    until = time.monotonic() + _PATIENCE_S
    while True:
        answer = client.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
        partition = answer.groups[0].topics[0].partitions[0]
        if partition.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            client.close()
            return int(partition.committed_offset)
        assert time.monotonic() < until, answer
        time.sleep(_BACKOFF_S)
