"""A broker that dies between any two records of a transaction leaves it whole: committed, or not.

The whole broker but its sockets: requests as bytes, machines, partitions, a disk in memory. A
producer writes to two partitions and commits a group's offset in each of its transactions; the
broker is killed at each step of its disk in turn and starts again on what is left.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView, ControlKind, build_batch
from kafkalite.storage.records import NewRecord
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from kafkalite.transactions.state import Producer
from tests.unit.apis.cluster_wire import ClusterWire

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

TOPIC, GROUP, ID = "t", "g", "x"
PARTITIONS = (0, 1)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "broker.id": "1",
}
ENDS = (True, False, True, None)
"""How the transactions of the story end; the last one is left open."""


class Versions(NamedTuple):
    """How a client speaks."""

    level: str
    produce: int
    commit_offset: int
    end: int
    adds: bool


NEW = Versions("2", produce=12, commit_offset=5, end=5, adds=False)
OLD = Versions("1", produce=11, commit_offset=4, end=4, adds=True)
each_protocol = pytest.mark.parametrize("versions", [OLD, NEW], ids=["old", "new"])


class Told:
    """What a producer was told before the broker died."""

    def __init__(self) -> None:
        self.asked: dict[int, bool] = {}
        self.answered: dict[int, bool] = {}


class Broker(ClusterWire):
    """A broker on a disk, and the requests of one client."""

    def __init__(self, files: Files, versions: Versions) -> None:
        self.versions = versions
        self.sequences: dict[tuple[Producer, int], int] = defaultdict(int)
        settings = {**SETTINGS, "transaction.version": versions.level}
        super().__init__("/data", 1, settings, files=files)  # type: ignore[arg-type]

    def prepare(self) -> None:
        """Make all the topics there are."""
        self.create(TOPIC, len(PARTITIONS))
        for key, kind in ((ID, 1), (GROUP, 0)):
            self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)

    def init(self) -> Producer:
        """Begin; what was left open by the one before is aborted first."""
        for _ in range(2):
            request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
            answer = self.ask(request, 5)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        assert answer.error_code == 0
        return Producer(answer.producer_id, answer.producer_epoch)

    def write(self, producer: Producer, number: int) -> None:
        """Do all of a transaction but its end."""
        if self.versions.adds:
            self.add(producer)
        for index in PARTITIONS:
            self.produce(producer, index, b"%d" % number)
        self.commit_offset(producer, number)

    def add(self, producer: Producer) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=TOPIC, partitions=list(PARTITIONS)
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
        assert {row.partition_error_code for row in result.results_by_partition} == {0}
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=GROUP,
        )
        assert self.ask(request, 4).error_code == 0

    def produce(self, producer: Producer, index: int, value: bytes) -> None:
        sequence = self.sequences[producer, index]
        self.sequences[producer, index] += 1
        records = build_batch(
            [NewRecord(None, value, self.clock.now_ms())],
            attributes=batches.TRANSACTIONAL,
            producer=batches.Producer(*producer, sequence),
        )
        data = ProduceRequest.PartitionProduceData(index=index, records=records)
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1_000, topic_data=[topic])
        (answer,) = self.ask(request, self.versions.produce).responses
        assert [row.error_code for row in answer.partition_responses] == [0]

    def commit_offset(self, producer: Producer, offset: int) -> None:
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
        assert [each.error_code for each in answer.partitions] == [0]

    def ask_end(self, producer: Producer, *, is_commit: bool) -> Any:  # noqa: ANN401 - a response
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
        )
        return self.ask(request, self.versions.end)

    def finish(self, producer: Producer, *, is_commit: bool) -> Producer:
        answer = self.ask_end(producer, is_commit=is_commit)
        assert answer.error_code == 0
        if self.versions.end < 5:
            return producer
        return Producer(answer.producer_id, answer.producer_epoch)

    def fetch(self, index: int) -> Any:  # noqa: ANN401 - a generated class
        wanted = FetchRequest.FetchPartition(
            partition=index, fetch_offset=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            isolation_level=1,
            max_bytes=1 << 20,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        (topic,) = self.ask(request, 12).responses
        (answer,) = topic.partitions
        assert answer.error_code == 0
        return answer

    def committed(self, index: int) -> list[int]:
        """Return the transactions whose records a reader of committed records sees."""
        answer = self.fetch(index)
        aborted = sorted(
            (each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()
        )
        skipped: set[int] = set()
        seen: list[int] = []
        for one in views(answer.records):
            while aborted and aborted[0][0] <= one.last_offset:
                skipped.add(aborted.pop(0)[1])
            marker = one.control_marker() if one.is_control else None
            if marker is not None and marker.kind is ControlKind.ABORT:
                skipped.discard(one.producer_id)
            elif marker is None and one.producer_id not in skipped:
                seen += (int(record.value or b"") for record in one.records())
        return seen

    def is_stable(self, index: int) -> bool:
        answer = self.fetch(index)
        stable: bool = answer.last_stable_offset == answer.high_watermark
        return stable

    def offset(self) -> int:
        """Return the group's offset, -1 when it has none."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
        (answer,) = self.ask(request, 7).topics
        (row,) = answer.partitions
        assert row.error_code == 0
        committed: int = row.committed_offset
        return committed


