"""Heartbeats: who is let in, what moves a group, what an answer tells, and what silence means."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
from kafkalite.groups.consumer.member import MemberState
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.unit.groups.consumer.stage import (
    CLIENT,
    REBALANCE_TIMEOUT_MS,
    G,
    Stage,
    given,
    refusal,
    topic_id,
)

if TYPE_CHECKING:
    from kafkalite.groups.group import Record

SESSION_TIMEOUT_MS = 45_000
INTERVAL_MS = 1_001


def kinds(stage: Stage) -> list[str]:
    return [
        type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        for record in stage.written
    ]


# Joining.


def test_a_member_without_an_id_is_given_one_of_22_characters() -> None:
    stage = Stage()
    response = stage.join("")
    assert response.member_id is not None
    assert len(response.member_id) == 22
    assert response.member_id in stage.group.members


def test_joining_again_is_the_same_member_and_moves_nobody() -> None:
    stage = Stage()
    first = stage.join("A")
    again = stage.join("A")
    assert again == first
    assert stage.written == []


def test_only_a_join_founds_a_group() -> None:
    stage = Stage()
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(lambda: stage.beat("A", -1)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group_lets_only_its_own_members_in() -> None:
    stage = Stage(config={"group.consumer.max.size": "1"})
    stage.join("A", instance_id="i")
    assert refusal(lambda: stage.join("B")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal(lambda: stage.join("")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.beat("A", -2, instance_id="i")
    assert stage.join("C", instance_id="i").member_epoch == 2


def test_members_that_subscribe_to_nothing_are_members_all_the_same() -> None:
    stage = Stage()
    response = stage.join("A", [])
    assert (response.member_epoch, given(response)) == (1, {})
    assert stage.group.state_name() == "Stable"


def test_a_topic_that_does_not_exist_yet_is_given_once_it_does() -> None:
    stage = Stage({})
    assert given(stage.join("A", ["later"])) == {}
    stage.advance(INTERVAL_MS)
    assert given(stage.beat("A", 2)) is None
    stage.change_topics({"later": 2})
    assert given(stage.beat("A", 2)) == {"later": [0, 1]}
    stage.advance(INTERVAL_MS)
    stage.change_topics({"later": 3})
    assert given(stage.beat("A", 3)) == {"later": [0, 1, 2]}
    stage.advance(INTERVAL_MS)
    stage.change_topics({})
    assert given(stage.beat("A", 4)) == {}


def test_a_topic_nobody_subscribes_to_moves_nobody() -> None:
    stage = Stage()
    stage.join("A")
    stage.change_topics({"T": 4, "other": 1})
    assert stage.beat("A", 2).member_epoch == 2
    assert stage.written == []


# Epochs.


def test_an_epoch_the_member_cannot_have_is_fenced() -> None:
    stage = Stage()
    stage.join("A")
    assert refusal(lambda: stage.beat("A", 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(lambda: stage.beat("B", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_epoch_before_is_taken_from_a_member_that_owns_no_more_than_it_may() -> None:
    stage = Stage()
    stage.join("A")
    stage.advance(INTERVAL_MS)
    stage.beat("A", 2, topics=["T", "U"])
    assert stage.group.current_of("A").member_epoch == 3
    assert stage.beat("A", 2, {"T": [0]}).member_epoch == 3
    assert stage.beat("A", 2, {}).member_epoch == 3
    assert refusal(lambda: stage.beat("A", 2)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(lambda: stage.beat("A", 2, {"T": [9]})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(lambda: stage.beat("A", 2, {"U": [0]})) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_second_rebalance_waits_for_the_interval_and_for_a_heartbeat() -> None:
    stage = Stage()
    stage.join("A")
    response = stage.join("B")
    # B is in the group, but not yet in any target: it stands where the last target left off.
    assert (response.member_epoch, given(response)) == (2, {})
    assert stage.group.state_name() == "Assigning"
    stage.advance(INTERVAL_MS)
    assert (stage.group.epoch, stage.group.target_epoch) == (3, 2)
    assert stage.beat("B", 2).member_epoch == 3


def test_an_interval_of_zero_lets_every_rebalance_happen_at_once() -> None:
    stage = Stage(config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A")
    assert stage.join("B").member_epoch == 3


# Answers.


def test_a_steady_heartbeat_writes_nothing_and_tells_nothing() -> None:
    stage = Stage()
    stage.join("A")
    stage.beat("A", 2)
    request = ConsumerGroupHeartbeatRequest(group_id=G, member_id="A", member_epoch=2)
    result = stage.groups.heartbeat(request, CLIENT, stage.now_ms)
    assert (list(result.records), list(result.timers)) == ([], [])
    response = stage.run(result)
    assert response.assignment is None
    assert response.heartbeat_interval_ms > 0


def test_a_full_request_is_told_its_assignment_whatever_happened() -> None:
    stage = Stage()
    stage.join("A")
    full = ConsumerGroupHeartbeatRequest(
        group_id=G,
        member_id="A",
        member_epoch=2,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=["T"],
        topic_partitions=[],
    )
    assert given(stage.send(full)) == {"T": [0, 1, 2, 3]}
    full.rebalance_timeout_ms = -1
    assert given(stage.send(full)) is None


def test_answers_to_a_leave_tell_no_interval() -> None:
    stage = Stage()
    stage.join("A")
    assert stage.beat("A", -1).heartbeat_interval_ms == 0


# Subscriptions.


def test_leaving_a_topic_out_takes_it_away_before_any_new_target() -> None:
    stage = Stage({"T": 2, "U": 2})
    stage.join("A", ["T", "U"])
    response = stage.beat("A", 2, topics=["T"])
    assert (response.member_epoch, given(response)) == (2, {"T": [0, 1]})
    assert stage.group.current_of("A").state is MemberState.UNREVOKED_PARTITIONS
    response = stage.beat("A", 2, {"T": [0, 1]})
    assert response.member_epoch == 2
    stage.advance(INTERVAL_MS)
    assert stage.beat("A", 2).member_epoch == 3


def test_new_words_that_are_no_subscription_are_kept_and_move_nobody() -> None:
    stage = Stage()
    stage.join("A")
    stage.send(
        ConsumerGroupHeartbeatRequest(
            group_id=G, member_id="A", member_epoch=2, rebalance_timeout_ms=7, rack_id="r"
        )
    )
    assert kinds(stage) == ["MemberMetadata"]
    assert stage.group.members["A"].rack_id == "r"
    assert stage.group.members["A"].rebalance_timeout_ms == 7


def test_the_assignor_most_members_ask_for_is_used() -> None:
    stage = Stage({"T": 2, "U": 2}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", ["T", "U"], assignor="range")
    stage.join("B", ["T", "U"])
    both = {topic_id("T"): {0}, topic_id("U"): {0}}
    assert stage.group.target["A"] == both


def test_the_record_that_older_coordinators_kept_is_dropped_at_the_next_occasion() -> None:
    stage = Stage()
    stage.join("A")
    old: Record = CoordinatorRecord(
        ConsumerGroupPartitionMetadataKey(group_id=G), ConsumerGroupPartitionMetadataValue()
    )
    stage.run(CoordinatorResult(response=None, records=[old]))
    stage.beat("A", 2, topics=["T", "U"])
    assert "PartitionMetadata" in kinds(stage)
    assert not stage.group.has_partition_metadata


# Static members.


def test_an_instance_id_in_use_is_not_given_away_not_even_to_its_own_member() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    for member_id in ("A", "B"):
        assert (
            refusal(partial(stage.join, member_id, instance_id="i"))
            is ErrorCode.UNRELEASED_INSTANCE_ID
        )


def test_a_static_member_that_comes_back_gets_its_partitions_and_moves_nobody() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.advance(INTERVAL_MS)
    response = stage.beat("A", -2, instance_id="i")
    assert (response.member_id, response.member_epoch) == ("A", -2)
    assert kinds(stage) == ["CurrentMemberAssignment"]
    away = stage.group.current_of("A")
    assert away.member_epoch == -2
    assert away.assigned == {topic_id("T"): dict.fromkeys(range(4), 0)}

    response = stage.join("B", instance_id="i")
    assert (response.member_epoch, given(response)) == (2, {"T": [0, 1, 2, 3]})
    assert stage.group.epoch == 2
    assert list(stage.group.members) == ["B"]
    assert stage.group.static_members == {"i": "B"}
    assert kinds(stage) == [
        "CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata",
        "MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment",
        "CurrentMemberAssignment",
    ]  # fmt: skip


def test_a_static_member_may_come_back_under_its_old_id() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    assert given(stage.join("A", instance_id="i")) == {"T": [0, 1, 2, 3]}
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("A", 2, instance_id="i")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    assert "A" in stage.group.members


def test_a_static_member_that_stays_away_is_removed_when_its_session_ends() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    stage.advance(SESSION_TIMEOUT_MS)
    assert stage.group.is_empty()
    assert stage.group.static_members == {}


def test_a_forerunner_is_told_that_it_is_fenced() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    assert refusal(lambda: stage.beat("A", 2, instance_id="i")) is ErrorCode.FENCED_MEMBER_EPOCH
    stage.join("B", instance_id="i")
    assert refusal(lambda: stage.beat("A", 2, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(lambda: stage.beat("A", -1, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(lambda: stage.beat("A", -2, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(lambda: stage.beat("A", 2, instance_id="j")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(lambda: stage.beat("A", -1, instance_id="j")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_leave_for_good() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    assert stage.beat("A", -1, instance_id="i").member_epoch == -1
    assert stage.group.is_empty()


def test_an_administrator_removes_members_of_a_consumer_group_in_one_move() -> None:
    stage = Stage()
    for member_id, instance_id in (("A", None), ("B", "i"), ("C", None)):
        stage.join(member_id, instance_id=instance_id)
    epoch = stage.group.epoch
    named = [("A", None), ("", "i"), ("C", "other"), ("nobody", None), ("C", "i")]
    request = LeaveGroupRequest(
        group_id=G,
        members=[
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in named
        ],
    )
    response = stage.run(stage.groups.leave_classically(stage.group, request, stage.now_ms))
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert list(stage.group.members) == ["C"]
    assert stage.group.epoch == epoch + 1


# Silence.


def test_a_silent_member_is_removed_and_learns_it_when_it_speaks_again() -> None:
    stage = Stage()
    stage.join("A")
    stage.join("B")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("B", 2)
    stage.advance(1)
    assert list(stage.group.members) == ["B"]
    assert refusal(lambda: stage.beat("A", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    stage.advance(INTERVAL_MS)
    assert given(stage.beat("B", 3)) == {"T": [0, 1, 2, 3]}


def test_heartbeats_move_the_deadline_without_a_new_timer() -> None:
    stage = Stage()
    stage.join("A")
    for _ in range(10):
        stage.advance(SESSION_TIMEOUT_MS - 1)
        stage.beat("A", 2)
    assert stage.timers() == 1
    stage.advance(SESSION_TIMEOUT_MS)
    assert stage.group.is_empty()
    assert stage.timers() == 0


def test_after_a_restart_every_member_has_a_session_to_speak_up_in() -> None:
    stage = Stage()
    stage.join("A")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.restart()
    stage.advance(SESSION_TIMEOUT_MS - 1)
    assert stage.beat("A", 2).member_epoch == 2


def test_after_a_restart_a_member_still_has_to_let_go_in_time() -> None:
    stage = Stage(config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A")
    stage.join("B")
    stage.beat("A", 2)
    stage.restart()
    assert stage.timers() == 3
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("A", 2, {"T": [0, 1]})
    assert stage.timers() == 2


# Settings.


def test_a_groups_own_settings_count_as_soon_as_they_are_made() -> None:
    stage = Stage()
    stage.join("A")
    config = stage.directory.config
    config.publish({}, {G: {"consumer.heartbeat.interval.ms": "7000"}})
    stage.groups.on_image(
        MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, G)})), stage.now_ms
    )
    assert stage.beat("A", 2).heartbeat_interval_ms == 7000
