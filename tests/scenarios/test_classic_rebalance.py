"""Scenarios: classic groups form, rebalance, lose members and continue."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.consumer.consumer_group_records import group_epoch_record
from kafkalite.groups.group import GroupType
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    ManualGroupCoordinator,
    answered,
    subscription,
    waits,
)


def test_a_new_group_is_recorded_empty_and_then_with_its_generation() -> None:
    coordinator = ManualGroupCoordinator()
    join = coordinator.join(session_ms=7_000, rebalance_ms=8_000)
    first = coordinator.last_group_record()
    assert first is not None
    assert (first.protocol_type, first.generation, first.members) == ("", 0, [])
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    assert len(coordinator.log.entries) == 1
    coordinator.clock.advance(5)
    coordinator.sync(member_id, 1, {member_id: b"all"})
    settled = coordinator.last_group_record()
    assert settled is not None
    assert (settled.protocol_type, settled.generation, settled.protocol, settled.leader) == (
        "consumer", 1, "range", member_id,
    )  # fmt: skip
    assert settled.current_state_timestamp == coordinator.clock.now_ms() - 5
    (member,) = settled.members
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (7_000, 8_000)
    assert (member.subscription, member.assignment) == (subscription("t"), b"all")


def test_the_initial_delay_is_extended_while_members_join() -> None:
    coordinator = ManualGroupCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    join = coordinator.join(rebalance_ms=7_000)
    coordinator.clock.advance(2_000)
    second = coordinator.join(rebalance_ms=7_000)
    coordinator.clock.advance(1_000)
    assert waits(join)
    coordinator.clock.advance(2_999)
    assert waits(join)
    coordinator.clock.advance(1)
    assert answered(join).generation_id == answered(second).generation_id == 1


def test_the_initial_delay_is_limited_by_the_rebalance_timeout() -> None:
    coordinator = ManualGroupCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    join = coordinator.join(rebalance_ms=7_000)
    for _ in range(6):
        coordinator.clock.advance(1_000)
        coordinator.join(rebalance_ms=7_000)
    coordinator.clock.advance(999)
    assert waits(join)
    coordinator.clock.advance(1)
    assert len(answered(join).members) == 7


def test_new_dynamic_members_get_a_member_id_first() -> None:
    """KIP-394."""
    coordinator = ManualGroupCoordinator()
    answer = answered(coordinator.join(knows_ids=True))
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")
    assert len(answer.member_id) == len("client-") + 36
    join = coordinator.join(answer.member_id, knows_ids=True)
    coordinator.clock.advance(0)
    assert answered(join).member_id == answer.member_id


def test_an_unused_member_id_is_removed_after_a_session_timeout() -> None:
    coordinator = ManualGroupCoordinator()
    answer = answered(coordinator.join(knows_ids=True))
    coordinator.clock.advance(SESSION_MS)
    late = answered(coordinator.join(answer.member_id, knows_ids=True))
    assert late.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_members_with_new_ids() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    answer = answered(coordinator.join(knows_ids=True))
    rejoin = coordinator.join(leader, protocols={"range": subscription("t", "u")})
    assert waits(rejoin)
    join = coordinator.join(answer.member_id, knows_ids=True)
    assert answered(join).generation_id == answered(rejoin).generation_id == 2


def test_members_that_do_not_rejoin_in_time_are_removed_and_another_leads() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    new_member = coordinator.join()
    for _ in range(REBALANCE_MS // 5_000):
        # Heartbeats extend the session, so the rebalance timeout removes the leader.
        coordinator.clock.advance(5_000)
        coordinator.heartbeat(leader, 1)
    joined = answered(new_member)
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]
    assert coordinator.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_removed_after_its_session() -> None:
    coordinator = ManualGroupCoordinator()
    leader, follower = coordinator.stable(None, None)
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(follower, 1) is ErrorCode.NONE
    coordinator.clock.advance(1)
    assert coordinator.state() == "PreparingRebalance"
    assert answered(coordinator.join(follower)).leader == follower
    assert coordinator.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_set_no_timers() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    armed = len(coordinator.shard._timers._heap)
    for _ in range(100):
        coordinator.clock.advance(50)
        assert coordinator.heartbeat(leader, 1) is ErrorCode.NONE
    assert len(coordinator.shard._timers._heap) == armed
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(1)
    assert coordinator.state() == "Empty"


def test_an_empty_consumer_group_is_replaced_only_by_a_new_member() -> None:
    """An old member id is unknown in both protocols, and the group is unchanged."""
    empty = CoordinatorSerde(written_version).encode(group_epoch_record("g", 3, 0))
    coordinator = ManualGroupCoordinator(log=MemoryCoordinatorLog([empty]))
    refused = answered(coordinator.join("old"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "old")
    assert coordinator.log.entries == [empty]
    group = coordinator.machine.group("g")
    assert group is not None
    assert group.group_type is GroupType.CONSUMER
    coordinator.join()
    assert coordinator.state() == "PreparingRebalance"
    recorded = coordinator.last_group_record()
    assert recorded is not None
    assert recorded.members == []


def test_a_member_that_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    coordinator = ManualGroupCoordinator()
    joins = [coordinator.join(session_ms=REBALANCE_MS * 2) for _ in range(2)]
    coordinator.clock.advance(0)
    leader, silent = [answered(join) for join in joins]
    coordinator.sync(leader.member_id, 1, {})
    coordinator.clock.advance(REBALANCE_MS)
    assert coordinator.state() == "PreparingRebalance"
    assert coordinator.heartbeat(silent.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert answered(coordinator.join(leader.member_id)).generation_id == 2


def test_a_full_group_accepts_no_further_members() -> None:
    coordinator = ManualGroupCoordinator({"group.max.size": "2"})
    joins = [coordinator.join() for _ in range(3)]
    coordinator.clock.advance(0)
    assert answered(joins[2]).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    leader, follower = [answered(join).member_id for join in joins[:2]]
    coordinator.sync(leader, 1, {})
    assert answered(coordinator.join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not waits(coordinator.join(follower))


def test_a_client_that_joins_twice_gets_an_answer_to_its_first_request() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.join()
    first = coordinator.join("", group="other")
    assert waits(first)
    rejoin = coordinator.join(leader)
    assert not waits(rejoin)


def test_a_new_member_may_wait_longer_than_its_session_in_its_first_join() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    new_member = coordinator.join(session_ms=6_000)
    for _ in range(4):
        coordinator.clock.advance(5_000)
        coordinator.heartbeat(leader, 1)
    assert waits(new_member)
    answered(coordinator.join(leader))
    assert answered(new_member).error_code is ErrorCode.NONE


# Static members


def test_a_restarted_static_member_is_replaced_without_a_rebalance() -> None:
    """KIP-345."""
    coordinator = ManualGroupCoordinator()
    leader, follower = coordinator.stable("one", "two")
    gone, instance = follower, "two"
    back = answered(coordinator.join("", instance=instance))
    assert back.error_code is ErrorCode.NONE
    assert back.member_id.startswith("two-")
    assert back.member_id != gone
    assert (back.generation_id, back.leader, back.members) == (1, leader, [])
    assert not back.skip_assignment
    assert coordinator.state() == "Stable"
    synced = answered(coordinator.sync(back.member_id, 1, instance=instance))
    assert synced.assignment == gone.encode()
    recorded = coordinator.last_group_record()
    assert recorded is not None
    assert back.member_id in [member.member_id for member in recorded.members]
    assert coordinator.heartbeat(gone, 1, instance=instance) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(gone, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_static_member_with_other_protocols_triggers_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.stable("one", "two")
    back = coordinator.join(
        "", instance="two", protocols={"sticky": subscription("t"), "range": subscription("t")}
    )
    assert not waits(back)
    alone = ManualGroupCoordinator()
    alone.stable("one")
    back = alone.join("", instance="one", protocols={"sticky": b"", "range": b""})
    assert answered(back).generation_id == 2


def test_two_clients_with_one_instance_id_fence_each_other() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable("one")
    new_member = coordinator.join()
    rejoin = coordinator.join(leader, instance="one")
    assert not waits(rejoin)
    first = coordinator.join(leader, instance="one", protocols={"range": subscription("u")})
    assert waits(first)
    usurper = coordinator.join("", instance="one")
    assert answered(first).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert waits(usurper)
    assert answered(new_member).error_code is ErrorCode.NONE


def test_a_static_member_remains_through_a_missed_rebalance_until_its_session_expires() -> None:
    coordinator = ManualGroupCoordinator()
    leader, follower = coordinator.stable("one", "two")
    coordinator.join(leader, instance="one", protocols={"range": subscription("u")})
    coordinator.clock.advance(SESSION_MS)
    # The session has expired, but not the rebalance timeout.
    assert coordinator.state() == "CompletingRebalance"
    assert coordinator.heartbeat(leader, 2, instance="one") is ErrorCode.NONE
    assert coordinator.heartbeat(follower, 2, instance="two") is ErrorCode.UNKNOWN_MEMBER_ID


# Restarts of the coordinator


def test_a_stable_group_is_stable_after_loading_with_new_sessions() -> None:
    coordinator = ManualGroupCoordinator()
    leader, follower = coordinator.stable(None, "two")
    coordinator.clock.advance(SESSION_MS - 1)
    again = coordinator.restarted()
    assert again.state() == "Stable"
    again.clock.advance(SESSION_MS - 1)
    assert again.heartbeat(leader, 1) is ErrorCode.NONE
    assert again.heartbeat(follower, 1, instance="two") is ErrorCode.NONE
    synced = answered(again.sync(leader, 1))
    assert synced.assignment == leader.encode()
    again.clock.advance(SESSION_MS)
    assert again.state() == "Empty"


def test_a_group_that_is_too_large_rebalances_after_loading() -> None:
    coordinator = ManualGroupCoordinator()
    leader, _, _ = coordinator.stable(None, None, None)
    smaller = ManualGroupCoordinator(
        {"group.max.size": "2"}, MemoryCoordinatorLog(coordinator.log.entries)
    )
    assert smaller.state() == "PreparingRebalance"
    assert smaller.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_join_again_after_a_lost_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.join()
    again = coordinator.restarted()
    assert again.state() == "Stable"
    assert again.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_sync_that_cannot_be_stored_is_refused_to_all_members() -> None:
    coordinator = ManualGroupCoordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.clock.advance(0)
    leader, follower = [answered(join) for join in joins]
    sync = coordinator.sync(follower.member_id, 1)
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError) as refusal:
        coordinator.sync(leader.member_id, 1, {})
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    answer: object = answered(sync)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.NOT_COORDINATOR
    # As in Kafka, all members join again, and the failed generation is not used again.
    coordinator.log.next_error = None
    assert coordinator.state() == "PreparingRebalance"
    assert coordinator.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = coordinator.join(leader.member_id)
    answered(coordinator.join(follower.member_id))
    assert answered(rejoin).generation_id == 2
    answered(coordinator.sync(leader.member_id, 2, {leader.member_id: b"mine"}))
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(SESSION_MS)
    assert coordinator.state() == "Empty"


def test_a_group_whose_first_record_failed_does_not_exist() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError) as refusal:
        coordinator.join()
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    assert coordinator.state() is None
    coordinator.clock.advance(REBALANCE_MS)
    assert len(coordinator.stable(None)) == 1
