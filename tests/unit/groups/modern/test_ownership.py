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


def current_assignment(
    epoch: int, *partitions: int, pending: tuple[int, ...] = ()
) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=epoch,
        assigned={T: dict.fromkeys(partitions, epoch)} if partitions else {},
        pending_revocation={T: dict.fromkeys(pending, epoch)} if pending else {},
    )


def test_a_partition_that_moves_is_recorded() -> None:
    group_history = OwnershipHistory().of("g")
    group_history.record_step("a", NOTHING, current_assignment(2, 0, 1), 100)
    assert group_history.owner_since_ms(T, 0, "a") == 100
    group_history.record_step(
        "a", current_assignment(2, 0, 1), current_assignment(2, 0, pending=(1,)), 200
    )
    assert group_history.last_loss(T, 1, "a") is None
    group_history.record_step(
        "a", current_assignment(2, 0, pending=(1,)), current_assignment(3, 0), 300
    )
    group_history.record_step("b", NOTHING, current_assignment(3, 1), 400)
    assert group_history.last_loss(T, 1, "a") == LostPartition(3, 300)
    assert group_history.last_loss(T, 0, "a") is None
    assert group_history.owner_since_ms(T, 0, "a") == 100
    assert group_history.owner_since_ms(T, 1, "b") == 400
    assert group_history.owner_since_ms(T, 1, "a") is None


def test_the_reason_of_a_removal_is_recorded() -> None:
    group_history = OwnershipHistory().of("g")
    group_history.record_departure("a", "left", 100)
    group_history.record_departure("a", "session expired", 200)
    assert group_history.departure("a") == PastDeparture("session expired", 200)
    assert group_history.departure("b") is None


def test_the_oldest_entry_is_dropped_first() -> None:
    history = OwnershipHistory()
    group_history = history.of("g")
    partitions = range(MAX_ENTRIES + 1)
    group_history.record_step("a", NOTHING, current_assignment(2, *partitions), 100)
    assert (
        sum(group_history.owner_since_ms(T, each, "a") is not None for each in partitions)
        == MAX_ENTRIES
    )
    group_history.record_step("a", current_assignment(2, *partitions), current_assignment(3), 200)
    assert [group_history.last_loss(T, each, "a") for each in partitions].count(None) == 1
    for number in range(MAX_ENTRIES):
        history.of(f"other{number}").record_departure("a", "left", number)
    group_history.record_departure("a", "left", 300)
    assert history.of("other0").departure("a") is None
    assert group_history.departure("a") == PastDeparture("left", 300)


def test_groups_have_separate_histories() -> None:
    history = OwnershipHistory()
    history.of("g").record_step("a", NOTHING, current_assignment(2, 0), 100)
    history.of("h").record_step("a", NOTHING, current_assignment(2, 0), 200)
    assert (
        history.of("g").owner_since_ms(T, 0, "a"),
        history.of("h").owner_since_ms(T, 0, "a"),
    ) == (
        100,
        200,
    )


def test_long_ids_are_not_recorded() -> None:
    group_history = OwnershipHistory().of("g")
    member_id = "m" * MAX_ID_LENGTH
    group_history.record_step(member_id, NOTHING, current_assignment(2, 0), 100)
    group_history.record_departure(member_id, "left", 200)
    assert group_history.owner_since_ms(T, 0, member_id) is None
    assert group_history.departure(member_id) is None
