"""A transaction on a disk that becomes full at any step, for some time.

Its producer retries, and in the end the result is the same as with free space: its records and the
offsets of its group are committed, once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from kafkalite.transactions.state import NO_PRODUCER, ProducerIdAndEpoch
from tests.cluster.transactions import ID, TransactionCluster
from tests.conformance.batches import TRANSACTIONAL, Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.files import Files

DIRECTORY = Path("/data")
PLACES = (("orders", 0), ("orders", 1))
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}  # fmt: skip
"""Errors that clients retry."""


class Protocol(NamedTuple):
    """The versions of a client's requests."""

    adds: bool
    produce: int
    commit_offsets: int
    end: int


OLD = Protocol(adds=True, produce=11, commit_offsets=4, end=4)
NEW = Protocol(adds=False, produce=12, commit_offsets=5, end=5)


class Client:
    """A producer that retries every request, with a limited number of attempts."""

    def __init__(self, wire: TransactionCluster, protocol: Protocol) -> None:
        self.wire = wire
        self.protocol = protocol
        self.producer = NO_PRODUCER

    def retry(self, send: Callable[[], int]) -> None:
        """Send a request, and again while the disk is full; time advances in between."""
        for _ in range(12):
            code = send()
            if code == ErrorCode.NONE:
                return
            assert code in AGAIN, ErrorCode(code)
            self.wire.clock.advance(1_000)
        raise AssertionError(ErrorCode(code))

    def transact(self) -> None:
        """Write to two partitions and commit a group's offset, in one transaction."""
        self.retry(self.begin)
        if self.protocol.adds:
            self.retry(lambda: max(self.wire.add(self.producer, *PLACES).values()))
            self.retry(lambda: self.wire.add_offsets(self.producer))
        for index in range(len(PLACES)):
            self.retry(partial(self.write, index))
        self.retry(self.commit_offset)
        self.retry(self.end)

    def begin(self) -> int:
        answer = self.wire.init(version=4)
        self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        code: int = answer.error_code
        return code

    def write(self, index: int) -> int:
        batch = Batch(
            values=(b"apple",),
            attributes=TRANSACTIONAL,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=0,
        )
        data = ProduceRequest.PartitionProduceData(index=index, records=batch.encode())
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1_000, topic_data=[topic])
        (topic_result,) = self.wire.ask(request, self.protocol.produce).responses
        code: int = topic_result.partition_responses[0].error_code
        return code

    def commit_offset(self) -> int:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=2, committed_offset=5
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
            name="orders", partitions=[partition]
        )
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[topic],
        )
        (topic_result,) = self.wire.ask(request, self.protocol.commit_offsets).topics
        code: int = topic_result.partitions[0].error_code
        return code

    def end(self) -> int:
        answer = self.wire.end_transaction(self.producer, version=self.protocol.end)
        code: int = answer.error_code
        return code


def started(files: Files) -> TransactionCluster:
    return TransactionCluster(DIRECTORY, config={"offsets.topic.num.partitions": "1"}, files=files)


def committed_offset(wire: TransactionCluster) -> int:
    """Return the group's offset, which no transaction may change any longer."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="orders", partition_indexes=[2])
    request = OffsetFetchRequest(group_id="g", topics=[topic], require_stable=True)
    (topic_result,) = wire.ask(request, 7).topics
    (partition,) = topic_result.partitions
    assert partition.error_code == ErrorCode.NONE
    offset: int = partition.committed_offset
    return offset


def prepared() -> tuple[MemoryFiles, int]:
    """Return the disk of a cluster with every topic, and the steps of its next start."""
    disk = MemoryFiles()
    wire = started(disk)
    wire.find("g", kind=0)
    wire.end()
    files = FaultyFiles(disk.copy())
    started(files)
    return disk, files.steps


@pytest.mark.parametrize("refusals", [1, 4])
@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_a_full_disk_delays_a_transaction(protocol: Protocol, refusals: int) -> None:
    before, steps = prepared()
    for step in range(100):
        files = FaultyFiles(
            before.copy(), fail_at=steps + step, crash=False, failing_steps=refusals
        )
        wire = started(files)
        client = Client(wire, protocol)
        client.transact()
        wire.clock.advance(60_000)  # the outbox retries with growing delays
        assert len(wire.cluster.outbox) == 0
        assert wire.state() == "CompleteCommit"
        assert committed_offset(wire) == 5
        for place in PLACES:
            partition = wire.partition(*place)
            assert partition.last_stable_offset == partition.high_watermark
            batches = list(partition.log.batches(0))
            assert [batch.is_control for batch in batches][:2] == [False, True]
            assert {is_commit for _, is_commit in wire.markers(*place)} == {True}
        if files.steps <= steps + step:
            return
    raise AssertionError("the transaction never ends")
