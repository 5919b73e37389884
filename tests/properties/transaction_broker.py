"""A complete broker except its sockets, on a disk in memory, with a transactional producer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView, ControlKind, build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing.files import MemoryFiles
from kafkalite.transactions.state import NO_PRODUCER, ProducerIdAndEpoch
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

TOPIC, GROUP, ID = "t", "g", "x"
PARTITIONS = (0, 1)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "broker.id": "1",
}


class Versions(NamedTuple):
    """The versions of a client's requests."""

    level: str
    produce: int
    commit_offset: int
    end: int
    adds: bool


NEW = Versions("2", produce=12, commit_offset=5, end=5, adds=False)
OLD = Versions("1", produce=11, commit_offset=4, end=4, adds=True)


class Broker(TestCluster):
    """A broker with a disk, and the requests of one client."""

    def __init__(self, files: Files, versions: Versions) -> None:
        self.versions = versions
        self.sequences: dict[tuple[ProducerIdAndEpoch, int], int] = defaultdict(int)
        settings = {**SETTINGS, "transaction.version": versions.level}
        super().__init__("/data", 1, settings, files=files)  # type: ignore[arg-type]

    def prepare(self) -> None:
        """Create all topics."""
        self.create(TOPIC, len(PARTITIONS))
        for key, key_type in ((ID, 1), (GROUP, 0)):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)

    # Requests of a producer, with the error codes of their responses

    def ask_init(self, before: ProducerIdAndEpoch | None = None) -> Any:  # noqa: ANN401 - a response
        """Initialise the id, or continue with an existing producer id and epoch."""
        producer = before or NO_PRODUCER
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=60_000,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return self.ask(request, 5)

    def ask_add(self, producer: ProducerIdAndEpoch, *partitions: int) -> int:
        """Add partitions of the topic."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=TOPIC, partitions=list(partitions)
        )
        answer = self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            3,
        )
        (result,) = answer.results_by_topic_v3_and_below
        (code,) = {row.partition_error_code for row in result.results_by_partition}
        assert isinstance(code, int)
        return code

    def ask_add_offsets(self, producer: ProducerIdAndEpoch) -> int:
        """Add the group's offsets."""
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=GROUP,
        )
        code: int = self.ask(request, 4).error_code
        return code

    def ask_produce(self, producer: ProducerIdAndEpoch, index: int, value: bytes) -> int:
        """Write a record; the next one has the next sequence number if this one was accepted."""
        sequence = self.sequences[producer, index]
        records = build_batch(
            [NewRecord(None, value, self.clock.now_ms())],
            attributes=batches.TRANSACTIONAL,
            producer=batches.BatchProducer(*producer, sequence),
        )
        data = ProduceRequest.PartitionProduceData(index=index, records=records)
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1_000, topic_data=[topic])
        (answer,) = self.ask(request, self.versions.produce).responses
        (row,) = answer.partition_responses
        self.sequences[producer, index] += row.error_code == 0
        code: int = row.error_code
        return code

    def ask_commit_offset(self, producer: ProducerIdAndEpoch, offset: int) -> int:
        """Commit the group's offset with the transaction."""
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[row])
            ],
        )
        (answer,) = self.ask(request, self.versions.commit_offset).topics
        (result,) = answer.partitions
        code: int = result.error_code
        return code

    def ask_end(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> Any:  # noqa: ANN401 - a response
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
        )
        return self.ask(request, self.versions.end)

    # The same requests, if no error can occur

    def init(self) -> ProducerIdAndEpoch:
        """Initialise the id; an open transaction is aborted first."""
        answer = self.ask_init()
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.ask_init()
        assert answer.error_code == 0
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def write(self, producer: ProducerIdAndEpoch, number: int) -> None:
        """Do all steps of a transaction except its end."""
        if self.versions.adds:
            assert self.ask_add(producer, *PARTITIONS) == 0
            assert self.ask_add_offsets(producer) == 0
        for index in PARTITIONS:
            assert self.ask_produce(producer, index, b"%d" % number) == 0
        assert self.ask_commit_offset(producer, number) == 0

    def finish(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> ProducerIdAndEpoch:
        """Commit or abort; return the producer to use next."""
        answer = self.ask_end(producer, is_commit=is_commit)
        assert answer.error_code == 0
        return self.successor(producer, answer)

    def successor(self, producer: ProducerIdAndEpoch, answer: Any) -> ProducerIdAndEpoch:  # noqa: ANN401 - a response
        """Return the producer after the end of a transaction."""
        if self.versions.end < 5:
            return producer
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    # Reads

    def fetch(self, index: int) -> Any:  # noqa: ANN401 - a generated class
        partition = FetchRequest.FetchPartition(
            partition=index, fetch_offset=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            isolation_level=1,
            max_bytes=1 << 20,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        (topic,) = self.ask(request, 12).responses
        (answer,) = topic.partitions
        assert answer.error_code == 0
        return answer

    def committed(self, index: int) -> list[int]:
        """Return the transactions whose records a reader of committed records sees."""
        answer = self.fetch(index)
        aborted = sorted(
            (transaction.first_offset, transaction.producer_id)
            for transaction in answer.aborted_transactions or ()
        )
        skipped: set[int] = set()
        transactions: list[int] = []
        for batch in batches_in(answer.records):
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            marker = batch.control_marker() if batch.is_control else None
            if marker is not None and marker.kind is ControlKind.ABORT:
                skipped.discard(batch.producer_id)
            elif marker is None and batch.producer_id not in skipped:
                transactions += (int(record.value or b"") for record in batch.records())
        return transactions

    def is_stable(self, index: int) -> bool:
        answer = self.fetch(index)
        stable: bool = answer.last_stable_offset == answer.high_watermark
        return stable

    def offset(self) -> int:
        """Return the group's offset, -1 if it has none."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
        (answer,) = self.ask(request, 7).topics
        (row,) = answer.partitions
        assert row.error_code == 0
        committed: int = row.committed_offset
        return committed


def batches_in(records: Any) -> list[BatchView]:  # noqa: ANN401 - bytes of some kind
    data, position, views = memoryview(records or b""), 0, []
    while position < len(data):
        size = BatchView(data[position:]).size
        views.append(BatchView(data[position : position + size]))
        position += size
    return views


def prepare_disk(versions: Versions) -> MemoryFiles:
    """Return a disk with all topics, left by a stopped broker."""
    files = MemoryFiles()
    broker = Broker(files, versions)
    broker.prepare()
    broker.end()
    return files


def copy_disk(files: MemoryFiles) -> MemoryFiles:
    return files.after_power_loss(lambda size: size)
