"""Every field of an offset commit, from the request into the record and back to OffsetFetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import offset_commit_record, written_version
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID
from tests.cluster.transactions import ID, TransactionCluster
from tests.scenarios.group_coordinator import ManualGroupCoordinator

if TYPE_CHECKING:
    from pathlib import Path

GROUP, TOPIC, PARTITION = "g", "orders", 2
COMMITTED: dict[str, Any] = {
    "committed_offset": 41,
    "committed_leader_epoch": 7,
    "committed_metadata": "a note",
}
"""The offset that every test commits; each value differs from its field's default."""
TIMESTAMP_MS = 1_500_000_000_123
RETENTION_MS = 86_400_000


class OffsetCluster(TransactionCluster):
    """A cluster with files, one group's commit records, and its fetched offsets."""

    def __init__(self, path: Path, as_version: str | None = None) -> None:
        super().__init__(path, as_version=as_version)
        self.find(GROUP, kind=0)
        self.topic_id = self.cluster.metadata.image.topics[TOPIC].topic_id

    def commit(self, version: int, *, retention_ms: int = -1, timestamp_ms: int = -1) -> None:
        """Commit one offset by OffsetCommit."""
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=PARTITION, commit_timestamp=timestamp_ms, **COMMITTED
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=TOPIC, topic_id=self.topic_id, partitions=[row]
        )
        request = OffsetCommitRequest(
            group_id=GROUP, retention_time_ms=retention_ms, topics=[topic]
        )
        self.assert_accepted(self.ask(request, version))

    def commit_in_transaction(self, version: int) -> None:
        """Commit one offset by TxnOffsetCommit, and commit the transaction."""
        producer = self.new_producer()
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=PARTITION, **COMMITTED
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[row])
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[topic],
        )
        self.assert_accepted(self.ask(request, version))
        assert self.end_transaction(producer).error_code == ErrorCode.NONE

    @staticmethod
    def assert_accepted(response: Any) -> None:  # noqa: ANN401 - one of two classes
        ((row,),) = (topic.partitions for topic in response.topics)
        assert row.error_code == ErrorCode.NONE

    def record(self) -> CoordinatorRecord[Any, Any]:
        """Return the last offset commit record in the log, decoded from its bytes."""
        serde = CoordinatorSerde(lambda _: 0)
        index = self.cluster.groups.partition_for(GROUP)
        found = [
            serde.decode(record.key, record.value)
            for batch in self.partition(OFFSETS_TOPIC, index).log.batches(0)
            if not batch.is_control
            for record in batch.records()
        ]
        records = [each for each in found if each and isinstance(each.key, OffsetCommitKey)]
        return records[-1]

    def value(self) -> OffsetCommitValue:
        """Return the value of that record."""
        value = self.record().value
        assert isinstance(value, OffsetCommitValue)
        return value

    def expected_record(self, *, leader_epoch: int) -> CoordinatorRecord[Any, Any]:
        """Return the record of a commit at the current time."""
        return CoordinatorRecord(
            OffsetCommitKey(group=GROUP, topic=TOPIC, partition=PARTITION),
            OffsetCommitValue(
                offset=41,
                leader_epoch=leader_epoch,
                metadata="a note",
                commit_timestamp=self.clock.now_ms(),
                expire_timestamp=-1,
                topic_id=self.topic_id,
            ),
        )

    def fetched(self, version: int) -> tuple[int, int, str]:
        """Return the committed fields in the OffsetFetch response of the partition."""
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[PARTITION])
        new = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=TOPIC, topic_id=self.topic_id, partition_indexes=[PARTITION]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[new])
        response = self.ask(
            OffsetFetchRequest(group_id=GROUP, topics=[old], groups=[group]), version
        )
        (answer,) = response.groups or [response]
        ((row,),) = (topic.partitions for topic in answer.topics)
        assert row.error_code == ErrorCode.NONE
        return (row.committed_offset, row.committed_leader_epoch, row.metadata)

    def stored(self) -> Any:  # noqa: ANN401 - OffsetAndMetadata
        """Return the offset in the coordinator's state."""
        machine = self.cluster.groups.locate(GROUP, 1).machine
        return machine.offsets.of_group(GROUP)[TOPIC][PARTITION]

    def restarted(self) -> OffsetCluster:
        """Reload the shard from the log."""
        self.restart()
        return self


@pytest.fixture
def wire(tmp_path: Path) -> OffsetCluster:
    return OffsetCluster(tmp_path)


FETCH_VERSIONS = (5, 7, 8, 9, 10)
"""Versions of OffsetFetch with a leader epoch, in both shapes of the response."""
FETCHED = [(41, 7, "a note")] * len(FETCH_VERSIONS)


