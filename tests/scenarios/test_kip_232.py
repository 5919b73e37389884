"""Scenarios of KIP-232 on the broker's side: every rule, with requests as bytes.

Partition epochs of the KIP are called incarnation epochs here; see docs/how-to/partition-epochs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.partitions.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.primitives import FIRST_PRIVATE_TAG
from kafkalite.storage.batch import BatchView
from tests.cluster.transactions import ID, TransactionCluster
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.responses import PendingResponse

T, G = "t", "g"
ON = {"kafkalite.partition.epochs": "true"}
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
INVALID_PARTITION_EPOCH = ErrorCode.INVALID_PARTITION_EPOCH
INVALID_LEADER_EPOCH = ErrorCode.INVALID_LEADER_EPOCH


class PartitionEpochs(NamedTuple):
    """The epochs of a partition in a Metadata response, in the order of their importance."""

    partition_epoch: int
    leader_epoch: int


class ClientMetadata(NamedTuple):
    """What a client takes from a Metadata response."""

    max_partition_epoch: int
    partitions: Mapping[int, PartitionEpochs]

    def is_outdated(self, cached: ClientMetadata) -> bool:
        """Apply the KIP's rule for a response, with the cached metadata, to all partitions."""
        return self.max_partition_epoch < cached.max_partition_epoch or any(
            self.partitions[index] < cached.partitions[index]
            for index in self.partitions.keys() & cached.partitions.keys()
        )


