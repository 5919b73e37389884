"""OwnershipHistory: past owners of partitions, and its limits."""

from __future__ import annotations

from kafkalite.groups.consumer.member import CurrentAssignment
from kafkalite.groups.modern.ownership import (
    MAX_ENTRIES,
    MAX_ID_LENGTH,
    LostPartition,
    OwnershipHistory,
    PastDeparture,
)

T = b"T" * 16
NOTHING = CurrentAssignment()


def holding(epoch: int, *partitions: int, pending: tuple[int, ...] = ()) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=epoch,
        assigned={T: dict.fromkeys(partitions, epoch)} if partitions else {},
        pending_revocation={T: dict.fromkeys(pending, epoch)} if pending else {},
    )


def test_a_partition_that_moves_is_recorded() -> None:
    noted = OwnershipHistory().of("g")
    noted.record_step("a", NOTHING, holding(2, 0, 1), 100)
    assert noted.owner_since_ms(T, 0, "a") == 100
    noted.record_step("a", holding(2, 0, 1), holding(2, 0, pending=(1,)), 200)
    assert noted.last_loss(T, 1, "a") is None
    noted.record_step("a", holding(2, 0, pending=(1,)), holding(3, 0), 300)
    noted.record_step("b", NOTHING, holding(3, 1), 400)
    assert noted.last_loss(T, 1, "a") == LostPartition(3, 300)
    assert noted.last_loss(T, 0, "a") is None
    assert noted.owner_since_ms(T, 0, "a") == 100
    assert noted.owner_since_ms(T, 1, "b") == 400
    assert noted.owner_since_ms(T, 1, "a") is None


def test_the_reason_of_a_removal_is_recorded() -> None:
    noted = OwnershipHistory().of("g")
    noted.record_departure("a", "left", 100)
    noted.record_departure("a", "session expired", 200)
    assert noted.departure("a") == PastDeparture("session expired", 200)
    assert noted.departure("b") is None


def test_the_oldest_entry_is_dropped_first() -> None:
    book = OwnershipHistory()
    noted = book.of("g")
    partitions = range(MAX_ENTRIES + 1)
    noted.record_step("a", NOTHING, holding(2, *partitions), 100)
    assert sum(noted.owner_since_ms(T, each, "a") is not None for each in partitions) == MAX_ENTRIES
    noted.record_step("a", holding(2, *partitions), holding(3), 200)
    assert [noted.last_loss(T, each, "a") for each in partitions].count(None) == 1
    for number in range(MAX_ENTRIES):
        book.of(f"other{number}").record_departure("a", "left", number)
    noted.record_departure("a", "left", 300)
    assert book.of("other0").departure("a") is None
    assert noted.departure("a") == PastDeparture("left", 300)


def test_groups_have_separate_histories() -> None:
    book = OwnershipHistory()
    book.of("g").record_step("a", NOTHING, holding(2, 0), 100)
    book.of("h").record_step("a", NOTHING, holding(2, 0), 200)
    assert (book.of("g").owner_since_ms(T, 0, "a"), book.of("h").owner_since_ms(T, 0, "a")) == (
        100,
        200,
    )


def test_long_ids_are_not_recorded() -> None:
    noted = OwnershipHistory().of("g")
    member_id = "m" * MAX_ID_LENGTH
    noted.record_step(member_id, NOTHING, holding(2, 0), 100)
    noted.record_departure(member_id, "left", 200)
    assert noted.owner_since_ms(T, 0, member_id) is None
    assert noted.departure(member_id) is None
