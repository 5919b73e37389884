"""Two members share a topic of four partitions: every step of a rebalance, one after the other.

A topic moves between members in heartbeats alone, and commits that were on their way meanwhile
are taken where they can do no harm (KIP-848, KIP-1251).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.member import CurrentAssignment, MemberState
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.offset_commit_fencing import Revocation
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import (
    REBALANCE_TIMEOUT_MS,
    Stage,
    assigned_partitions,
    refusal,
    topic_id,
)

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup

T = topic_id("T")
MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS = 1001


def current(stage: Stage, member_id: str) -> CurrentAssignment:
    return stage.group.current_of(member_id)


def commit(group: ConsumerGroup, member_id: str, epoch: int, *partitions: int) -> None:
    check = group.validate_offset_commit(
        CommitClaim(
            member_id=member_id, group_instance_id=None, generation_id_or_member_epoch=epoch
        )
    )
    for partition in partitions:
        if check is not None:
            check("T", T, partition)


def test_a_rebalance_from_the_first_join_to_the_last_leave() -> None:
    stage = Stage({"T": 4})

    # 1: the first member gets everything, at epoch 2: epoch 1 is that of a new group.
    response = stage.join("A")
    assert (response.member_epoch, assigned_partitions(response)) == (2, {"T": [0, 1, 2, 3]})
    assert stage.group.target_epoch == stage.group.epoch == 2
    assert current(stage, "A") == CurrentAssignment(
        member_epoch=2, previous_member_epoch=0, assigned={T: {0: 2, 1: 2, 2: 2, 3: 2}}
    )
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)

    # 2: the second gets the free partitions, which are none: the assignment is empty, not absent.
    response = stage.join("B")
    assert (response.member_epoch, assigned_partitions(response)) == (3, {})
    assert stage.group.target == {"A": {T: {0, 1}}, "B": {T: {2, 3}}}
    assert current(stage, "B") == CurrentAssignment(
        member_epoch=3, previous_member_epoch=0, state=MemberState.UNRELEASED_PARTITIONS
    )
    assert stage.group.state_name() == "Reconciling"

    # 3: the first gets an assignment without the partitions to revoke, and keeps its epoch.
    response = stage.beat("A", 2)
    assert (response.member_epoch, assigned_partitions(response)) == (2, {"T": [0, 1]})
    assert current(stage, "A") == CurrentAssignment(
        member_epoch=2,
        previous_member_epoch=2,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={T: {0: 2, 1: 2}},
        pending_revocation={T: {2: 2, 3: 2}},
    )

    # 4: until it reports the revocation, nothing changes.
    response = stage.beat("A", 2)
    assert (response.member_epoch, assigned_partitions(response)) == (2, None)
    assert stage.written == []

    # 5: it may still commit the partitions that it is revoking.
    commit(stage.group, "A", 2, 2)

    # 6: it has revoked them and gets the new epoch.
    timers_while_revoking = stage.timers()
    response = stage.beat("A", 2, {"T": [0, 1]})
    assert (response.member_epoch, assigned_partitions(response)) == (3, None)
    assert current(stage, "A") == CurrentAssignment(
        member_epoch=3,
        previous_member_epoch=2,
        assigned={T: {0: 2, 1: 2}},
        revocation=Revocation(2),
    )
    assert stage.timers() == timers_while_revoking - 1

    # 7: an earlier commit for a partition that it still owns is accepted.
    commit(stage.group, "A", 2, 0)

    # 8: one for a revoked partition is refused.
    assert refusal(lambda: commit(stage.group, "A", 2, 2)) is ErrorCode.STALE_MEMBER_EPOCH

    # 9: the response was lost, and the member sends the previous epoch again.
    response = stage.beat("A", 2, {"T": [0]})
    assert response.member_epoch == 3

    # 10: the revoked partitions are assigned to the second.
    response = stage.beat("B", 3)
    assert (response.member_epoch, assigned_partitions(response)) == (3, {"T": [2, 3]})
    assert current(stage, "B") == CurrentAssignment(
        member_epoch=3, previous_member_epoch=3, assigned={T: {2: 3, 3: 3}}
    )
    assert stage.group.state_name() == "Stable"
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)

    # 11: the second leaves; the group epoch is raised, the target waits for a heartbeat.
    response = stage.beat("B", -1)
    assert (response.member_id, response.member_epoch) == ("B", -1)
    assert [type(record.key).__name__ for record in stage.written] == [
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMetadataKey",
    ]
    assert (stage.group.epoch, stage.group.target_epoch) == (4, 3)
    assert stage.group.state_name() == "Assigning"

    # 12: the first gets everything back.
    response = stage.beat("A", 3)
    assert (response.member_epoch, assigned_partitions(response)) == (4, {"T": [0, 1, 2, 3]})
    assert current(stage, "A").assigned == {T: {0: 2, 1: 2, 2: 4, 3: 4}}

    # 13: one partition was assigned after the commit's epoch, so the whole commit is refused.
    commit(stage.group, "A", 3, 0)
    assert refusal(lambda: commit(stage.group, "A", 3, 0, 2)) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    stage = Stage()
    stage.join("A")
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)
    stage.join("B")
    stage.beat("A", 2)
    # Heartbeats extend its session, but not its rebalance timeout.
    for _ in range(9):
        stage.advance(REBALANCE_TIMEOUT_MS // 10)
        stage.beat("A", 2)
        assert assigned_partitions(stage.beat("B", 3)) is None
    stage.advance(REBALANCE_TIMEOUT_MS // 10)
    assert list(stage.group.members) == ["B"]
    assert assigned_partitions(stage.beat("B", 3)) == {"T": [0, 1, 2, 3]}


def test_a_member_with_a_new_instance_id_gets_nothing_before_the_next_target() -> None:
    """Kafka looks up the target by instance id, which has none yet."""
    stage = Stage({"T": 2})
    stage.join("A")
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)
    stage.join("B")
    stage.beat("A", 2)
    stage.beat("A", 2, {"T": [0]})
    # The partitions revoked for it are free, but it has another identity now.
    assert assigned_partitions(stage.join("B", instance_id="i")) == {}
    assert assigned_partitions(stage.beat("B", 3, instance_id="i")) is None
    assert current(stage, "B").state is MemberState.STABLE


def test_a_member_that_replaces_a_static_member_has_its_target() -> None:
    """It was a member before and had the same target already."""
    stage = Stage({"T": 2})
    stage.join("A")
    stage.join("S", instance_id="i")
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)
    stage.beat("S", -2, instance_id="i")
    stage.join("B")
    stage.beat("B", -1)
    stage.advance(MORE_THAN_THE_ASSIGNMENT_INTERVAL_MS)
    stage.join("A", instance_id="i")
    assert list(stage.group.members) == ["A"]
    assert stage.group.target == {"A": {T: {0, 1}}}
    assert current(stage, "A").assigned.keys() == {T}
