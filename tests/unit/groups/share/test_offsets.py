"""Alteration and deletion of offsets of share groups."""

from __future__ import annotations

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.share.intents import SharePartitionInitialization
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import G, refusal, topic_id
from tests.unit.groups.share.stage import ShareStage, kinds

T, U = topic_id("T"), topic_id("U")


def read_and_left() -> ShareStage:
    """Return an empty group with share state for T."""
    stage = ShareStage({"T": 2, "U": 3})
    stage.join("a")
    stage.carry_out()
    stage.beat("a", -1)
    return stage


def test_offsets_of_an_empty_group_can_be_altered() -> None:
    stage = read_and_left()
    initializations = stage.run(stage.groups.alter_offsets(G, {T: {1: 5}, U: {0: 7}}))
    epoch = stage.group.epoch
    assert initializations == (
        SharePartitionInitialization(T, 1, epoch, 5),
        SharePartitionInitialization(U, 0, epoch, 7),
    )
    assert kinds(stage.written) == ["StatePartitionMetadata"]
    assert stage.group.share_partitions().initializing.keys() == {T, U}
    stage.run(stage.groups.record_initialized_partitions(G, initializations))
    partitions = stage.group.share_partitions()
    assert not partitions.initializing
    assert stage.groups.initialized_partitions(G) == {T: [0, 1], U: [0]}


def test_altering_offsets_of_a_missing_group_creates_it() -> None:
    stage = ShareStage({"T": 1})
    assert stage.run(stage.groups.alter_offsets(G, {})) == ()
    assert G not in stage.directory.groups
    (initialization,) = stage.run(stage.groups.alter_offsets(G, {T: {0: 3}}))
    assert initialization == SharePartitionInitialization(T, 0, 1, 3)
    assert (stage.group.state_name(), stage.group.epoch) == ("Empty", 1)


def test_missing_groups_are_refused() -> None:
    groups = ShareStage().groups
    for action in (
        lambda: groups.begin_deleting_offsets(G, ["T"]),
        lambda: groups.record_deleted_state(G, [T]),
        lambda: groups.begin_deleting_group(G),
    ):
        assert refusal(action) is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.initialized_partitions(G) == {}


def test_offsets_are_deleted_topic_by_topic() -> None:
    stage = read_and_left()
    doomed = stage.run(stage.groups.begin_deleting_offsets(G, ["T", "U", "X"]))
    assert doomed.partitions == {T: [0, 1]}
    assert set(doomed.refused) == {"U", "X"}
    assert {code for code, _ in doomed.refused.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert stage.group.share_partitions().deleting == {T: "T"}
    again = stage.run(stage.groups.begin_deleting_offsets(G, ["T", "T"]))
    assert again.partitions == {T: [0, 1]}
    stage.run(stage.groups.record_deleted_state(G, [T]))
    assert not stage.group.share_partitions().topic_ids()


def test_a_group_without_any_share_state_has_nothing_to_delete() -> None:
    stage = ShareStage({})
    stage.join("a", ["later"])
    stage.beat("a", -1)
    doomed = stage.run(stage.groups.begin_deleting_offsets(G, ["later"]))
    assert doomed == ({}, {})
    assert stage.run(stage.groups.begin_deleting_group(G)) == {}
    assert stage.run(stage.groups.record_deleted_state(G, [T])) is None


def test_a_group_is_deleted_after_its_share_state() -> None:
    stage = read_and_left()
    stage.run(stage.groups.begin_deleting_offsets(G, ["T"]))
    stage.run(stage.groups.alter_offsets(G, {U: {2: 0}}))
    doomed = stage.run(stage.groups.begin_deleting_group(G))
    assert doomed == {T: [0, 1], U: [2]}
    assert stage.group.share_partitions().deleting == {T: "T", U: "U"}
    stage.run(CoordinatorResult(None, stage.group.tombstones()))
    assert kinds(stage.written) == [
        "-TargetAssignmentMetadata", "-StatePartitionMetadata", "-Metadata",
    ]  # fmt: skip
    assert G not in stage.directory.groups


def test_a_join_during_the_deletion_of_offsets_initializes_them_again() -> None:
    stage = read_and_left()
    stage.run(stage.groups.begin_deleting_offsets(G, ["T"]))
    stage.join("a")
    assert not stage.group.share_partitions().deleting
    assert stage.group.share_partitions().initializing.keys() == {T}
