"""TxnOffsetCommit: who may commit in a transaction, and in which words others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.coordinator.contract import SubjectKind
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offset import OffsetAndMetadata
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.marker import TransactionMarker
from kafkalite.transactions.state import Producer, TransactionState
from tests.unit.apis.group_wire import GroupWire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.groups.shard import GroupShard
    from kafkalite.transactions.state import Transaction

X = "x"


class TransactionalWire(GroupWire):
    """A cluster of one node with one producer, whose transactional id is x."""

    def __init__(self, nodes: int = 1, config: Mapping[str, str] | None = None) -> None:
        super().__init__(nodes, config)
        self.ask(FindCoordinatorRequest(key="g"), 3)
        self.create("t", 3)
        self.transactions.have_topic()
        initialized: Any = self.transactions.shard_for(X).write(
            lambda machine, now_ms: machine.init_producer_id(X, 60_000, None, now_ms)
        )
        self.producer: Producer = initialized.producer

    def shard(self, group: str = "g") -> ActiveShard[GroupShard]:
        node = next(iter(self.contexts))
        return self.groups.locate(group, node)

    def begin(self, group: str = "g") -> None:
        """Let the group's partition join the transaction, as AddOffsetsToTxn does."""
        place = (OFFSETS_TOPIC, self.groups.partition_for(group))
        codes = self.transactions.admit(X, self.producer, [place], adds=True)
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
        producer: Producer | None = None,
        transactional_id: str = X,
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = "note",
    ) -> list[tuple[str, list[tuple[int, int]]]]:
        """Commit offset 5 of each partition; the answer, topic by topic."""
        producer = producer or self.producer
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            member_id=member_id,
            generation_id=generation,
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

    def refusal(self, **wanted: Any) -> ErrorCode:  # noqa: ANN401 - as commit has them
        ((_, ((_, code),)),) = self.commit(**wanted)
        return ErrorCode(code)

    def committed(self, group: str = "g") -> dict[tuple[str, int], OffsetAndMetadata]:
        return {
            (topic, index): offset
            for topic, partitions in self.shard(group).machine.offsets.of_group(group).items()
            for index, offset in partitions.items()
        }

    def told(self, kind: SubjectKind = SubjectKind.GROUP) -> list[str]:
        name = "g" if kind is SubjectKind.GROUP else X
        return [entry.text for entry in self.journal.about(name, of=kind)]


@pytest.fixture
def wire() -> TransactionalWire:
    return TransactionalWire()


EVERY_VERSION = pytest.mark.parametrize("version", range(6))


@EVERY_VERSION
def test_an_offset_counts_from_the_commit_of_its_transaction_on(
    wire: TransactionalWire, version: int
) -> None:
    wire.begin()
    assert wire.commit(("t", 0), ("t", 2), version=version) == [("t", [(0, 0)]), ("t", [(2, 0)])]
    assert wire.committed() == {}
    wire.end()
    # The id of the topic is not kept with it, nor does every version tell of the leader's epoch.
    expected = OffsetAndMetadata(
        5, wire.clock.now_ms(), 0 if version > 1 else -1, "note", None, ZERO_UUID
    )
    assert wire.committed() == {("t", 0): expected, ("t", 2): expected}


def test_an_aborted_offset_leaves_what_was_there(wire: TransactionalWire) -> None:
    wire.begin()
    wire.commit(metadata="first")
    wire.end()
    wire.commit(metadata="second")
    wire.end(is_commit=False)
    assert wire.committed()["t", 0].metadata == "first"


