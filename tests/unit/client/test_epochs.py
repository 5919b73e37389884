"""Epochs: the order of leader and partition epochs, and their encoding with an offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition

EPOCH = st.integers(-1, 2**31 - 1)


@pytest.mark.parametrize(
    ("epochs", "other", "is_older"),
    [
        (Epochs(9, 1), Epochs(0, 2), True),  # a smaller partition epoch
        (Epochs(0, 2), Epochs(9, 1), False),
        (Epochs(4, 1), Epochs(5, 1), True),  # equal, and a smaller leader epoch
        (Epochs(5, 1), Epochs(5, 1), False),
        (Epochs(6, 1), Epochs(5, 1), False),
        (Epochs(4), Epochs(5), True),  # without partition epochs
        (Epochs(), Epochs(), False),
        (Epochs(4, 1), Epochs(5), False),  # not comparable
        (Epochs(4), Epochs(5, 1), False),
        (Epochs(4, 1), Epochs(), False),
    ],
)
def test_partition_epochs_are_compared_before_leader_epochs(
    epochs: Epochs,
    other: Epochs,
    is_older: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert epochs.is_older_than(other) is is_older


@given(EPOCH, EPOCH, EPOCH, EPOCH)
def test_of_two_epochs_at_most_one_is_older(a: int, b: int, c: int, d: int) -> None:
    first, second = Epochs(a, b), Epochs(c, d)
    assert not (first.is_older_than(second) and second.is_older_than(first))


@given(st.integers(0), EPOCH, EPOCH)
def test_an_offset_epoch_is_decoded_to_the_same_epochs(
    offset: int, leader_epoch: int, partition_epoch: int
) -> None:
    position = OffsetAndEpochs(offset, leader_epoch, partition_epoch)
    assert Epochs.decode(position.offset_epoch) == position.epochs


def test_the_encoding_of_stored_offset_epochs_does_not_change() -> None:
    assert Epochs(5, 258).encode() == b"\0\0\0\0\5\0\0\1\2"
    assert Epochs().encode() == b"\0\xff\xff\xff\xff\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has 9 bytes, not 0"),
        (b"\0\0\0\0\5\0\0\1", "has 9 bytes, not 8"),
        (b"\0\0\0\0\5\0\0\1\2\0", "has 9 bytes, not 10"),
        (b"\1\0\0\0\5\0\0\1\2", "unknown version 1"),
        (b"\0\xff\xff\xff\xfe\0\0\1\2", "negative epoch"),
        (b"\0\0\0\0\5\x80\0\0\0", "negative epoch"),
    ],
)
def test_bytes_that_are_no_offset_epoch_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Epochs.decode(data)


@given(st.binary(max_size=12))
def test_any_bytes_are_decoded_or_rejected(data: bytes) -> None:
    try:
        epochs = Epochs.decode(data)
    except ValueError:
        return
    assert epochs.encode() == data


def test_a_partition_is_printed_as_in_kafka() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