class EpochCluster(TransactionCluster):
    """Two nodes, and topic `t` with one partition on both; node 1 leads it."""

    def __init__(self, path: Path, settings: Mapping[str, str] = ON) -> None:
        super().__init__(path, 2, settings, finds=False)
        self.find(G, kind=0)
        self.create_t()

    def create_t(self, *, partitions: int = 1) -> None:
        """Create topic t."""
        assignments = tuple((index, (1, 2)) for index in range(partitions))
        (created,) = self.cluster.metadata.create_topics(
            [NewTopic(name=T, assignments=assignments)]
        )
        assert created.error is None

    def delete_t(self) -> None:
        """Delete topic t."""
        self.cluster.metadata.delete_topics([self.topic_id])

    def recreate_t(self) -> None:
        """Delete topic t, and create it again."""
        self.delete_t()
        self.create_t()

    @property
    def topic_id(self) -> bytes:
        """The id of topic t."""
        return self.cluster.metadata.image.topics[T].topic_id

    @property
    def epoch(self) -> int:
        """The incarnation epoch of partition t-0."""
        return self.cluster.metadata.image.topics[T].partitions[0].incarnation_epoch

    @property
    def max_epoch(self) -> int:
        """The cluster's counter."""
        return self.cluster.metadata.image.max_incarnation_epoch

    def append(self, *values: bytes) -> None:
        """Append one batch to t-0."""
        partition = self.partition(T, 0)
        partition.append(BatchView(batch_of(*values)), self.clock.now_ms())
        self.cluster.partitions.announce()

    def append_committed_offset(self, value: bytes) -> None:
        """Append the committed offset of t-0 as another broker writes it."""
        key = codec.encode_key(OffsetCommitKey(group=G, topic=T, partition=0))
        index = self.cluster.nodes[1].groups.partition_for(G)
        batch = BatchView(batch_of(value, key=key))
        self.partition(OFFSETS_TOPIC, index).append(batch, self.clock.now_ms())

    def metadata(self, version: int = 12, node: int = 1) -> ClientMetadata:
        """Return what a node says about the partitions of topic t."""
        topic = MetadataRequest.MetadataRequestTopic(name=T)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        response = self.ask(request, version, node)
        return ClientMetadata(
            response.max_incarnation_epoch,
            {
                each.partition_index: PartitionEpochs(each.incarnation_epoch, each.leader_epoch)
                for each in response.topics[0].partitions
            },
        )

    def commit(self, epoch: int, leader_epoch: int = -1, version: int = 9, offset: int = 1) -> int:
        """Commit an offset of t-0 by OffsetCommit, and return the error code."""
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata="",
            incarnation_epoch=epoch,
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=T, topic_id=self.topic_id, partitions=[row]
        )
        response = self.ask(OffsetCommitRequest(group_id=G, topics=[topic]), version)
        return _code(response)

    def commit_in_transaction(self, epoch: int, leader_epoch: int = -1, offset: int = 1) -> int:
        """Commit an offset of t-0 and its transaction, and return the error code of the offset."""
        producer = self.new_producer()
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata="",
            incarnation_epoch=epoch,
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=T, partitions=[row])
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=G,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[topic],
        )
        code = _code(self.ask(request, 5))
        assert self.end_transaction(producer).error_code == 0
        return code

    def committed(self, version: int = 8) -> Any:  # noqa: ANN401 - one of two classes
        """Return the row of t-0 in an OffsetFetch response."""
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=T, partition_indexes=[0])
        new = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=T, topic_id=self.topic_id, partition_indexes=[0]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=G, topics=[new])
        response = self.ask(OffsetFetchRequest(group_id=G, topics=[old], groups=[group]), version)
        (answer,) = response.groups or [response]
        ((row,),) = (topic.partitions for topic in answer.topics)
        assert row.error_code == 0
        return row

    def committed_epochs(self, version: int = 8) -> tuple[int, int]:
        """Return the incarnation epoch and the leader epoch of the committed offset."""
        row = self.committed(version)
        return row.incarnation_epoch, row.committed_leader_epoch

    def ask_fetch(self, epoch: int, offset: int = 0, version: int = 12, **fields: Any) -> Any:  # noqa: ANN401 - response or PendingResponse
        """Fetch t-0."""
        node = fields.pop("node", 1)
        row = FetchRequest.FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1_000_000,
            current_leader_epoch=fields.pop("leader_epoch", -1),
            incarnation_epoch=epoch,
            unknown_tags=fields.pop("tags", None),
        )
        topic = FetchRequest.FetchTopic(topic=T, topic_id=self.topic_id, partitions=[row])
        fields.setdefault("topics", [topic])
        fields.setdefault("session_epoch", FINAL_EPOCH)
        return self.ask(FetchRequest(max_wait_ms=fields.pop("max_wait_ms", 0), min_bytes=1,
                                     **fields), version, node)  # fmt: skip

    def fetch(self, epoch: int, offset: int = 0, version: int = 12, **fields: Any) -> Any:  # noqa: ANN401 - a row of the response
        """Fetch t-0, and return its row in the response."""
        return _row(self.ask_fetch(epoch, offset, version, **fields))

    def list_offset(
        self, epoch: int, version: int = 7, node: int = 1, timestamp: int = EARLIEST
    ) -> Any:  # noqa: ANN401 - a row of the response
        """Return the row of t-0 in a ListOffsets response, by default about the first offset."""
        row = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, incarnation_epoch=epoch
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=T, partitions=[row])
        response = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), version, node)
        return response.topics[0].partitions[0]

    def refusals(self, name: str, kind: Entity) -> list[tuple[str, Mapping[str, object]]]:
        """Return text and facts of the refusals in the history."""
        return [
            (entry.text, entry.facts)
            for entry in self.cluster.history.about(name, of=kind)
            if entry.kind == "refused"
        ]


def _code(response: Any) -> int:  # noqa: ANN401 - one of two classes
    ((row,),) = (topic.partitions for topic in response.topics)
    code: int = row.error_code
    return code


def _row(response: Any) -> Any:  # noqa: ANN401 - a response of Fetch
    ((row,),) = (topic.partitions for topic in response.responses)
    return row


@pytest.fixture
def cluster(tmp_path: Path) -> EpochCluster:
    return EpochCluster(tmp_path)


