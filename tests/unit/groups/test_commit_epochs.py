"""CommitEpochs: the comparison of epochs in a commit with the committed ones, and its events."""

from __future__ import annotations

import pytest

from kafkalite.groups.commit_epochs import CommitEpochs
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID


def committed_at(incarnation_epoch: int, leader_epoch: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(9, 0, leader_epoch=leader_epoch, incarnation_epoch=incarnation_epoch)


def commit_at(incarnation_epoch: int, leader_epoch: int, partition: int = 0) -> OffsetToCommit:
    return OffsetToCommit(
        topic="t",
        topic_id=ZERO_UUID,
        partition=partition,
        offset=1,
        leader_epoch=leader_epoch,
        incarnation_epoch=incarnation_epoch,
    )


@pytest.mark.parametrize(
    ("received", "committed", "expected"),
    [
        ((4, 9), (5, 3), ErrorCode.INVALID_PARTITION_EPOCH),
        ((4, -1), (5, -1), ErrorCode.INVALID_PARTITION_EPOCH),
        ((5, 2), (5, 3), ErrorCode.INVALID_LEADER_EPOCH),
        ((5, 3), (5, 3), ErrorCode.NONE),
        ((5, 4), (5, 3), ErrorCode.NONE),
        ((5, -1), (5, 3), ErrorCode.NONE),
        ((6, 0), (5, 3), ErrorCode.NONE),
        ((5, 2), (-1, 3), ErrorCode.NONE),
        ((0, 0), (-1, -1), ErrorCode.NONE),
    ],
)
def test_epochs_are_compared(
    received: tuple[int, int], committed: tuple[int, int], expected: ErrorCode
) -> None:
    epochs = CommitEpochs({"t": {0: committed_at(*committed)}})
    assert epochs.check(commit_at(*received)) is expected
    assert bool(list(epochs.refused_events("g", "OffsetCommit"))) == bool(expected)


def test_the_first_offset_of_a_partition_is_accepted() -> None:
    epochs = CommitEpochs({"t": {0: committed_at(5, 5)}})
    assert epochs.check(commit_at(1, 0, partition=1)) is ErrorCode.NONE
    assert epochs.check(commit_at(2, 0, partition=1)) is ErrorCode.NONE


def test_a_partition_that_occurs_twice_is_compared_with_its_first_offset() -> None:
    epochs = CommitEpochs({})
    assert epochs.check(commit_at(3, 0)) is ErrorCode.NONE
    assert epochs.check(commit_at(2, 0)) is ErrorCode.INVALID_PARTITION_EPOCH
    assert epochs.check(commit_at(3, 0)) is ErrorCode.NONE


def test_an_event_has_the_reason_and_both_epochs() -> None:
    epochs = CommitEpochs({"t": {0: committed_at(5, 3), 1: committed_at(6, 7)}})
    epochs.check(commit_at(4, 3))
    epochs.check(commit_at(6, 2, partition=1))
    of_partition, of_leader = epochs.refused_events("g", "OffsetCommit")
    assert of_partition.text == (
        "OffsetCommit of t-0 (4 < 5) refused: the partition epoch is smaller than that of the last "
        "committed offset"
    )
    assert of_partition.facts == {
        "api": "OffsetCommit",
        "error": "INVALID_PARTITION_EPOCH",
        "rule": "partition-epoch",
        "partitions": ["t-0"],
        "received_epochs": [4],
        "committed_epochs": [5],
        "count": 1,
    }
    assert of_leader.text == (
        "OffsetCommit of t-1 (2 < 7) refused: the leader epoch is smaller than that of the last "
        "committed offset"
    )
    assert of_leader.facts["rule"] == "leader-epoch"


def test_an_event_names_five_partitions() -> None:
    epochs = CommitEpochs({"t": {index: committed_at(5, 0) for index in range(8)}})
    for index in range(8):
        epochs.check(commit_at(4, 0, partition=index))
    (event,) = epochs.refused_events("g", "TxnOffsetCommit")
    assert "t-4 (4 < 5) and 3 more refused" in event.text
    assert (len(event.facts["partitions"]), event.facts["count"]) == (5, 8)  # type: ignore[arg-type]
