"""The reasons for OFFSET_OUT_OF_RANGE are distinguished by epochs."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster_metadata import PartitionMetadata
from kafkalite.client.epochs import OffsetAndEpochs
from kafkalite.client.out_of_range import (
    EpochEnd,
    Reason,
    divergent_offset,
    has_other_partition_epoch,
    is_truncated,
    reason_in_metadata,
)

POSITION = OffsetAndEpochs(20, leader_epoch=5, partition_epoch=3)
USED = PartitionMetadata(1, leader_epoch=5, partition_epoch=3)


@pytest.mark.parametrize(
    ("known", "fetched", "is_other"),
    [(3, 3, False), (3, 4, True), (3, 2, True), (-1, 4, False), (3, -1, False), (-1, -1, False)],
)
def test_an_offset_belongs_to_the_partition_with_its_partition_epoch(
    known: int,
    fetched: int,
    is_other: bool,  # noqa: FBT001 - a column of the table
) -> None:
    position = OffsetAndEpochs(20, 5, known)
    assert has_other_partition_epoch(position, fetched) is is_other


@pytest.mark.parametrize(
    ("newest", "reason"),
    [
        (USED, Reason.UNKNOWN),
        (PartitionMetadata(2, 6, 3), Reason.STALE_LEADER),
        (PartitionMetadata(2, 0, 4), Reason.NEW_PARTITION),
        (None, Reason.STALE_LEADER),
    ],
)
def test_the_newest_metadata_shows_the_reason(
    newest: PartitionMetadata | None, reason: Reason
) -> None:
    assert reason_in_metadata(POSITION, USED, newest) is reason


def test_a_position_without_epochs_is_invalid_only_by_its_log() -> None:
    """Without a partition epoch, a new topic is a reason to ask its leader again."""
    position = OffsetAndEpochs(20)
    assert reason_in_metadata(position, USED, PartitionMetadata(2, 0, 4)) is Reason.STALE_LEADER
    assert reason_in_metadata(position, USED, USED) is Reason.UNKNOWN


@pytest.mark.parametrize(
    ("end", "truncated", "offset"),
    [
        (EpochEnd(5, 19), True, OffsetAndEpochs(19, 5, 3)),
        (EpochEnd(4, 10), True, OffsetAndEpochs(10, 4, 3)),
        (EpochEnd(-1, -1), True, None),  # the log has no such leader epoch
        (EpochEnd(5, 20), False, None),
        (EpochEnd(5, 21), False, None),
    ],
)
def test_a_log_that_ends_before_the_position_in_its_epoch_was_truncated(
    end: EpochEnd,
    truncated: bool,  # noqa: FBT001 - a column of the table
    offset: OffsetAndEpochs | None,
) -> None:
    assert is_truncated(POSITION, end) is truncated
    if truncated:
        assert divergent_offset(POSITION, end) == offset