class TestTopics:
    """Creation, expansion and deletion raise the counter (rules 1 and 2)."""

    def test_each_partition_has_a_globally_unique_epoch(self, cluster: EpochCluster) -> None:
        image = cluster.cluster.metadata.image
        epochs = [
            partition.incarnation_epoch
            for topic in image.topics.values()
            for partition in topic.partitions
        ]
        assert sorted(epochs) == list(range(1, len(epochs) + 1))
        assert image.max_incarnation_epoch == len(epochs)

    def test_an_expansion_raises_the_epoch_once_for_each_new_partition(
        self, cluster: EpochCluster
    ) -> None:
        before = cluster.max_epoch
        cluster.cluster.metadata.create_partitions([NewPartitions(T, 3)])
        partitions = cluster.metadata().partitions
        assert [partitions[index].partition_epoch for index in range(3)] == [
            before, before + 1, before + 2,
        ]  # fmt: skip
        assert cluster.max_epoch == before + 2

    def test_a_deletion_raises_the_epoch_by_one(self, cluster: EpochCluster) -> None:
        before = cluster.max_epoch
        cluster.delete_t()
        assert cluster.max_epoch == before + 1

    def test_a_recreated_topic_has_larger_epochs(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        assert cluster.epoch == before + 2 == cluster.max_epoch

    def test_epochs_survive_a_restart(self, cluster: EpochCluster) -> None:
        cluster.recreate_t()
        before = cluster.epoch, cluster.max_epoch
        cluster.restart()
        assert (cluster.epoch, cluster.max_epoch) == before
        assert cluster.fetch(before[0]).incarnation_epoch == before[0]

    def test_a_leader_change_keeps_the_partition_epoch(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.cluster.metadata.move_leader(T, 0, 2)
        assert cluster.metadata().partitions[0] == (before, 1)


class TestMetadata:
    """A client recognizes outdated metadata (rules 3 and 4, and the KIP's motivation)."""

    @pytest.mark.parametrize("version", [9, 10, 12, 13])
    def test_responses_contain_all_epochs(self, cluster: EpochCluster, version: int) -> None:
        metadata = cluster.metadata(version)
        assert metadata == (cluster.max_epoch, {0: (cluster.epoch, 0)})

    @pytest.mark.parametrize("version", [1, 8])
    def test_inflexible_versions_have_no_partition_epochs(
        self, cluster: EpochCluster, version: int
    ) -> None:
        metadata = cluster.metadata(version)
        assert metadata.max_partition_epoch == -1
        assert metadata.partitions[0].partition_epoch == -1

    def test_metadata_before_a_leader_change_is_outdated(self, cluster: EpochCluster) -> None:
        cluster.cluster.node_control.freeze_metadata(2)
        cluster.cluster.metadata.move_leader(T, 0, 2)
        cached, stale = cluster.metadata(node=1), cluster.metadata(node=2)
        assert stale.max_partition_epoch == cached.max_partition_epoch
        assert stale.partitions[0].partition_epoch == cached.partitions[0].partition_epoch
        assert stale.partitions[0].leader_epoch < cached.partitions[0].leader_epoch
        assert stale.is_outdated(cached)
        assert not cached.is_outdated(stale)

    def test_metadata_before_a_recreation_is_outdated(self, cluster: EpochCluster) -> None:
        """The leader epoch begins at 0 again, so it does not show this."""
        cluster.cluster.metadata.move_leader(T, 0, 2)
        cluster.cluster.node_control.freeze_metadata(2)
        cluster.recreate_t()
        cached, stale = cluster.metadata(node=1), cluster.metadata(node=2)
        assert stale.partitions[0].leader_epoch > cached.partitions[0].leader_epoch
        assert stale.partitions[0].partition_epoch < cached.partitions[0].partition_epoch
        assert stale.is_outdated(cached)

    def test_metadata_before_a_deletion_is_outdated(self, cluster: EpochCluster) -> None:
        """No partition shows this; it is why a deletion raises the counter."""
        cluster.cluster.node_control.freeze_metadata(2)
        cluster.delete_t()
        cached, stale = cluster.metadata(node=1), cluster.metadata(node=2)
        assert (cached.partitions, len(stale.partitions)) == ({}, 1)
        assert stale.max_partition_epoch < cached.max_partition_epoch
        assert stale.is_outdated(cached)

    def test_metadata_after_the_node_caught_up_is_current(self, cluster: EpochCluster) -> None:
        cluster.cluster.node_control.freeze_metadata(2)
        cluster.recreate_t()
        cluster.cluster.node_control.thaw_metadata(2)
        assert cluster.metadata(node=2) == cluster.metadata(node=1)
        assert not cluster.metadata(node=2).is_outdated(cluster.metadata(node=1))

    def test_an_automatic_creation_is_not_in_the_maximum_before_its_topic_is_in_a_response(
        self, cluster: EpochCluster
    ) -> None:
        before = cluster.max_epoch
        topic = MetadataRequest.MetadataRequestTopic(name="new")
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=True)
        first = cluster.ask(request, 12)
        assert (first.topics[0].partitions, first.max_incarnation_epoch) == ([], before)
        second = cluster.ask(request, 12)
        (partition,) = second.topics[0].partitions
        assert partition.incarnation_epoch == second.max_incarnation_epoch == before + 1


class TestOffsets:
    """Commits store both epochs, and the coordinator compares them (rules 5 and 6)."""

    @pytest.mark.parametrize("version", [6, 7, 8, 9, 10])
    def test_both_epochs_are_fetched_again(self, cluster: EpochCluster, version: int) -> None:
        assert cluster.commit(cluster.epoch, 4) == 0
        assert cluster.committed_epochs(version) == (cluster.epoch, 4)
        cluster.restart()
        assert cluster.committed_epochs(version) == (cluster.epoch, 4)

    @pytest.mark.parametrize("version", [8, 9, 10])
    def test_every_flexible_version_commits_both_epochs(
        self, cluster: EpochCluster, version: int
    ) -> None:
        assert cluster.commit(cluster.epoch, 4, version) == 0
        assert cluster.committed_epochs() == (cluster.epoch, 4)

    def test_epochs_in_a_transaction_are_fetched_again(self, cluster: EpochCluster) -> None:
        cluster.find()
        assert cluster.commit_in_transaction(cluster.epoch, 4) == 0
        assert cluster.committed_epochs() == (cluster.epoch, 4)
        cluster.restart()
        assert cluster.committed_epochs() == (cluster.epoch, 4)

    @pytest.mark.parametrize("version", [2, 6, 7])
    def test_an_old_client_commits_no_partition_epoch(
        self, cluster: EpochCluster, version: int
    ) -> None:
        assert cluster.commit(cluster.epoch, 0, version) == 0
        assert cluster.committed().incarnation_epoch == -1

    def test_an_older_response_has_no_partition_epoch(self, cluster: EpochCluster) -> None:
        assert cluster.commit(cluster.epoch, 4) == 0
        assert cluster.committed_epochs(5) == (-1, 4)

    @pytest.mark.parametrize(
        ("version", "leader_epoch"), [(0, -1), (1, -1), (2, -1), (3, 4), (4, 4)]
    )
    def test_records_of_older_brokers_have_no_partition_epoch(
        self, cluster: EpochCluster, version: int, leader_epoch: int
    ) -> None:
        """The first version with leader epochs is 3; Kafka writes 4 without a partition epoch."""
        assert cluster.commit(cluster.epoch, 4, offset=10) == 0
        value = OffsetCommitValue(offset=20, leader_epoch=leader_epoch, commit_timestamp=1)
        cluster.append_committed_offset(codec.encode_value(value, version))
        cluster.restart()
        assert cluster.committed().committed_offset == 20
        assert cluster.committed_epochs() == (-1, leader_epoch)
        # Without a partition epoch to compare with, every commit is accepted.
        assert cluster.commit(1, 0, offset=30) == 0

    def test_a_smaller_partition_epoch_is_refused(self, cluster: EpochCluster) -> None:
        assert cluster.commit(5, 0, offset=10) == 0
        assert cluster.commit(4, 9, offset=20) == INVALID_PARTITION_EPOCH
        assert cluster.committed().committed_offset == 10

    def test_a_smaller_leader_epoch_at_the_same_partition_epoch_is_refused(
        self, cluster: EpochCluster
    ) -> None:
        assert cluster.commit(5, 3, offset=10) == 0
        assert cluster.commit(5, 2, offset=20) == INVALID_LEADER_EPOCH
        assert cluster.committed().committed_offset == 10

    @pytest.mark.parametrize("epochs", [(5, 3), (5, 4), (6, 0), (5, -1), (-1, 0), (-1, -1)])
    def test_other_epochs_are_accepted(
        self, cluster: EpochCluster, epochs: tuple[int, int]
    ) -> None:
        assert cluster.commit(5, 3, offset=10) == 0
        assert cluster.commit(*epochs, offset=20) == 0
        assert cluster.committed_epochs() == epochs

    def test_a_smaller_epoch_in_a_transaction_is_refused(self, cluster: EpochCluster) -> None:
        cluster.find()
        assert cluster.commit(5, 3, offset=10) == 0
        assert cluster.commit_in_transaction(4, 9) == INVALID_PARTITION_EPOCH
        assert cluster.commit_in_transaction(5, 2) == INVALID_LEADER_EPOCH
        assert cluster.committed().committed_offset == 10

    def test_epochs_are_compared_after_a_restart(self, cluster: EpochCluster) -> None:
        assert cluster.commit(5, 3) == 0
        cluster.restart()
        assert cluster.commit(4, 3) == INVALID_PARTITION_EPOCH

    def test_an_offset_of_an_earlier_incarnation_is_recognizable(
        self, cluster: EpochCluster
    ) -> None:
        """A transaction commits an offset of the deleted topic after the topic was recreated."""
        cluster.find()
        before = cluster.epoch
        cluster.recreate_t()
        assert cluster.commit_in_transaction(before, 0, offset=10) == 0
        assert cluster.committed().committed_offset == 10
        assert cluster.committed_epochs()[0] == before < cluster.epoch

    def test_refusals_are_explained_with_both_epochs(self, cluster: EpochCluster) -> None:
        cluster.commit(5, 3)
        cluster.commit(4, 3)
        cluster.commit(5, 2)
        (of_partition, facts), (of_leader, _) = cluster.refusals(G, Entity.GROUP)
        assert of_partition == (
            "OffsetCommit of t-0 (4 < 5) refused: the partition epoch is smaller than that of the "
            "last committed offset"
        )
        assert of_leader == (
            "OffsetCommit of t-0 (2 < 3) refused: the leader epoch is smaller than that of the "
            "last committed offset"
        )
        assert facts["error"] == "INVALID_PARTITION_EPOCH"
        assert (facts["received_epochs"], facts["committed_epochs"]) == ([4], [5])


class TestFetch:
    """A consumer recognizes a recreated topic by the next fetch (rule 8)."""

    @pytest.mark.parametrize("version", [12, 13, 16, 18])
    def test_responses_contain_the_partition_epoch(
        self, cluster: EpochCluster, version: int
    ) -> None:
        cluster.append(b"a")
        row = cluster.fetch(-1, version=version)
        assert (row.incarnation_epoch, values_in(row.records)) == (cluster.epoch, [b"a"])

    def test_inflexible_versions_have_no_partition_epoch(self, cluster: EpochCluster) -> None:
        row = cluster.fetch(cluster.epoch + 5, version=11)
        assert (row.error_code, row.incarnation_epoch) == (0, -1)

    def test_the_current_epoch_is_accepted(self, cluster: EpochCluster) -> None:
        cluster.append(b"a")
        assert values_in(cluster.fetch(cluster.epoch).records) == [b"a"]

    def test_an_offset_of_the_deleted_topic_reads_no_records_of_the_new_one(
        self, cluster: EpochCluster
    ) -> None:
        """The example of the KIP: a previously used offset, after the topic was deleted."""
        cluster.append(b"old 0", b"old 1")
        used_epoch = cluster.fetch(-1).incarnation_epoch
        cluster.recreate_t()
        cluster.append(b"new 0", b"new 1", b"new 2")
        row = cluster.fetch(used_epoch, offset=2)
        assert row.error_code == INVALID_PARTITION_EPOCH
        assert (row.incarnation_epoch, row.records) == (cluster.epoch, b"")
        # Without a check, the consumer can compare the epoch in the response.
        row = cluster.fetch(-1, offset=2)
        assert (row.error_code, row.incarnation_epoch) == (0, cluster.epoch)
        assert row.incarnation_epoch != used_epoch

    def test_the_epoch_is_checked_before_the_offset_and_the_leader_epoch(
        self, cluster: EpochCluster
    ) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        assert cluster.fetch(before, offset=99).error_code == INVALID_PARTITION_EPOCH
        assert cluster.fetch(before, leader_epoch=7).error_code == INVALID_PARTITION_EPOCH
        row = cluster.fetch(-1, offset=99)
        assert (row.error_code, row.incarnation_epoch) == (
            ErrorCode.OFFSET_OUT_OF_RANGE, cluster.epoch,
        )  # fmt: skip

    def test_a_node_that_is_no_leader_does_not_check(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        row = cluster.fetch(before, node=2, replica_id=2)
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_follower_that_serves_consumers_checks(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        assert cluster.fetch(before, node=2).error_code == INVALID_PARTITION_EPOCH
        assert cluster.fetch(cluster.epoch, node=2).error_code == 0

    def test_a_fetch_session_remembers_the_epoch(self, cluster: EpochCluster) -> None:
        cluster.append(b"a")
        first = cluster.ask_fetch(cluster.epoch, session_epoch=FIRST_EPOCH)
        assert (_row(first).error_code, first.session_id > 0) == (0, True)
        cluster.recreate_t()
        second = cluster.ask_fetch(-1, topics=[], session_id=first.session_id, session_epoch=1)
        assert _row(second).error_code == INVALID_PARTITION_EPOCH
        third = cluster.ask_fetch(cluster.epoch, session_id=first.session_id, session_epoch=2)
        assert (_row(third).error_code, _row(third).incarnation_epoch) == (0, cluster.epoch)

    def test_a_waiting_fetch_ends_with_the_deletion_of_the_topic(
        self, cluster: EpochCluster
    ) -> None:
        before = cluster.epoch
        pending: PendingResponse = cluster.ask_fetch(before, max_wait_ms=500)
        assert not pending.has_arrived
        cluster.recreate_t()
        assert _row(pending.response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row = cluster.fetch(before, max_wait_ms=500)
        assert row.error_code == INVALID_PARTITION_EPOCH

    def test_a_refusal_is_explained_with_both_epochs(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        cluster.fetch(before)
        ((text, facts),) = cluster.refusals(T, Entity.TOPIC)
        assert text == (
            f"Fetch of t-0 refused: the client expects partition epoch {before}, but the partition "
            f"has {cluster.epoch}"
        )
        assert facts == {
            "api": "Fetch",
            "error": "INVALID_PARTITION_EPOCH",
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "rule": "partition-epoch",
            "partition": "t-0",
            "received_epoch": before,
            "current_epoch": cluster.epoch,
        }


class TestListOffsets:
    """Responses contain both epochs; requests are checked as those of Fetch."""

    @pytest.mark.parametrize("version", [6, 7, 10, 11])
    def test_responses_contain_both_epochs(self, cluster: EpochCluster, version: int) -> None:
        cluster.append(b"a")
        row = cluster.list_offset(cluster.epoch, version)
        assert (row.error_code, row.offset) == (0, 0)
        assert (row.leader_epoch, row.incarnation_epoch) == (0, cluster.epoch)

    @pytest.mark.parametrize(
        ("timestamp", "offset"), [(EARLIEST, 0), (LATEST, 2), (MAX_TIMESTAMP, 0), (0, 0)]
    )
    def test_offsets_by_timestamp_have_both_epochs(
        self, cluster: EpochCluster, timestamp: int, offset: int
    ) -> None:
        """A client has both epochs of an OffsetAndTimestamp."""
        cluster.recreate_t()
        cluster.append(b"a")
        cluster.cluster.metadata.move_leader(T, 0, 2)
        cluster.append(b"b")
        row = cluster.list_offset(-1, node=2, timestamp=timestamp)
        assert (row.error_code, row.offset, row.incarnation_epoch) == (0, offset, cluster.epoch)
        assert row.leader_epoch == min(offset, 1)

    def test_inflexible_versions_have_no_partition_epoch(self, cluster: EpochCluster) -> None:
        row = cluster.list_offset(cluster.epoch + 5, 5)
        assert (row.error_code, row.incarnation_epoch) == (0, -1)

    def test_another_epoch_is_refused(self, cluster: EpochCluster) -> None:
        before = cluster.epoch
        cluster.recreate_t()
        row = cluster.list_offset(before)
        assert (row.error_code, row.offset) == (INVALID_PARTITION_EPOCH, -1)
        assert row.incarnation_epoch == cluster.epoch
        assert cluster.list_offset(-1).error_code == 0
        ((text, _),) = cluster.refusals(T, Entity.TOPIC)
        assert text.startswith("ListOffsets of t-0 refused: the client expects partition epoch")

    def test_only_the_leader_checks(self, cluster: EpochCluster) -> None:
        row = cluster.list_offset(cluster.epoch + 1, node=2)
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestDefault:
    """By default the broker neither sends partition epochs nor reads them."""

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> EpochCluster:
        return EpochCluster(tmp_path, {})

    def test_responses_have_no_partition_epochs(self, cluster: EpochCluster) -> None:
        cluster.append(b"a")
        assert cluster.metadata() == (-1, {0: (-1, 0)})
        assert cluster.fetch(-1).incarnation_epoch == -1
        assert cluster.list_offset(-1).incarnation_epoch == -1
        assert cluster.commit(5, 3) == 0
        assert cluster.committed_epochs() == (-1, 3)

    def test_requests_are_not_checked(self, cluster: EpochCluster) -> None:
        cluster.append(b"a")
        assert cluster.fetch(99).error_code == 0
        assert cluster.list_offset(99).error_code == 0
        for epochs in ((5, 3), (4, 3), (5, 2)):
            assert cluster.commit(*epochs) == 0

    @pytest.mark.parametrize("value", [b"", b"abc", b"another client"])
    def test_the_tag_of_others_is_skipped(self, cluster: EpochCluster, value: bytes) -> None:
        """Kafka skips every unknown tag, so others may use the number for other values."""
        cluster.append(b"a")
        assert values_in(cluster.fetch(-1, tags={FIRST_PRIVATE_TAG: value}).records) == [b"a"]
        cluster.cluster.config.publish(ON, {}, {})
        assert values_in(cluster.fetch(-1, tags={FIRST_PRIVATE_TAG: value}).records) == [b"a"]

    def test_received_epochs_are_not_stored(self, cluster: EpochCluster) -> None:
        cluster.find()
        assert cluster.commit(5, 3) == 0
        assert cluster.commit_in_transaction(4, 3) == 0
        cluster.cluster.config.publish(ON, {}, {})
        assert cluster.committed_epochs() == (-1, 3)

    def test_the_setting_takes_effect_without_a_restart(self, cluster: EpochCluster) -> None:
        """The controller counts in any case, so the epochs are known at once."""
        cluster.recreate_t()
        cluster.cluster.config.publish(ON, {}, {})
        assert cluster.metadata() == (cluster.max_epoch, {0: (cluster.epoch, 0)})
        assert cluster.fetch(cluster.epoch - 2).error_code == INVALID_PARTITION_EPOCH
        cluster.cluster.config.publish({}, {}, {})
        assert cluster.fetch(cluster.epoch - 2).error_code == 0
