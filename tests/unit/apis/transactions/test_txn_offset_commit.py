"""TxnOffsetCommit: checks of transaction, member and group, and errors by version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.group import CommitClaim, OffsetAndMetadata
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.transactions.producer_initialization import ProducerRequest
from kafkalite.transactions.state import ProducerIdAndEpoch, TransactionState
from tests.cluster.groups import GroupCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.groups.shard import GroupShard
    from kafkalite.transactions.state import Transaction

X = "x"


class TransactionalCluster(GroupCluster):
    """A cluster of one node with one producer, whose transactional id is x."""

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        as_version: str | None = None,
    ) -> None:
        super().__init__(nodes, config, as_version)
        self.ask(FindCoordinatorRequest(key="g"), 3)
        self.create("t", 3)
        self.transactions.ensure_topic()
        initialized: Any = self.transactions.shard_for(X).write(
            lambda machine, now_ms: machine.init_producer_id(X, ProducerRequest(60_000), now_ms)
        )
        self.producer: ProducerIdAndEpoch = initialized.producer

    def shard(self, group: str = "g") -> ActiveShard[GroupShard]:
        node = next(iter(self.contexts))
        return self.groups.locate(group, node)

    def begin(self, group: str = "g") -> None:
        """Add the group's partition to the transaction, as AddOffsetsToTxn does."""
        place = (OFFSETS_TOPIC, self.groups.partition_for(group))
        codes = self.transactions.verify_or_add_partitions(
            X, self.producer, [place], adds_missing=True
        )
        assert codes == {place: ErrorCode.NONE}

    def transaction(self) -> Transaction:
        return self.transactions.shard_for(X).machine.describe(X)

    def end(self, *, is_commit: bool = True) -> None:
        marker = TransactionMarker(*self.producer, 0, is_commit=is_commit)
        self.groups.end_transaction(self.groups.partition_for("g"), marker)

    def commit(
        self,
        *partitions: tuple[str, int],
        version: int = 3,
        node: int = 1,
        group: str = "g",
        producer: ProducerIdAndEpoch | None = None,
        transactional_id: str = X,
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = "note",
    ) -> list[tuple[str, list[tuple[int, int]]]]:
        """Commit offset 5 of each partition; return the errors by topic."""
        producer = producer or self.producer
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=5,
                            committed_leader_epoch=0,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for topic, index in partitions or [("t", 0)]
            ],
        )
        response = self.ask(request, version, node)
        return [
            (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in response.topics
        ]

    def refusal(self, **arguments: Any) -> ErrorCode:  # noqa: ANN401 - the arguments of commit
        ((_, ((_, code),)),) = self.commit(**arguments)
        return ErrorCode(code)

    def committed(self, group: str = "g") -> dict[tuple[str, int], OffsetAndMetadata]:
        return {
            (topic, index): offset
            for topic, partitions in self.shard(group).machine.offsets.of_group(group).items()
            for index, offset in partitions.items()
        }

    def refusals(self, kind: Entity = Entity.GROUP) -> list[str]:
        name = "g" if kind is Entity.GROUP else X
        return [entry.text for entry in self.history.about(name, of=kind)]


@pytest.fixture
def wire() -> TransactionalCluster:
    return TransactionalCluster()


EVERY_VERSION = pytest.mark.parametrize("version", range(6))


@EVERY_VERSION
def test_an_offset_is_visible_after_the_commit_of_its_transaction(
    wire: TransactionalCluster, version: int
) -> None:
    wire.begin()
    assert wire.commit(("t", 0), ("t", 2), version=version) == [("t", [(0, 0)]), ("t", [(2, 0)])]
    assert wire.committed() == {}
    wire.end()
    # Not every version has the leader epoch.
    topic_id = wire.metadata.image.topics["t"].topic_id
    expected = OffsetAndMetadata(
        5, wire.clock.now_ms(), 0 if version > 1 else -1, "note", None, topic_id
    )
    assert wire.committed() == {("t", 0): expected, ("t", 2): expected}


def test_an_aborted_offset_changes_nothing(wire: TransactionalCluster) -> None:
    wire.begin()
    wire.commit(metadata="first")
    wire.end()
    wire.commit(metadata="second")
    wire.end(is_commit=False)
    assert wire.committed()["t", 0].metadata == "first"


def test_unknown_partitions_are_refused_first(
    wire: TransactionalCluster,
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = [("t", 0), ("u", 0), ("t", 3), ("t", -1), ("t", 1)]
    assert wire.commit(*asked, version=5) == [
        ("u", [(0, unknown)]),
        ("t", [(3, unknown), (-1, unknown), (0, 0), (1, 0)]),
    ]
    assert wire.refusals() == [
        "TxnOffsetCommit of u-0, t-3, t--1 refused: the partition does not exist"
    ]


def test_unknown_partitions_need_no_coordinator(wire: TransactionalCluster) -> None:
    other_producer = ProducerIdAndEpoch(99, 0)
    code = wire.refusal(group="", producer=other_producer)
    assert code is ErrorCode.INVALID_GROUP_ID
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.commit(("u", 0), group="", producer=other_producer) == [("u", [(0, unknown)])]


class TestTransactionAdmission:
    def test_version_5_adds_the_groups_partition(self, wire: TransactionalCluster) -> None:
        assert wire.refusal(version=5) is ErrorCode.NONE
        transaction = wire.transaction()
        assert transaction.state is TransactionState.ONGOING
        assert transaction.partitions == {(OFFSETS_TOPIC, wire.groups.partition_for("g"))}

    @pytest.mark.parametrize(
        ("version", "expected"),
        [*((each, ErrorCode.INVALID_TXN_STATE) for each in range(4)),
         (4, ErrorCode.TRANSACTION_ABORTABLE)],
    )  # fmt: skip
    def test_earlier_versions_require_an_added_partition(
        self, wire: TransactionalCluster, version: int, expected: ErrorCode
    ) -> None:
        wire.begin("another group, elsewhere")
        assert wire.refusal(version=version) is expected
        assert wire.shard().machine.group("g") is None
        sentence = (
            "offset commit of producer 0 at epoch 0 refused: __consumer_offsets-3 is not in the "
            "transaction of x, whose coordinator answers TRANSACTION_ABORTABLE"
        )
        assert wire.refusals() == wire.refusals(Entity.TRANSACTIONAL_ID) == [sentence]

    def test_without_verification_any_producer_may_commit(self) -> None:
        wire = TransactionalCluster(config={"transaction.partition.verification.enable": "false"})
        assert wire.refusal(version=4, producer=ProducerIdAndEpoch(77, 3)) is ErrorCode.NONE
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert wire.refusal(version=5, producer=ProducerIdAndEpoch(78, 3)) is mapping
        assert wire.committed() == {}
        # Without a producer it is a normal commit.
        assert wire.refusal(version=4, producer=ProducerIdAndEpoch(-1, -1)) is ErrorCode.NONE
        assert set(wire.committed()) == {("t", 0)}

    def test_the_coordinator_is_asked_once_a_transaction(self, wire: TransactionalCluster) -> None:
        wire.refusal(version=5)
        self.expire_transaction(wire)
        # The marker is not written yet; until then the log has an open transaction.
        assert wire.refusal(version=5) is ErrorCode.NONE
        wire.end(is_commit=False)
        assert wire.refusal(version=5) is ErrorCode.CONCURRENT_TRANSACTIONS

    @staticmethod
    def expire_transaction(wire: TransactionalCluster) -> None:
        for _ in range(8):
            wire.clock.advance(10_000)
        assert wire.transaction().producer_epoch > wire.producer.producer_epoch

    @EVERY_VERSION
    def test_a_fenced_producer_gets_invalid_producer_epoch(
        self, wire: TransactionalCluster, version: int
    ) -> None:
        zombie = wire.producer
        wire.producer = ProducerIdAndEpoch(zombie.producer_id, zombie.producer_epoch + 1)
        wire.transactions.shard_for(X).write(
            lambda machine, now_ms: machine.init_producer_id(X, ProducerRequest(60_000), now_ms)
        )
        expected = ErrorCode.INVALID_PRODUCER_EPOCH
        assert wire.refusal(version=version, producer=zombie) is expected
        wire.begin()
        assert wire.refusal(version=version) is ErrorCode.NONE
        assert wire.refusal(version=version, producer=zombie) is expected

    def test_a_refused_commit_leaves_the_partition_in_the_transaction(
        self, wire: TransactionalCluster
    ) -> None:
        code = wire.refusal(version=5, member_id="m", generation=1)
        assert code is ErrorCode.ILLEGAL_GENERATION
        assert wire.transaction().state is TransactionState.ONGOING


class TestGroupValidation:
    @pytest.mark.parametrize("version", [3, 4, 5])
    def test_a_stale_member_epoch_is_an_illegal_generation(
        self, wire: TransactionalCluster, version: int
    ) -> None:
        joined = wire.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000,
                subscribed_topic_names=["t"], topic_partitions=[],
            ),
            1,
        )  # fmt: skip
        epoch = joined.member_epoch
        wire.begin()
        claim = {"version": version, "member_id": "m"}
        assert wire.refusal(**claim, generation=epoch) is ErrorCode.NONE
        assert wire.refusal(**claim, generation=epoch + 1) is ErrorCode.ILLEGAL_GENERATION
        assert wire.refusal(version=version, member_id="n", generation=epoch) is (
            ErrorCode.UNKNOWN_MEMBER_ID
        )
        assert wire.refusal(version=version) is ErrorCode.NONE
        (refused,) = (text for text in wire.refusals() if "epoch 3" in text)
        assert refused in wire.refusals(Entity.TRANSACTIONAL_ID)
        why = "the member epoch is only 2 (rule assignment-epoch)"
        assert refused == f"commit of t-0 at epoch 3 refused: {why}"

    def test_only_the_coordinator_accepts_commits(self) -> None:
        wire = TransactionalCluster(2)
        leader = wire.groups.shards()[wire.groups.partition_for("g")].leader_id
        other = 3 - leader
        assert wire.refusal(node=other, version=5) is ErrorCode.NOT_COORDINATOR
        assert wire.transaction().state is TransactionState.EMPTY

    def test_too_long_metadata_is_refused_for_its_partition(
        self, wire: TransactionalCluster
    ) -> None:
        wire.begin()
        assert wire.refusal(metadata="n" * 4_097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert wire.refusal(metadata=None) is ErrorCode.NONE
        assert wire.refusals() == [
            "TxnOffsetCommit of t-0 refused: metadata is longer than offset.metadata.max.bytes=4096"
        ]


@EVERY_VERSION
def test_the_error_while_loading_depends_on_the_version(
    wire: TransactionalCluster, version: int
) -> None:
    wire.begin()
    index = wire.groups.partition_for("g")
    for failure in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS):
        wire.logs[index].next_error = KafkaError(failure)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        knows = version > 1 and failure is ErrorCode.NETWORK_EXCEPTION
        expected = loading if knows else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert wire.refusal(version=version) is expected


