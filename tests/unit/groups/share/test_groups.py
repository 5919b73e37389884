"""Heartbeats of share groups: admission, epochs and responses."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.groups import DeletedShareTopics, ShareSessionExpiry
from kafkalite.groups.share.intents import SharePartitionInitialization
from kafkalite.metadata.image import MetadataDelta
from tests.unit.groups.consumer.stage import G, topic_id
from tests.unit.groups.share.stage import ShareStage, assigned_partitions, kinds

SESSION_TIMEOUT_MS = 45_000
INTERVAL_MS = 1_001


def settled(stage: ShareStage, *members: str) -> None:
    """Join members, and send heartbeats until all have their target assignment."""
    for member in members:
        stage.join(member)
        stage.carry_out()
        stage.advance(INTERVAL_MS)
    for _ in range(2):
        for member in members:
            stage.beat(member, stage.group.current_of(member).member_epoch)
            stage.advance(INTERVAL_MS)


# Joining.


def test_the_first_heartbeat_requests_share_state_and_gets_no_partitions() -> None:
    stage = ShareStage()
    answer = stage.join("a", rack_id="r")
    assert (answer.member_id, answer.member_epoch, assigned_partitions(answer)) == ("a", 2, {})
    assert answer.heartbeat_interval_ms == 1_000
    assert kinds(stage.written) == [
        "MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata",
        "CurrentMemberAssignment", "StatePartitionMetadata",
    ]  # fmt: skip
    (intent,) = stage.pending_intents
    assert intent.group_id == G
    assert intent.partitions == tuple(
        SharePartitionInitialization(topic_id("T"), index, 2) for index in range(4)
    )
    assert stage.group.members["a"].rack_id == "r"


def test_partitions_are_assigned_when_their_share_state_is_initialized() -> None:
    stage = ShareStage()
    stage.join("a")
    assert assigned_partitions(stage.beat("a", 2)) is None
    assert stage.written == []
    stage.carry_out()
    assert kinds(stage.written) == ["StatePartitionMetadata"]
    assert assigned_partitions(stage.beat("a", 2)) is None
    assert kinds(stage.written) == ["Metadata"], "the assignor may not run again so soon"
    stage.advance(INTERVAL_MS)
    answer = stage.beat("a", 2)
    assert (answer.member_epoch, assigned_partitions(answer)) == (3, {"T": [0, 1, 2, 3]})
    assert kinds(stage.written) == [
        "TargetAssignmentMember", "TargetAssignmentMetadata", "CurrentMemberAssignment",
    ]  # fmt: skip


def test_a_repeated_join_is_the_same_member_and_changes_no_assignment() -> None:
    stage = ShareStage()
    settled(stage, "a")
    epoch = stage.group.epoch
    again = stage.join("a")
    assert (again.member_epoch, assigned_partitions(again)) == (epoch, {"T": [0, 1, 2, 3]})
    assert stage.written == []


# Epochs.


def test_members_get_shared_partitions_without_waiting() -> None:
    stage = ShareStage()
    settled(stage, "a")
    answer = stage.join("b")
    assert answer.member_epoch == stage.group.epoch
    response = stage.beat("a", stage.group.epoch - 1)
    assert response.member_epoch == stage.group.epoch
    both = [assigned_partitions(answer), assigned_partitions(response)]
    assert both == [{"T": [0, 1]}, {"T": [2, 3]}]


# Group epochs.


def test_a_changed_subscription_raises_the_group_epoch() -> None:
    stage = ShareStage({"T": 1, "U": 1})
    settled(stage, "a")
    epoch = stage.group.epoch
    answer = stage.beat("a", epoch, ["U"])
    assert (answer.member_epoch, assigned_partitions(answer)) == (epoch + 1, {})
    assert stage.pending_intents[0].partitions == (
        SharePartitionInitialization(topic_id("U"), 0, epoch + 1),
    )
    reasons = stage.events[0].facts["reasons"]
    assert reasons == ["member a subscribes to U"]


def test_a_topic_with_new_partitions_or_deleted_raises_the_group_epoch() -> None:
    stage = ShareStage({"T": 1})
    settled(stage, "a")
    epoch = stage.group.epoch
    stage.change_topics({"T": 2})
    assert stage.beat("a", epoch).member_epoch == epoch + 1
    assert stage.events[0].facts["reasons"] == ["topics changed"]
    stage.carry_out()
    stage.advance(INTERVAL_MS)
    assert assigned_partitions(stage.beat("a", epoch + 1)) == {"T": [0, 1]}
    stage.change_topics({})
    assert kinds(stage.written) == ["StatePartitionMetadata"]
    assert not stage.group.share_partitions().topic_ids()
    stage.advance(INTERVAL_MS)
    assert assigned_partitions(stage.beat("a", epoch + 2)) == {}


def test_a_missing_topic_is_assigned_after_its_creation() -> None:
    stage = ShareStage({})
    stage.join("a", ["later"])
    assert stage.pending_intents == []
    stage.change_topics({"later": 1})
    stage.beat("a", 2)
    assert len(stage.pending_intents) == 1


def test_missing_share_state_is_requested_again_after_the_retry_interval() -> None:
    stage = ShareStage()
    stage.join("a")
    stage.pending_intents.clear()
    stage.advance(29_999)
    stage.beat("a", 2)
    assert stage.pending_intents == []
    stage.advance(1)
    stage.beat("a", 2)
    assert len(stage.pending_intents) == 1


def test_share_state_of_a_deleted_group_changes_nothing() -> None:
    stage = ShareStage()
    stage.join("a")
    (intent,) = stage.pending_intents
    stage.change_topics({})
    assert stage.groups.record_initialized_state(intent, stage.now_ms).records == ()
    stage.beat("a", -1)
    stage.run(CoordinatorResult(None, stage.group.tombstones()))
    assert stage.groups.record_initialized_state(intent, stage.now_ms).records == ()


def test_only_the_uninitialized_partitions_of_an_intent_are_carried_out() -> None:
    stage = ShareStage({"T": 2, "U": 1})
    stage.join("a", ["T", "U"])
    (intent,) = stage.pending_intents
    assert stage.groups.select_uninitialized(intent) == intent
    step = intent._replace(partitions=intent.partitions[:1])
    stage.run(stage.groups.record_initialized_state(step, stage.now_ms))
    assert stage.groups.select_uninitialized(intent).partitions == intent.partitions[1:]
    stage.change_topics({"U": 1})
    assert [each.topic_id for each in stage.groups.select_uninitialized(intent).partitions] == [
        topic_id("U")
    ]
    assert stage.groups.select_uninitialized(intent._replace(group_id="gone")).partitions == ()


def test_the_assignor_waits_for_its_interval() -> None:
    stage = ShareStage()
    settled(stage, "a")
    stage.join("b")
    joined = stage.join("c")
    assert joined.member_epoch == stage.group.target_epoch == stage.group.epoch - 1
    assert assigned_partitions(joined) == {}


# Leaving.


def test_an_empty_group_is_not_deleted() -> None:
    stage = ShareStage()
    settled(stage, "a")
    stage.beat("a", -1)
    assert stage.group.state_name() == "Empty"
    assert stage.group.share_partitions().initialized
    assert stage.timers() == 0


def test_a_member_without_heartbeats_is_removed() -> None:
    stage = ShareStage()
    stage.join("a")
    stage.advance(SESSION_TIMEOUT_MS - 1)
    stage.beat("a", 2)
    stage.advance(SESSION_TIMEOUT_MS - 1)
    assert stage.group.members
    stage.advance(1)
    assert not stage.group.members
    assert [event.kind for event in stage.events] == ["expired", "rebalance"]
    assert stage.events[0].facts["partitions"] == 0


def test_a_timer_of_a_removed_member_has_no_effect() -> None:
    stage = ShareStage()
    stage.join("a")
    assert len(stage.groups.timers) == 2
    expiry = ShareSessionExpiry
    assert stage.groups.timers[expiry](expiry(G, "x"), stage.now_ms).records == ()
    assert stage.groups.timers[expiry](expiry("x", "a"), stage.now_ms).records == ()


# Loading and metadata.


def test_removal_of_deleted_topics_can_be_continued_later() -> None:
    stage = ShareStage()
    settled(stage, "a")
    image = stage.directory.image
    timer = stage.groups.deletion_timer(MetadataDelta(deleted=(image.topics["T"],)), stage.now_ms)
    stage.run(CoordinatorResult(None, timers=[timer]))
    stage.advance(0)
    assert not stage.group.share_partitions().topic_ids()


@pytest.mark.parametrize(
    ("group_id", "topics", "in_turns"),
    [
        ("g{}", {"T": 1}, [500, 100]),
        # A few groups may have large records as well, due to long names or many other topics.
        ("g{}".rjust(30_000, "g"), {"T": 1}, [7, 7, 6]),
        ("g{}", {"T": 1, "U": 6_000}, [2] * 10),
    ],
    ids=["many groups", "long names", "many partitions"],
)
def test_deleted_topics_are_removed_from_groups_in_steps(
    group_id: str, topics: dict[str, int], in_turns: list[int]
) -> None:
    stage = ShareStage(topics)
    for number in range(sum(in_turns)):
        offsets = {topic_id(name): dict.fromkeys(range(topics[name]), 0) for name in topics}
        stage.run(stage.groups.alter_offsets(group_id.format(number), offsets))
    before = len(stage.log)
    stage.change_topics({name: count for name, count in topics.items() if name != "T"})
    turns = [len(stage.written)]
    while len(stage.log) < before + sum(in_turns):
        event = DeletedShareTopics((topic_id("T"),))
        stage.run(stage.groups.remove_deleted_topics(event, stage.now_ms))
        turns.append(len(stage.written))
    assert turns == in_turns
    stage.advance(0)
    for group in stage.directory.groups.values():
        assert isinstance(group, ShareGroup)
        assert topic_id("T") not in group.share_partitions().topic_ids()


@pytest.mark.parametrize(("release", "start_offset"), [("4.3", -1), ("4.4", 0)])
def test_added_partitions_are_read_from_their_first_record(release: str, start_offset: int) -> None:
    stage = ShareStage({"T": 1}, as_version=release)
    epoch = stage.join("A").member_epoch
    assert [each.start_offset for each in stage.pending_intents[0].partitions] == [-1]
    stage.carry_out()
    stage.change_topics({"T": 3})
    stage.beat("A", epoch)
    (intent,) = stage.pending_intents
    assert [(each.partition, each.start_offset) for each in intent.partitions] == [
        (1, start_offset),
        (2, start_offset),
    ]


@pytest.mark.parametrize(("release", "is_reset"), [("4.3", False), ("4.4", True)])
def test_the_target_of_an_empty_group_has_its_epoch(release: str, *, is_reset: bool) -> None:
    stage = ShareStage(as_version=release)
    stage.join("A")
    stage.beat("A", -1)
    assert (stage.group.target_epoch == stage.group.epoch) is is_reset
