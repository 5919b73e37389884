"""Scenarios of KAFKA-19779, Relax offset commit validation, by the sections of its proposal.

The proposal is the rule `revocation-epoch` here, the previous behaviour is `strict`, and
`assignment-epoch` is the behaviour of released Kafka. Where they differ, a scenario shows all
three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.modern.offset_commit_fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    REVOCATION_EPOCH,
    RULES,
    STRICT,
)
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.transactions.producer_initialization import ProducerRequest
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.cluster.consumers import REBALANCE_MS, ConsumerCluster, G
from tests.scenarios.group_coordinator import answered

if TYPE_CHECKING:
    from collections.abc import Iterable

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
"""The error of a transactional commit instead of STALE, before version 6."""
BY_TOPIC_ID = 6
"""The version of TxnOffsetCommit with topic ids, and with the error STALE."""
X = "x"
every_rule = pytest.mark.parametrize("rule", RULES)


def cluster_under(rule: str, topics: dict[str, int] | None = None) -> ConsumerCluster:
    return ConsumerCluster(topics or {"t": 4}, {FENCING_KEY: rule})


def joined(cluster: ConsumerCluster) -> None:
    """Create a group of c1, which has not revoked partitions yet, and c2.

    c1 is at epoch 2 with all partitions, c2 at epoch 3 with none.
    """
    assert cluster.epoch("c1") == 2
    cluster.pass_interval()
    assert cluster.epoch("c2") == 3


def handed_over(cluster: ConsumerCluster) -> None:
    """Let c1 revoke t-2 and t-3 and advance to epoch 3, and assign them to c2."""
    joined(cluster)
    assert cluster.given(cluster.beat("c1", 2)) == {"t": [0, 1]}
    assert cluster.epoch("c1", 2, {"t": [0, 1]}) == 3
    assert cluster.given(cluster.beat("c2", 3)) == {"t": [2, 3]}


def moved_without_revocation(cluster: ConsumerCluster) -> None:
    """Advance c1 from epoch 2 to epoch 3 with all its partitions: a partition is added."""
    assert cluster.epoch("c1") == 2
    cluster.pass_interval()
    cluster.beat("c1", 2, topics=["t", "u"])
    assert cluster.group().current_of("c1").member_epoch == 3


def begin(cluster: ConsumerCluster) -> ProducerIdAndEpoch:
    """Let x be the id of a producer, and add the group's partition to its transaction."""
    cluster.transactions.ensure_topic()
    shard = cluster.transactions.shard_for(X)
    try:
        known = shard.machine.describe(X)
    except KafkaError:
        answered(
            shard.write(
                lambda machine, now: machine.init_producer_id(X, ProducerRequest(60_000), now)
            )
        )
        known = shard.machine.describe(X)
    producer = ProducerIdAndEpoch(known.producer_id, known.producer_epoch)
    cluster.transactions.verify_or_add_partitions(
        X, producer, [(OFFSETS_TOPIC, 0)], adds_missing=True
    )
    return producer


def transactional(
    cluster: ConsumerCluster, epoch: int, *partitions: int, version: int = 5, member_id: str = "c1"
) -> list[ErrorCode]:
    """Commit an offset for some partitions of t in a transaction; return their errors."""
    producer = begin(cluster)
    request = TxnOffsetCommitRequest(
        transactional_id=X,
        group_id=G,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="" if version == BY_TOPIC_ID else "t",
                topic_id=cluster.metadata.image.topics["t"].topic_id,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1
                    )
                    for index in partitions
                ],
            )
        ],
    )
    (topic,) = cluster.ask(request, version).topics
    return [ErrorCode(answer.error_code) for answer in topic.partitions]


def end(cluster: ConsumerCluster, *, is_commit: bool = True) -> None:
    """End the transaction in the group."""
    marker = TransactionMarker(*begin(cluster), 0, is_commit=is_commit)
    cluster.groups.end_transaction(0, marker)