def test_without_the_groups_topic_there_is_no_coordinator() -> None:
    wire = GroupCluster()
    wire.create("t")
    request = TxnOffsetCommitRequest(
        transactional_id=X,
        group_id="g",
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition()],
            )
        ],
    )
    response = wire.ask(request, 3)
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestFetchOfPendingOffsets:
    """OffsetFetch with RequireStable, which versions before 7 lack."""

    @staticmethod
    def fetch(
        wire: TransactionalCluster, version: int, *, stable: bool = True, all_topics: bool = False
    ) -> list[tuple[int, int, int, str | None]]:
        topics = range(3)
        topic_id = wire.metadata.image.topics["t"].topic_id
        request = OffsetFetchRequest(
            group_id="g",
            topics=None
            if all_topics
            else [
                OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[*topics])
            ],
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=None
                    if all_topics
                    else [
                        OffsetFetchRequest.OffsetFetchRequestTopics(
                            name="t", topic_id=topic_id, partition_indexes=[*topics]
                        )
                    ],
                )
            ],
            require_stable=stable,
        )
        response = wire.ask(request, version)
        (group,) = response.groups or [response]
        assert group.error_code == ErrorCode.NONE
        (topic,) = group.topics
        return [
            (each.partition_index, each.error_code, each.committed_offset, each.metadata)
            for each in topic.partitions
        ]

    @staticmethod
    def commit_and_leave_pending(wire: TransactionalCluster) -> None:
        """Commit offsets 0 and 2, and leave 1 and 2 pending."""
        wire.begin()
        wire.commit(("t", 0), ("t", 2))
        wire.end()
        wire.commit(("t", 1), ("t", 2))

    @pytest.mark.parametrize("version", [7, 8, 9, 10])
    def test_a_partition_with_a_pending_offset_has_no_stable_offset(
        self, wire: TransactionalCluster, version: int
    ) -> None:
        self.commit_and_leave_pending(wire)
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        known, changing = (0, 0, 5, "note"), [(1, unstable, -1, ""), (2, unstable, -1, "")]
        assert self.fetch(wire, version) == [known, *changing]
        # A pending offset is not part of all committed offsets.
        assert self.fetch(wire, version, all_topics=True) == [known, changing[1]]
        wire.end(is_commit=False)
        assert self.fetch(wire, version) == [known, (1, 0, -1, ""), (2, 0, 5, "note")]

    @pytest.mark.parametrize("version", range(2, 11))
    def test_without_require_stable_the_committed_offset_is_returned(
        self, wire: TransactionalCluster, version: int
    ) -> None:
        self.commit_and_leave_pending(wire)
        assert self.fetch(wire, version, stable=False) == [
            (0, 0, 5, "note"), (1, 0, -1, ""), (2, 0, 5, "note"),
        ]  # fmt: skip

    def test_a_pending_offset_older_than_a_commit_is_unstable_too(
        self, wire: TransactionalCluster
    ) -> None:
        self.commit_and_leave_pending(wire)
        claim = CommitClaim("", None, -1)
        plain = OffsetToCommit(topic="t", topic_id=ZERO_UUID, partition=1, offset=9)
        wire.shard().write(
            lambda machine, now_ms: machine.offsets.commit(
                "g", claim, [plain], now_ms, unknown_group=ErrorCode.NONE, retention_ms=None
            )
        )
        assert self.fetch(wire, 9)[1] == (1, ErrorCode.UNSTABLE_OFFSET_COMMIT, -1, "")
        wire.end()
        assert self.fetch(wire, 9)[1] == (1, 0, 9, "")


