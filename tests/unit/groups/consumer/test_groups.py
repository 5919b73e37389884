"""Heartbeats of consumer groups: admission, epochs and session timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
from kafkalite.groups.consumer.member import MemberState
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import (
    G,
    Stage,
    assigned_partitions,
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


def test_a_full_group_accepts_only_its_own_members() -> None:
    stage = Stage(config={"group.consumer.max.size": "1"}, as_version="4.4")
    stage.join("A", instance_id="i")
    assert refusal(lambda: stage.join("B")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal(lambda: stage.join("")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.beat("A", -2, instance_id="i")
    assert stage.join("C", instance_id="i").member_epoch == 2


def test_a_full_group_of_kafka_4_3_refuses_new_ids_of_its_static_members() -> None:
    stage = Stage(config={"group.consumer.max.size": "1"}, as_version="4.3")
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    assert refusal(lambda: stage.join("C", instance_id="i")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.join("A", instance_id="i").member_epoch == 2


@pytest.mark.parametrize(("release", "epoch"), [("4.3", 2), ("4.4", 3)])
def test_another_preferred_assignor_raises_the_group_epoch(release: str, epoch: int) -> None:
    stage = Stage(as_version=release)
    stage.join("A", assignor="uniform")
    stage.advance(INTERVAL_MS)
    stage.beat("A", 2, assignor="range")
    assert (stage.group.epoch, stage.group.target_epoch) == (epoch, epoch)


def test_an_assignor_that_fewer_members_request_changes_no_assignment() -> None:
    stage = Stage(as_version="4.4")
    members = [stage.join(name, assignor="uniform") for name in ("A", "B", "C")]
    epoch = stage.group.epoch
    stage.beat("C", members[-1].member_epoch, assignor="range")
    assert stage.group.epoch == epoch


@pytest.mark.parametrize(("release", "target_epoch"), [("4.3", 2), ("4.4", 3)])
def test_the_target_of_an_empty_group_has_its_epoch(release: str, target_epoch: int) -> None:
    stage = Stage(as_version=release)
    stage.join("A")
    stage.beat("A", -1)
    assert (stage.group.epoch, stage.group.target_epoch) == (3, target_epoch)
    stage.restart()
    assert stage.group.target_epoch == target_epoch


def test_members_without_topics_are_members() -> None:
    stage = Stage()
    response = stage.join("A", [])
    assert (response.member_epoch, assigned_partitions(response)) == (1, {})
    assert stage.group.state_name() == "Stable"


def test_a_topic_without_subscribers_changes_no_assignment() -> None:
    stage = Stage()
    stage.join("A")
    stage.change_topics({"T": 4, "other": 1})
    assert stage.beat("A", 2).member_epoch == 2
    assert stage.written == []


# Epochs.


def test_the_previous_epoch_is_accepted_from_a_member_within_its_assignment() -> None:
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
    # B is in the group, but not yet in a target: its epoch is that of the last target.
    assert (response.member_epoch, assigned_partitions(response)) == (2, {})
    assert stage.group.state_name() == "Assigning"
    stage.advance(INTERVAL_MS)
    assert (stage.group.epoch, stage.group.target_epoch) == (3, 2)
    assert stage.beat("B", 2).member_epoch == 3


# Subscriptions.


def test_an_unsubscribed_topic_is_revoked_before_a_new_target() -> None:
    stage = Stage({"T": 2, "U": 2})
    stage.join("A", ["T", "U"])
    response = stage.beat("A", 2, topics=["T"])
    assert (response.member_epoch, assigned_partitions(response)) == (2, {"T": [0, 1]})
    assert stage.group.current_of("A").state is MemberState.UNREVOKED_PARTITIONS
    response = stage.beat("A", 2, {"T": [0, 1]})
    assert response.member_epoch == 2
    stage.advance(INTERVAL_MS)
    assert stage.beat("A", 2).member_epoch == 3


def test_changed_metadata_without_subscription_is_stored_without_rebalance() -> None:
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


def test_the_assignor_requested_by_most_members_is_used() -> None:
    stage = Stage({"T": 2, "U": 2}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", ["T", "U"], assignor="range")
    stage.join("B", ["T", "U"])
    both = {topic_id("T"): {0}, topic_id("U"): {0}}
    assert stage.group.target["A"] == both


def test_the_partition_metadata_record_of_earlier_versions_is_deleted() -> None:
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


def test_a_static_member_may_return_with_its_old_id() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    assert assigned_partitions(stage.join("A", instance_id="i")) == {"T": [0, 1, 2, 3]}
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("A", 2, instance_id="i")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    assert "A" in stage.group.members


def test_an_absent_static_member_is_removed_when_its_session_expires() -> None:
    stage = Stage()
    stage.join("A", instance_id="i")
    stage.beat("A", -2, instance_id="i")
    stage.advance(SESSION_TIMEOUT_MS)
    assert stage.group.is_empty()
    assert stage.group.static_members == {}


def test_an_administrator_removes_several_members_with_one_epoch() -> None:
    stage = Stage()
    for member_id, instance_id in (("A", None), ("B", "i"), ("C", None)):
        stage.join(member_id, instance_id=instance_id)
    epoch = stage.group.epoch
    named = [("A", None), ("", "i"), ("C", "other"), ("unknown", None), ("C", "i")]
    request = LeaveGroupRequest(
        group_id=G,
        members=[
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in named
        ],
    )
    response = stage.run(stage.groups.leave_group(stage.group, request, stage.now_ms))
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert list(stage.group.members) == ["C"]
    assert stage.group.epoch == epoch + 1


# Session timeouts.


def test_a_member_without_heartbeats_is_removed_and_then_unknown() -> None:
    stage = Stage()
    stage.join("A")
    stage.join("B")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("B", 2)
    stage.advance(1)
    assert list(stage.group.members) == ["B"]
    assert refusal(lambda: stage.beat("A", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    stage.advance(INTERVAL_MS)
    assert assigned_partitions(stage.beat("B", 3)) == {"T": [0, 1, 2, 3]}


def test_heartbeats_extend_the_deadline_without_a_new_timer() -> None:
    stage = Stage()
    stage.join("A")
    for _ in range(10):
        stage.advance(SESSION_TIMEOUT_MS - 1)
        stage.beat("A", 2)
    assert stage.timers() == 1
    stage.advance(SESSION_TIMEOUT_MS)
    assert stage.group.is_empty()
    assert stage.timers() == 0


def test_after_a_restart_every_member_has_a_new_session() -> None:
    stage = Stage()
    stage.join("A")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.restart()
    stage.advance(SESSION_TIMEOUT_MS - 1)
    assert stage.beat("A", 2).member_epoch == 2


def test_after_a_restart_a_member_still_has_a_rebalance_timeout() -> None:
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


def test_group_settings_apply_at_once() -> None:
    stage = Stage()
    stage.join("A")
    config = stage.directory.config
    config.publish({}, {G: {"consumer.heartbeat.interval.ms": "7000"}})
    stage.groups.on_image(
        MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, G)})), stage.now_ms
    )
    assert stage.beat("A", 2).heartbeat_interval_ms == 7000
