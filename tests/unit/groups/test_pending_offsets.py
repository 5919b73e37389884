"""PendingOffsets: valid offsets after transactions end in any order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.pending_offsets import OffsetKey, PendingOffsets

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = OffsetKey("g", "t", 0)
OTHER_KEY = OffsetKey("g", "t", 1)


def offset(number: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(number, commit_timestamp_ms=0)


def producers_of(pending: PendingOffsets, key: OffsetKey = KEY) -> list[int]:
    return list(pending.of_group(key.group_id).get(key.topic, {}).get(key.partition, ()))


def test_committed_offsets_are_valid_and_aborted_ones_are_not() -> None:
    pending = PendingOffsets()
    assert not pending.by_group
    pending.add(1, KEY, offset(5))
    pending.add(1, OTHER_KEY, offset(6))
    pending.add(2, OTHER_KEY, offset(7))
    assert pending.by_group
    assert pending.end_transaction(2, is_commit=False) == []
    assert pending.end_transaction(1, is_commit=True) == [(KEY, offset(5)), (OTHER_KEY, offset(6))]
    assert not pending.by_group
    assert pending.end_transaction(1, is_commit=True) == []


def test_a_later_commit_in_a_transaction_replaces_the_earlier_one() -> None:
    pending = PendingOffsets()
    pending.add(1, KEY, offset(5))
    pending.add(1, KEY, offset(6))
    assert pending.end_transaction(1, is_commit=True) == [(KEY, offset(6))]


def test_a_plain_commit_supersedes_pending_offsets_which_stay_unstable() -> None:
    pending = PendingOffsets()
    pending.add(1, KEY, offset(5))
    pending.supersede(KEY)
    pending.add(2, KEY, offset(7))
    assert producers_of(pending) == [1, 2]
    assert pending.end_transaction(1, is_commit=True) == []
    assert producers_of(pending) == [2]
    assert pending.end_transaction(2, is_commit=True) == [(KEY, offset(7))]


def test_a_commit_after_being_superseded_is_valid() -> None:
    pending = PendingOffsets()
    pending.add(1, KEY, offset(5))
    pending.supersede(KEY)
    pending.add(1, KEY, offset(6))
    assert pending.end_transaction(1, is_commit=True) == [(KEY, offset(6))]


@pytest.mark.parametrize("ends", list(itertools.permutations((1, 2, 3))))
@pytest.mark.parametrize("aborted", [(), (1,), (2,), (3,), (2, 3)])
def test_the_offset_written_last_is_valid_for_any_order_of_ends(
    ends: Sequence[int], aborted: Sequence[int]
) -> None:
    pending = PendingOffsets()
    for producer_id in (1, 2, 3):
        pending.add(producer_id, KEY, offset(producer_id))
    committed = 0
    for producer_id in ends:
        for _, counting in pending.end_transaction(
            producer_id, is_commit=producer_id not in aborted
        ):
            assert counting.offset > committed
            committed = counting.offset
    assert committed == max({1, 2, 3}.difference(aborted))
    assert not pending.by_group


def test_a_deleted_offset_is_not_committed() -> None:
    pending = PendingOffsets()
    pending.add(1, KEY, offset(5))
    pending.add(2, KEY, offset(6))
    pending.add(2, OTHER_KEY, offset(7))
    pending.drop(KEY)
    pending.drop(OffsetKey("h", "t", 0))
    assert [key for key, _ in pending.all()] == [OTHER_KEY]
    assert pending.end_transaction(1, is_commit=True) == []
    assert pending.end_transaction(2, is_commit=True) == [(OTHER_KEY, offset(7))]


def test_groups_are_listed_as_long_as_they_have_pending_offsets() -> None:
    pending = PendingOffsets()
    pending.add(1, KEY, offset(5))
    pending.add(1, OffsetKey("h", "t", 0), offset(5))
    assert list(pending.by_group) == ["g", "h"]
    pending.drop(KEY)
    assert list(pending.by_group) == ["h"]
    assert pending.of_group("g") == {}