class TestTopicIds:
    @pytest.fixture
    def wire(self) -> TransactionalCluster:
        return TransactionalCluster(as_version="4.4")

    def commit(
        self,
        wire: TransactionalCluster,
        *partitions: tuple[bytes, int],
        member_id: str = "",
        epoch: int = -1,
    ) -> list[tuple[bytes, list[tuple[int, int]]]]:
        """Commit offset 5 of each partition by v6; return the errors by topic id."""
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        request = TxnOffsetCommitRequest(
            transactional_id=X,
            group_id="g",
            producer_id=wire.producer.producer_id,
            producer_epoch=wire.producer.producer_epoch,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[
                topic(
                    topic_id=topic_id,
                    partitions=[partition(partition_index=index, committed_offset=5)],
                )
                for topic_id, index in partitions
            ],
        )
        response = wire.ask(request, 6)
        return [
            (each.topic_id, [(row.partition_index, row.error_code) for row in each.partitions])
            for each in response.topics
        ]

    def test_an_offset_is_stored_under_the_name(self, wire: TransactionalCluster) -> None:
        topic_id = wire.metadata.image.topics["t"].topic_id
        assert self.commit(wire, (topic_id, 0)) == [(topic_id, [(0, 0)])]
        wire.end()
        assert wire.committed().keys() == {("t", 0)}

    def test_unknown_ids_are_refused_first(self, wire: TransactionalCluster) -> None:
        topic_id, unknown = wire.metadata.image.topics["t"].topic_id, bytes(range(16))
        asked = [(topic_id, 0), (unknown, 1), (topic_id, 3), (unknown, 0)]
        assert self.commit(wire, *asked) == [
            (unknown, [(1, ErrorCode.UNKNOWN_TOPIC_ID), (0, ErrorCode.UNKNOWN_TOPIC_ID)]),
            (topic_id, [(3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, 0)]),
        ]

    def test_an_unknown_group_has_an_error_of_its_own(self, wire: TransactionalCluster) -> None:
        topic_id = wire.metadata.image.topics["t"].topic_id
        expected = [(topic_id, [(0, ErrorCode.GROUP_ID_NOT_FOUND)])]
        assert self.commit(wire, (topic_id, 0), member_id="m", epoch=1) == expected

    @pytest.mark.parametrize("rule", ["strict", "assignment-epoch", "revocation-epoch"])
    def test_a_stale_member_epoch_has_an_error_of_its_own(self, rule: str) -> None:
        wire = TransactionalCluster(
            config={"group.consumer.offset.commit.fencing": rule}, as_version="4.4"
        )
        joined = wire.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000,
                subscribed_topic_names=["t"], topic_partitions=[],
            ),
            1,
        )  # fmt: skip
        topic_id = wire.metadata.image.topics["t"].topic_id
        for epoch, code in (
            (joined.member_epoch, ErrorCode.NONE),
            (joined.member_epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
        ):
            answer = self.commit(wire, (topic_id, 0), member_id="m", epoch=epoch)
            assert answer == [(topic_id, [(0, code)])]