def test_what_does_not_exist_is_refused_before_all_else_and_answered_first(
    wire: TransactionalWire,
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = [("t", 0), ("u", 0), ("t", 3), ("t", -1), ("t", 1)]
    assert wire.commit(*asked, version=5) == [
        ("u", [(0, unknown)]),
        ("t", [(3, unknown), (-1, unknown), (0, 0), (1, 0)]),
    ]
    assert wire.told() == ["TxnOffsetCommit of u-0, t-3, t--1 refused: there is no such partition"]


def test_nothing_that_exists_is_answered_without_any_coordinator(wire: TransactionalWire) -> None:
    stranger = Producer(99, 0)
    code = wire.refusal(group="", producer=stranger)
    assert code is ErrorCode.INVALID_GROUP_ID
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.commit(("u", 0), group="", producer=stranger) == [("u", [(0, unknown)])]


class TestTheWayIntoATransaction:
    def test_since_version_5_committing_adds_the_groups_partition(
        self, wire: TransactionalWire
    ) -> None:
        assert wire.refusal(version=5) is ErrorCode.NONE
        transaction = wire.transaction()
        assert transaction.state is TransactionState.ONGOING
        assert transaction.partitions == {(OFFSETS_TOPIC, wire.groups.partition_for("g"))}

    @pytest.mark.parametrize(
        ("version", "told"),
        [*((each, ErrorCode.INVALID_TXN_STATE) for each in range(4)),
         (4, ErrorCode.TRANSACTION_ABORTABLE)],
    )  # fmt: skip
    def test_before_that_it_must_be_there(
        self, wire: TransactionalWire, version: int, told: ErrorCode
    ) -> None:
        wire.begin("another group, elsewhere")
        assert wire.refusal(version=version) is told
        assert wire.shard().machine.group("g") is None
        sentence = (
            "offset commit of producer 0 at epoch 0 refused: __consumer_offsets-3 is not in the "
            "transaction of x, whose coordinator says TRANSACTION_ABORTABLE"
        )
        assert wire.told() == wire.told(SubjectKind.TRANSACTIONAL_ID) == [sentence]

    def test_where_nothing_is_verified_anybody_may_commit(self) -> None:
        wire = TransactionalWire(config={"transaction.partition.verification.enable": "false"})
        assert wire.refusal(version=4, producer=Producer(77, 3)) is ErrorCode.NONE
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert wire.refusal(version=5, producer=Producer(78, 3)) is mapping
        assert wire.committed() == {}
        # Without a producer it is a commit like any other.
        assert wire.refusal(version=4, producer=Producer(-1, -1)) is ErrorCode.NONE
        assert set(wire.committed()) == {("t", 0)}

    def test_the_coordinator_is_asked_once_in_a_transaction(self, wire: TransactionalWire) -> None:
        wire.refusal(version=5)
        self.expire_at_the_coordinator(wire)
        # Its marker is still to come; until then the log knows of an open transaction.
        assert wire.refusal(version=5) is ErrorCode.NONE
        wire.end(is_commit=False)
        assert wire.refusal(version=5) is ErrorCode.CONCURRENT_TRANSACTIONS

    @staticmethod
    def expire_at_the_coordinator(wire: TransactionalWire) -> None:
        for _ in range(8):
            wire.clock.advance(10_000)
        assert wire.transaction().producer_epoch > wire.producer.producer_epoch

    @EVERY_VERSION
    def test_a_fenced_producer_is_told_that_its_epoch_is_not_valid(
        self, wire: TransactionalWire, version: int
    ) -> None:
        zombie = wire.producer
        wire.producer = Producer(zombie.producer_id, zombie.producer_epoch + 1)
        wire.transactions.shard_for(X).write(
            lambda machine, now_ms: machine.init_producer_id(X, 60_000, None, now_ms)
        )
        told = ErrorCode.INVALID_PRODUCER_EPOCH
        assert wire.refusal(version=version, producer=zombie) is told
        wire.begin()
        assert wire.refusal(version=version) is ErrorCode.NONE
        assert wire.refusal(version=version, producer=zombie) is told

    def test_other_errors_of_the_coordinator_are_told_as_they_are(
        self, wire: TransactionalWire
    ) -> None:
        for version in (3, 5):
            mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert wire.refusal(version=version, transactional_id="nobody's") is mapping
            assert wire.refusal(version=version, producer=Producer(99, 0)) is mapping
            assert wire.refusal(version=version, transactional_id="") is ErrorCode.INVALID_REQUEST

    def test_a_group_that_refuses_leaves_its_partition_in_the_transaction(
        self, wire: TransactionalWire
    ) -> None:
        told = wire.refusal(version=5, member_id="m", generation=1)
        assert told is ErrorCode.ILLEGAL_GENERATION
        assert wire.transaction().state is TransactionState.ONGOING


class TestTheGroup:
    @EVERY_VERSION
    def test_a_generation_of_no_group_is_illegal(
        self, wire: TransactionalWire, version: int
    ) -> None:
        wire.begin()
        # Who writes no member, because the version has no place for one, claims none.
        told = wire.refusal(version=version, member_id="m", generation=1)
        assert told is (ErrorCode.ILLEGAL_GENERATION if version > 2 else ErrorCode.NONE)

    @pytest.mark.parametrize("version", [3, 4, 5])
    def test_a_stale_epoch_is_an_illegal_generation(
        self, wire: TransactionalWire, version: int
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
        (refused,) = (text for text in wire.told() if "epoch 3" in text)
        assert refused in wire.told(SubjectKind.TRANSACTIONAL_ID)
        why = "the member is at epoch 2 only (rule assignment-epoch)"
        assert refused == f"commit of t-0 at epoch 3 refused: {why}"

    def test_it_has_a_name(self, wire: TransactionalWire) -> None:
        assert wire.refusal(group="") is ErrorCode.INVALID_GROUP_ID

    def test_it_is_led_by_the_node_that_is_asked(self) -> None:
        wire = TransactionalWire(2)
        leader = wire.groups.shards()[wire.groups.partition_for("g")].leader_id
        other = 3 - leader
        assert wire.refusal(node=other, version=5) is ErrorCode.NOT_COORDINATOR
        assert wire.transaction().state is TransactionState.EMPTY

    def test_metadata_that_is_too_long_is_refused_for_its_partition(
        self, wire: TransactionalWire
    ) -> None:
        wire.begin()
        assert wire.refusal(metadata="n" * 4_097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert wire.refusal(metadata=None) is ErrorCode.NONE
        assert wire.told() == [
            "TxnOffsetCommit of t-0 refused: metadata is longer than offset.metadata.max.bytes=4096"
        ]


@EVERY_VERSION
def test_a_coordinator_that_loads_is_told_in_words_the_client_knows(
    wire: TransactionalWire, version: int
) -> None:
    wire.begin()
    index = wire.groups.partition_for("g")
    for failure in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS):
        wire.logs[index].fails_with = KafkaError(failure)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        knows = version > 1 and failure is ErrorCode.NETWORK_EXCEPTION
        told = loading if knows else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert wire.refusal(version=version) is told


def test_without_the_groups_topic_there_is_no_coordinator() -> None:
    wire = GroupWire()
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


class TestFetchingWhatIsPending:
    """OffsetFetch with RequireStable, which versions before 7 cannot ask for."""

    @staticmethod
    def fetch(
        wire: TransactionalWire, version: int, *, stable: bool = True, all_topics: bool = False
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
    def half_pending(wire: TransactionalWire) -> None:
        """Have offsets 0 and 2 committed, and 1 and 2 pending."""
        wire.begin()
        wire.commit(("t", 0), ("t", 2))
        wire.end()
        wire.commit(("t", 1), ("t", 2))

    @pytest.mark.parametrize("version", [7, 8, 9, 10])
    def test_a_partition_that_a_transaction_may_change_has_no_stable_offset(
        self, wire: TransactionalWire, version: int
    ) -> None:
        self.half_pending(wire)
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        known, changing = (0, 0, 5, "note"), [(1, unstable, -1, ""), (2, unstable, -1, "")]
        assert self.fetch(wire, version) == [known, *changing]
        # Of all that is committed, what is only pending is no part.
        assert self.fetch(wire, version, all_topics=True) == [known, changing[1]]
        wire.end(is_commit=False)
        assert self.fetch(wire, version) == [known, (1, 0, -1, ""), (2, 0, 5, "note")]

    @pytest.mark.parametrize("version", range(2, 11))
    def test_who_does_not_ask_for_that_is_told_what_is_committed(
        self, wire: TransactionalWire, version: int
    ) -> None:
        self.half_pending(wire)
        assert self.fetch(wire, version, stable=False) == [
            (0, 0, 5, "note"), (1, 0, -1, ""), (2, 0, 5, "note"),
        ]  # fmt: skip

    def test_a_pending_offset_that_something_else_has_outrun_is_unstable_too(
        self, wire: TransactionalWire
    ) -> None:
        self.half_pending(wire)
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