def takers(
    clusters: Iterable[tuple[str, ConsumerCluster]], epoch: int, *partitions: int
) -> set[str]:
    """Return the rules that accept a commit of c1 for these partitions of t at an epoch.

    A transactional commit has the same result, before version 6 with another error code.
    """
    found = set()
    for rule, cluster in clusters:
        codes = cluster.commit("c1", epoch, *(("t", partition) for partition in partitions))
        assert set(codes) in ({NONE}, {STALE})
        transactional_codes = transactional(cluster, epoch, *partitions)
        assert transactional_codes == [ILLEGAL if code is STALE else code for code in codes]
        assert transactional(cluster, epoch, *partitions, version=BY_TOPIC_ID) == codes
        if codes[0] is NONE:
            found.add(rule)
    return found


class TestFencingOffsetCommits:
    @every_rule
    def test_a_zombie_does_not_overwrite_the_offsets_of_the_new_owner(self, rule: str) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        assert cluster.commit("c2", 3, ("t", 2), offset=50) == [NONE]
        cluster.new_records()
        # The commit was sent while c1 owned t-2, and arrives late.
        assert cluster.commit("c1", 2, ("t", 2), offset=40) == [STALE]
        assert cluster.new_records() == []
        assert cluster.committed("t", 2) == 50

    @every_rule
    def test_a_removed_member_is_fenced_by_its_id(self, rule: str) -> None:
        cluster = cluster_under(rule)
        joined(cluster)
        cluster.beat("c1", 2)
        for _ in range(REBALANCE_MS // 10_000):
            cluster.clock.advance(10_000)
            cluster.beat("c1", 2)
            cluster.beat("c2", 3)
        assert cluster.commit("c1", 2, ("t", 0)) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert cluster.events("fenced")[0].text == (
            "member c1 removed: it did not revoke its partitions within its rebalance timeout"
        )

    @every_rule
    def test_the_member_epoch_is_compared_and_not_the_group_epoch(self, rule: str) -> None:
        cluster = cluster_under(rule)
        joined(cluster)
        assert (cluster.group().epoch, cluster.group().target_epoch) == (3, 3)
        assert cluster.commit("c1", 2, ("t", 0), ("t", 3)) == [NONE, NONE]
        assert cluster.commit("c1", 3, ("t", 0)) == [STALE]


class TestDownsidesOfTheCurrentApproach:
    def test_a_commit_from_before_an_epoch_bump_is_refused_by_strict_only(self) -> None:
        clusters = [(rule, cluster_under(rule, {"t": 4, "u": 1})) for rule in RULES]
        for _, cluster in clusters:
            assert cluster.epoch("c1", topics=["t"]) == 2
            cluster.pass_interval()
            assert cluster.epoch("c1", 2, topics=["t", "u"]) == 3
        assert takers(clusters, 2, 0, 3) == {REVOCATION_EPOCH, ASSIGNMENT_EPOCH}
        assert takers(clusters, 3, 0, 3) == set(RULES)

    def test_a_heartbeat_in_flight_bumps_the_epoch_before_the_client_knows(self) -> None:
        """The commit is sent before the response to a heartbeat has arrived."""
        for rule, expected in ((STRICT, STALE), (REVOCATION_EPOCH, NONE), (ASSIGNMENT_EPOCH, NONE)):
            cluster = cluster_under(rule, {"t": 4, "u": 1})
            known = cluster.epoch("c1", topics=["t"])
            cluster.pass_interval()
            in_flight = cluster.beat("c1", known, topics=["t", "u"])
            assert cluster.commit("c1", known, ("t", 1)) == [expected]
            assert cluster.commit("c1", in_flight.member_epoch, ("t", 1)) == [NONE]


class TestWhyABrokerSideFixIsWarranted:
    """The motivating case: a refused commit aborts the transaction and all its work."""

    @every_rule
    @pytest.mark.parametrize("version", [3, 4, 5, BY_TOPIC_ID])
    def test_transactional_commits_follow_the_same_rule_with_errors_by_version(
        self, rule: str, version: int
    ) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        begin(cluster)
        answers = {
            epoch: transactional(cluster, epoch, 2, version=version) for epoch in range(2, 5)
        }
        refused = STALE if version == BY_TOPIC_ID else ILLEGAL
        assert answers == {2: [refused], 3: [NONE], 4: [refused]}

    @every_rule
    def test_a_transaction_from_before_an_epoch_bump_is_not_aborted(self, rule: str) -> None:
        cluster = cluster_under(rule, {"t": 4, "u": 1})
        cluster.epoch("c1", topics=["t"])
        cluster.pass_interval()
        cluster.epoch("c1", 2, topics=["t", "u"])
        cluster.new_records()
        is_taken = transactional(cluster, 2, 0, 3) == [NONE, NONE]
        assert is_taken == (rule != STRICT)
        assert len(cluster.new_records()) == (2 if is_taken else 0)
        # The reaction of the producer to either result.
        end(cluster, is_commit=is_taken)
        assert cluster.committed("t", 3) == (1 if is_taken else -1)

    @every_rule
    def test_a_zombies_transaction_does_not_overwrite_the_offsets_of_the_new_owner(
        self, rule: str
    ) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        assert cluster.commit("c2", 3, ("t", 2), offset=50) == [NONE]
        cluster.new_records()
        assert transactional(cluster, 2, 2) == [ILLEGAL]
        assert cluster.new_records() == []
        end(cluster)
        assert cluster.committed("t", 2) == 50

    @every_rule
    def test_a_producer_without_a_member_is_not_checked(self, rule: str) -> None:
        """Only its transactional id fences it, as before KIP-447."""
        cluster = cluster_under(rule)
        handed_over(cluster)
        assert transactional(cluster, -1, 2, member_id="") == [NONE]
        assert transactional(cluster, 2, 2, member_id="") == [ErrorCode.UNKNOWN_MEMBER_ID]

    @every_rule
    def test_one_invalid_partition_refuses_the_whole_request(self, rule: str) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        cluster.new_records()
        assert transactional(cluster, 2, 0, 2) == [ILLEGAL, ILLEGAL]
        assert cluster.new_records() == []

    @every_rule
    def test_the_refusal_is_in_the_history_of_the_group_and_of_the_producer(
        self, rule: str
    ) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        transactional(cluster, 2, 2)
        (of_group,) = cluster.events("refused")
        (of_id,) = cluster.node.history.about(X, of=Entity.TRANSACTIONAL_ID)
        assert of_group.text == of_id.text
        assert f"(rule {rule}); current owner: c2 since " in of_group.text
        assert of_group.facts["api"] == "TxnOffsetCommit"
        assert of_group.facts["error"] == "ILLEGAL_GENERATION"
        assert of_group.facts["transactional_id"] == X


class TestIdentifyingZombiesUsingTheLargestEpochAPartitionWasRevoked:
    """The rule `assignment-epoch`, which compares epochs for each partition."""

    def test_a_partition_that_was_assigned_again_may_be_committed_from_its_new_epoch_on(
        self,
    ) -> None:
        cluster = cluster_under(ASSIGNMENT_EPOCH)
        handed_over(cluster)
        cluster.pass_interval()
        cluster.beat("c2", -1)
        assert cluster.given(cluster.beat("c1", 3)) == {"t": [0, 1, 2, 3]}
        assert cluster.group().current_of("c1").member_epoch == 4
        # c1 owned t-2 at epoch 2, not at 3, and again at 4.
        assert [cluster.commit("c1", epoch, ("t", 2)) for epoch in (2, 3, 4)] == [
            [STALE], [STALE], [NONE],
        ]  # fmt: skip
        assert [cluster.commit("c1", epoch, ("t", 0)) for epoch in (2, 3, 4)] == [[NONE]] * 3

    def test_one_invalid_partition_refuses_the_whole_request(self) -> None:
        cluster = cluster_under(ASSIGNMENT_EPOCH)
        handed_over(cluster)
        cluster.new_records()
        assert cluster.commit("c1", 2, ("t", 0), ("t", 2)) == [STALE, STALE]
        assert cluster.new_records() == []

    def test_a_partition_that_is_being_revoked_still_belongs_to_the_member(self) -> None:
        clusters = [(rule, cluster_under(rule)) for rule in RULES]
        for _, cluster in clusters:
            joined(cluster)
            cluster.beat("c1", 2)
            assert cluster.group().current_of("c1").pending_revocation
        assert takers(clusters, 2, 2, 3) == set(RULES)


class TestFromPartitionAndMemberLevelToMemberLevel:
    def test_the_rule_by_member_is_less_precise_than_the_rule_by_partition(self) -> None:
        """The revocation of t-2 fences a commit of t-0 too, until c1 learns its new epoch."""
        clusters = [(rule, cluster_under(rule)) for rule in RULES]
        for _, cluster in clusters:
            handed_over(cluster)
        assert takers(clusters, 2, 0) == {ASSIGNMENT_EPOCH}
        assert takers(clusters, 3, 0) == set(RULES)

    def test_commits_are_accepted_since_the_last_revocation(self) -> None:
        clusters = [(rule, cluster_under(rule, {"t": 4, "u": 1})) for rule in RULES]
        for _, cluster in clusters:
            cluster.epoch("c1", topics=["t"])
            cluster.pass_interval()
            cluster.epoch("c2", topics=["t"])
            cluster.beat("c1", 2)
            assert cluster.epoch("c1", 2, {"t": [0, 1]}) == 3
            cluster.beat("c2", 3)
            # Two more epochs without a revocation.
            for epoch, topics in ((3, ["t", "u"]), (4, ["t"])):
                cluster.pass_interval()
                assert cluster.epoch("c1", epoch, {"t": [0, 1]}, topics=topics) == epoch + 1
            record = cluster.assignment_record("c1")
            assert record is not None
        assert takers(clusters, 5, 0) == set(RULES)
        assert takers(clusters, 2, 0) == {ASSIGNMENT_EPOCH}


class TestCompletelyAvoidingCommitRequestErrors:
    """The client commits before it revokes; the coordinator waits for that."""

    @every_rule
    def test_no_epoch_changes_between_the_request_to_revoke_and_its_acknowledgement(
        self, rule: str
    ) -> None:
        cluster = cluster_under(rule)
        joined(cluster)
        cluster.beat("c1", 2)
        cluster.pass_interval()
        cluster.beat("c3")
        # In onPartitionsRevoked it commits the revoked partitions at the epoch it knows.
        assert cluster.epoch("c1", 2) == 2
        assert cluster.commit("c1", 2, ("t", 2), ("t", 3)) == [NONE, NONE]
        # Then it revokes them. Its epoch then is the stored revocation epoch.
        assert cluster.epoch("c1", 2, {"t": [0]}) == 4
        # It commits again from the new epoch on.
        assert cluster.commit("c1", 4, ("t", 0)) == [NONE]


def revocation_epoch(cluster: ConsumerCluster, member_id: str) -> int:
    """Return the revocation epoch in the log."""
    record = cluster.assignment_record(member_id)
    assert record is not None
    return record.revocation_epoch


class TestIntroducingPerMemberRevocationEpoch:
    @every_rule
    def test_it_begins_at_zero_and_a_revocation_sets_it_to_the_previous_epoch(
        self, rule: str
    ) -> None:
        """It is stored under every rule, so that the rule can be changed."""
        cluster = cluster_under(rule)
        joined(cluster)
        assert revocation_epoch(cluster, "c1") == revocation_epoch(cluster, "c2") == 0
        cluster.beat("c1", 2)
        # The revocation is not complete: the epoch is unchanged.
        assert revocation_epoch(cluster, "c1") == 0
        cluster.new_records()
        assert cluster.epoch("c1", 2, {"t": [0, 1]}) == 3
        assert cluster.kinds() == ["CurrentMemberAssignment"]
        assert revocation_epoch(cluster, "c1") == 2
        assert revocation_epoch(cluster, "c2") == 0

    def test_it_is_unchanged_if_the_epoch_changes_without_a_revocation(self) -> None:
        cluster = cluster_under(REVOCATION_EPOCH, {"t": 4, "u": 1})
        cluster.epoch("c1", topics=["t"])
        for epoch, topics in ((2, ["t", "u"]), (3, ["t"])):
            cluster.pass_interval()
            owned = {"t": range(4)} if epoch == 2 else {"t": range(4), "u": [0]}
            cluster.beat("c1", epoch, owned, topics=topics)
        record = cluster.assignment_record("c1")
        assert record is not None
        # u was removed from the target, and c1 has not revoked it yet.
        assert (record.member_epoch, record.revocation_epoch) == (3, 0)
        assert cluster.epoch("c1", 3, {"t": range(4)}) == 4
        assert revocation_epoch(cluster, "c1") == 3

    def test_the_invariant_holds_at_every_step(self) -> None:
        cluster = cluster_under(REVOCATION_EPOCH)
        handed_over(cluster)
        group = cluster.group()
        for member_id, current in group.current.items():
            record = cluster.assignment_record(member_id)
            assert record is not None
            assert (
                record.revocation_epoch < current.member_epoch <= group.target_epoch <= group.epoch
            )

    @every_rule
    def test_it_survives_a_restart(self, rule: str) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        before = cluster.group().current
        cluster.restart()
        assert cluster.group().current == before
        assert cluster.group().current_of("c1").revocation == (2, False)
        assert cluster.commit("c1", 2, ("t", 2)) == [STALE]

    def test_a_rule_that_is_selected_later_has_the_stored_epoch(self) -> None:
        cluster = cluster_under(STRICT)
        handed_over(cluster)
        asked = {}
        for rule in (ASSIGNMENT_EPOCH, REVOCATION_EPOCH, STRICT):
            cluster.set_config(FENCING_KEY, rule)
            asked[rule] = cluster.commit("c1", 2, ("t", 0))
        assert asked == {ASSIGNMENT_EPOCH: [NONE], REVOCATION_EPOCH: [STALE], STRICT: [STALE]}

    def test_the_timer_of_a_revocation_ends_with_it(self) -> None:
        cluster = cluster_under(REVOCATION_EPOCH)
        handed_over(cluster)
        for _ in range(REBALANCE_MS // 10_000 + 1):
            cluster.clock.advance(10_000)
            assert cluster.epoch("c1", 3) == 3
            assert cluster.epoch("c2", 3) == 3


class TestRelaxingTheOffsetCommitValidation:
    def test_epochs_above_the_revocation_epoch_up_to_the_members_are_accepted(self) -> None:
        cluster = cluster_under(REVOCATION_EPOCH, {"t": 4, "u": 1})
        cluster.epoch("c1", topics=["t"])
        cluster.pass_interval()
        cluster.epoch("c2", topics=["t"])
        cluster.beat("c1", 2)
        cluster.epoch("c1", 2, {"t": [0, 1]})
        cluster.beat("c2", 3)
        cluster.pass_interval()
        assert cluster.epoch("c1", 3, topics=["t", "u"]) == 4
        assert revocation_epoch(cluster, "c1") == 2
        answers = {epoch: cluster.commit("c1", epoch, ("t", 0))[0] for epoch in range(-1, 6)}
        assert {epoch for epoch, code in answers.items() if code is NONE} == {3, 4}
        assert set(answers.values()) == {NONE, STALE}

    def test_only_revocation_epoch_accepts_partitions_assigned_later(self) -> None:
        """Differences between the rules: a partition assigned later, and one never assigned."""
        clusters = [(rule, cluster_under(rule, {"t": 4, "u": 1})) for rule in RULES]
        for _, cluster in clusters:
            cluster.epoch("c1", topics=["t"])
            cluster.pass_interval()
            assert cluster.epoch("c1", 2, topics=["t", "u"]) == 3
        later = {rule for rule, cluster in clusters if cluster.commit("c1", 2, ("u", 0)) == [NONE]}
        assert later == {REVOCATION_EPOCH}

    @every_rule
    def test_a_client_without_member_epochs_gets_unsupported_version(self, rule: str) -> None:
        cluster = cluster_under(rule)
        joined(cluster)
        assert cluster.commit("c1", 2, ("t", 0), version=8) == [ErrorCode.UNSUPPORTED_VERSION]

    @every_rule
    def test_topic_ids_make_no_difference(self, rule: str) -> None:
        cluster = cluster_under(rule)
        handed_over(cluster)
        assert cluster.commit("c1", 3, ("t", 0), version=10) == [NONE]
        assert cluster.commit("c1", 2, ("t", 2), version=10) == [STALE]


class TestDisablingStreamsCommitsBetweenRevocationAndMemberEpochBumps:
    """Kafka Streams does not commit in between; the section on listeners shows that it may."""

    def test_epochs_do_not_change_while_partitions_are_being_revoked(self) -> None:
        cluster = cluster_under(REVOCATION_EPOCH)
        joined(cluster)
        cluster.beat("c1", 2)
        for others in range(3):
            cluster.pass_interval()
            cluster.beat(f"other{others}")
            assert cluster.epoch("c1", 2) == 2
            assert cluster.commit("c1", 2, ("t", 3)) == [NONE]


class TestRevocationsWithoutANewEpoch:
    """Two cases that the proposal does not cover: partitions are revoked without a new epoch.

    At the member's current epoch, Kafka and every rule here accept a commit for a partition that
    another member owns. After the member's epoch has changed, none does.
    """

    @every_rule
    def test_an_unsubscribed_topic_is_revoked_before_the_new_target_is_computed(
        self, rule: str
    ) -> None:
        cluster = cluster_under(rule, {"t": 2, "u": 1})
        assert cluster.epoch("c1") == 2
        # Within the assignment interval there is no new target.
        assert cluster.epoch("c1", 2, {"t": [0, 1]}, topics=["t"]) == 2
        cluster.pass_interval()
        assert cluster.given(cluster.beat("c2", topics=["u"])) == {"u": [0]}
        assert cluster.commit("c1", 2, ("u", 0)) == [NONE]
        assert cluster.commit("c1", 2, ("t", 0)) == [NONE]
        record = cluster.assignment_record("c1")
        assert record is not None
        assert (record.revocation_epoch, record.is_revocation_under_way) == (0, True)
        assert cluster.epoch("c1", 2, {"t": [0, 1]}) == 4
        assert revocation_epoch(cluster, "c1") == 2
        assert cluster.commit("c1", 2, ("u", 0)) == [STALE]

    @every_rule
    def test_a_second_revocation_is_requested_before_the_epoch_changes(self, rule: str) -> None:
        cluster = cluster_under(rule)
        joined(cluster)
        assert cluster.given(cluster.beat("c1", 2)) == {"t": [0, 1]}
        for new_member in ("c3", "c4"):
            cluster.pass_interval()
            cluster.beat(new_member)
        # t-2 and t-3 are revoked, and t-1 is to be revoked as well.
        assert cluster.epoch("c1", 2, {"t": [0, 1]}) == 2
        assert cluster.given(cluster.beat("c2", 3)) == {"t": [2]}
        assert cluster.commit("c1", 2, ("t", 2)) == [NONE]
        assert cluster.commit("c1", 2, ("t", 0)) == [NONE]


class TestHistory:
    def test_accepted_commits_are_not_in_the_history(self) -> None:
        cluster = cluster_under(ASSIGNMENT_EPOCH)
        handed_over(cluster)
        before = len(cluster.events())
        cluster.commit("c1", 2, ("t", 0))
        cluster.commit("c1", 3, ("t", 0))
        assert len(cluster.events()) == before