def views(records: Any) -> list[BatchView]:  # noqa: ANN401 - bytes of some kind
    data, position, found = memoryview(records or b""), 0, []
    while position < len(data):
        size = BatchView(data[position:]).size
        found.append(BatchView(data[position : position + size]))
        position += size
    return found


def story(broker: Broker, told: Told) -> None:
    """Be a producer: one transaction after another."""
    producer = broker.init()
    for number, is_commit in enumerate(ENDS):
        broker.write(producer, number)
        if is_commit is not None:
            told.asked[number] = is_commit
            producer = broker.finish(producer, is_commit=is_commit)
            told.answered[number] = is_commit


def prepared(versions: Versions) -> MemoryFiles:
    """Return a disk with all the topics there are, left by a broker that stopped."""
    files = MemoryFiles()
    broker = Broker(files, versions)
    broker.prepare()
    broker.end()
    return files


def copied(files: MemoryFiles) -> MemoryFiles:
    return files.without_power(lambda size: size)


def judge(broker: Broker, told: Told, *, times_out: bool) -> None:
    """See that each transaction is whole, and as its producer was told; and that things go on."""
    if times_out:
        broker.clock.advance(80_000)
        newcomer = None
    else:
        newcomer = broker.init()
    outcomes = [broker.committed(index) for index in PARTITIONS]
    assert outcomes[0] == outcomes[1], "a transaction was committed by half"
    committed = outcomes[0]
    assert committed == sorted(set(committed))
    assert broker.offset() == max(committed, default=-1), "records and offset do not agree"
    assert all(broker.is_stable(index) for index in PARTITIONS)
    for number, is_commit in told.answered.items():
        assert (number in committed) is is_commit, "it was said otherwise"
    for number in committed:
        assert told.asked.get(number), "nobody asked for this to be committed"
    producer = newcomer or broker.init()
    broker.write(producer, 99)
    broker.finish(producer, is_commit=True)
    for index in PARTITIONS:
        assert broker.committed(index) == [*committed, 99]
    assert broker.offset() == 99


@each_protocol
def test_a_reader_sees_whole_transactions_as_they_are_committed(versions: Versions) -> None:
    broker = Broker(prepared(versions), versions)
    producer = broker.init()
    expected: list[int] = []
    for number, is_commit in enumerate(ENDS[:3]):
        broker.write(producer, number)
        for index in PARTITIONS:
            assert broker.committed(index) == expected
            assert not broker.is_stable(index)
        assert is_commit is not None
        producer = broker.finish(producer, is_commit=is_commit)
        expected += [number] * is_commit
        for index in PARTITIONS:
            assert broker.committed(index) == expected
            assert broker.is_stable(index)
        assert broker.offset() == expected[-1]


@each_protocol
def test_a_crash_at_any_step_leaves_no_transaction_half(versions: Versions) -> None:
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    first = whole.steps
    story(broker, Told())
    for fail_at in range(first, whole.steps):
        # A record may be torn, and a newcomer may come before the timeout does, or after.
        files = FaultyFiles(copied(disk), fail_at=fail_at, part=0.5 * (fail_at % 3 == 0))
        broker, told = Broker(files, versions), Told()
        with pytest.raises(CrashedError):
            story(broker, told)
        judge(Broker(files.disk, versions), told, times_out=fail_at % 2 == 0)


@each_protocol
def test_a_crash_while_markers_are_written_after_a_crash(versions: Versions) -> None:
    """The second start finds what the first one had not finished, and is killed as well."""
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    told = Told()
    broker.write(broker.init(), 0)
    told.asked[0] = True
    decided = whole.steps
    for fail_at in range(decided, decided + 6):
        files = FaultyFiles(copied(disk), fail_at=fail_at, part=1.0)
        broker = Broker(files, versions)
        producer = broker.init()
        broker.write(producer, 0)
        with suppress(CrashedError):
            broker.finish(producer, is_commit=True)
        left = files.disk
        again = FaultyFiles(copied(left))
        Broker(again, versions)
        for fail_again in range(again.steps):
            twice = FaultyFiles(copied(left), fail_at=fail_again, part=0.0)
            with pytest.raises(CrashedError):
                Broker(twice, versions)
            judge(Broker(twice.disk, versions), told, times_out=False)


@each_protocol
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("refusals", [1, 4])
def test_a_disk_that_is_full_for_a_while_holds_an_end_up(
    versions: Versions, refusals: int, *, is_commit: bool
) -> None:
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    broker.write(broker.init(), 0)
    decided = whole.steps
    for fail_at in range(decided, decided + 5):
        files = FaultyFiles(copied(disk), fail_at=fail_at, crash=False, refusals=refusals)
        broker, told = Broker(files, versions), Told()
        producer = broker.init()
        broker.write(producer, 0)
        if broker.ask_end(producer, is_commit=is_commit).error_code:
            # Nothing was decided then.
            broker.clock.advance(1_000)
            while broker.ask_end(producer, is_commit=is_commit).error_code:
                assert files.steps <= fail_at + refusals
        told.asked[0] = told.answered[0] = is_commit
        broker.clock.advance(40_000)
        judge(broker, told, times_out=False)
        assert len(broker.cluster.outbox) == 0