class TestOffsetCommit:
    """Versions since 6 have a leader epoch; version 10 has topic ids."""

    @pytest.mark.parametrize(
        ("version", "leader_epoch"), [(2, -1), (6, 7), (9, 7), (10, 7)], ids=["2", "6", "9", "10"]
    )
    def test_every_field_is_in_the_record(
        self, wire: OffsetCluster, version: int, leader_epoch: int
    ) -> None:
        wire.commit(version)
        assert wire.record() == wire.expected_record(leader_epoch=leader_epoch)
        assert wire.restarted().stored().topic_id == wire.topic_id

    def test_the_commit_timestamp_is_the_coordinators_time(self, wire: OffsetCluster) -> None:
        wire.clock.advance(5)
        committed_at = wire.clock.now_ms()
        wire.commit(9)
        assert wire.value().commit_timestamp == committed_at
        wire.clock.advance(5)
        assert wire.restarted().stored().commit_timestamp_ms == committed_at

    def test_version_1_sets_the_commit_timestamp(self, wire: OffsetCluster) -> None:
        wire.commit(1, timestamp_ms=TIMESTAMP_MS)
        assert wire.value().commit_timestamp == TIMESTAMP_MS
        assert wire.restarted().stored().commit_timestamp_ms == TIMESTAMP_MS

    @pytest.mark.parametrize("version", [2, 4])
    def test_a_retention_sets_the_expire_timestamp(self, wire: OffsetCluster, version: int) -> None:
        expires_at = wire.clock.now_ms() + RETENTION_MS
        wire.commit(version, retention_ms=RETENTION_MS)
        assert wire.value().expire_timestamp == expires_at
        assert wire.restarted().stored().expire_timestamp_ms == expires_at

    def test_without_retention_there_is_no_expire_timestamp(self, wire: OffsetCluster) -> None:
        wire.commit(4)
        assert wire.value().expire_timestamp == -1
        assert wire.restarted().stored().expire_timestamp_ms is None

    def test_every_field_is_fetched_again(self, wire: OffsetCluster) -> None:
        wire.commit(9)
        assert [wire.fetched(version) for version in FETCH_VERSIONS] == FETCHED
        wire.restart()
        assert [wire.fetched(version) for version in FETCH_VERSIONS] == FETCHED


class TestTxnOffsetCommit:
    """Versions since 2 have a leader epoch; version 5 adds the group to the transaction."""

    def test_every_field_is_in_the_record(self, wire: OffsetCluster) -> None:
        wire.commit_in_transaction(5)
        assert wire.record() == wire.expected_record(leader_epoch=7)

    def test_releases_before_4_4_store_no_topic_id(self, tmp_path: Path) -> None:
        wire = OffsetCluster(tmp_path, as_version="4.3")
        wire.commit_in_transaction(5)
        assert wire.value().topic_id == ZERO_UUID

    def test_every_field_is_fetched_again(self, wire: OffsetCluster) -> None:
        wire.commit_in_transaction(5)
        assert [wire.fetched(version) for version in FETCH_VERSIONS] == FETCHED
        wire.restart()
        assert [wire.fetched(version) for version in FETCH_VERSIONS] == FETCHED

    def test_the_commit_timestamp_survives_a_restart(self, wire: OffsetCluster) -> None:
        committed_at = wire.clock.now_ms()
        wire.commit_in_transaction(5)
        assert wire.stored().commit_timestamp_ms == committed_at
        assert wire.restarted().stored().commit_timestamp_ms == committed_at


class TestIncarnationEpoch:
    """A commit may have the partition epoch of KIP-232."""

    def test_the_epoch_is_a_tag_of_the_record(self) -> None:
        committed = OffsetAndMetadata(41, TIMESTAMP_MS, incarnation_epoch=7)
        record = offset_commit_record(GROUP, TOPIC, PARTITION, committed)
        serde = CoordinatorSerde(written_version)
        assert serde.decode(*serde.encode(record)) == record
        assert isinstance(record.value, OffsetCommitValue)
        assert record.value.incarnation_epoch == 7

    def test_a_record_without_the_epoch_has_kafkas_bytes(self) -> None:
        committed = OffsetAndMetadata(41, 9, leader_epoch=7, topic_id=b"i" * 16)
        record = offset_commit_record(GROUP, TOPIC, PARTITION, committed)
        _, value = CoordinatorSerde(written_version).encode(record)
        # Version, offset, leader epoch, empty metadata, timestamp, one tag: the topic id.
        assert value == (
            bytes((0, 4)) + bytes(7) + b"\x29" + bytes(3) + b"\x07" + b"\x01"
            + bytes(7) + b"\x09" + b"\x01\x00\x10" + b"i" * 16
        )  # fmt: skip

    def test_an_offset_with_its_own_expiry_has_no_epoch(self) -> None:
        committed = OffsetAndMetadata(41, 9, expire_timestamp_ms=99, incarnation_epoch=7)
        record = offset_commit_record(GROUP, TOPIC, PARTITION, committed)
        assert isinstance(record.value, OffsetCommitValue)
        assert record.value.incarnation_epoch == -1

    def test_a_refused_offset_does_not_affect_the_others(self) -> None:
        coordinator = ManualGroupCoordinator()
        coordinator.commit({("t", 0): 1}, incarnation_epoch=5)
        codes = coordinator.commit({("t", 0): 2, ("t", 1): 3}, incarnation_epoch=4)
        assert codes == [ErrorCode.INVALID_PARTITION_EPOCH, ErrorCode.NONE]
        assert coordinator.committed() == {("t", 0): 1, ("t", 1): 3}
