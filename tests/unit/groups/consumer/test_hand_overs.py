"""What is remembered of who had which partition, and for how long it is."""

from __future__ import annotations

from kafkalite.groups.consumer.hand_overs import (
    LONGEST_NAME,
    MAX_NOTES,
    HandOverBook,
    Lost,
    Went,
)
from kafkalite.groups.consumer.member import CurrentAssignment

T = b"T" * 16
NOTHING = CurrentAssignment()


def holding(epoch: int, *partitions: int, pending: tuple[int, ...] = ()) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=epoch,
        assigned={T: dict.fromkeys(partitions, epoch)} if partitions else {},
        pending_revocation={T: dict.fromkeys(pending, epoch)} if pending else {},
    )


def test_a_partition_changes_hands() -> None:
    noted = HandOverBook().of("g")
    noted.note("a", NOTHING, holding(2, 0, 1), 100)
    assert noted.since_ms(T, 0, "a") == 100
    noted.note("a", holding(2, 0, 1), holding(2, 0, pending=(1,)), 200)
    assert noted.lost(T, 1, "a") is None
    noted.note("a", holding(2, 0, pending=(1,)), holding(3, 0), 300)
    noted.note("b", NOTHING, holding(3, 1), 400)
    assert noted.lost(T, 1, "a") == Lost(3, 300)
    assert noted.lost(T, 0, "a") is None
    assert noted.since_ms(T, 0, "a") == 100
    assert noted.since_ms(T, 1, "b") == 400
    assert noted.since_ms(T, 1, "a") is None


def test_how_a_member_went_is_remembered() -> None:
    noted = HandOverBook().of("g")
    noted.note_departure("a", "left", 100)
    noted.note_departure("a", "session expired", 200)
    assert noted.departed("a") == Went("session expired", 200)
    assert noted.departed("b") is None


def test_the_oldest_is_forgotten_first() -> None:
    book = HandOverBook()
    noted = book.of("g")
    partitions = range(MAX_NOTES + 1)
    noted.note("a", NOTHING, holding(2, *partitions), 100)
    assert sum(noted.since_ms(T, each, "a") is not None for each in partitions) == MAX_NOTES
    noted.note("a", holding(2, *partitions), holding(3), 200)
    assert [noted.lost(T, each, "a") for each in partitions].count(None) == 1
    for number in range(MAX_NOTES):
        book.of(f"other{number}").note_departure("a", "left", number)
    noted.note_departure("a", "left", 300)
    assert book.of("other0").departed("a") is None
    assert noted.departed("a") == Went("left", 300)


def test_groups_are_kept_apart() -> None:
    book = HandOverBook()
    book.of("g").note("a", NOTHING, holding(2, 0), 100)
    book.of("h").note("a", NOTHING, holding(2, 0), 200)
    assert (book.of("g").since_ms(T, 0, "a"), book.of("h").since_ms(T, 0, "a")) == (100, 200)


def test_nothing_is_kept_of_names_beyond_bounds() -> None:
    noted = HandOverBook().of("g")
    member_id = "m" * LONGEST_NAME
    noted.note(member_id, NOTHING, holding(2, 0), 100)
    noted.note_departure(member_id, "left", 200)
    assert noted.since_ms(T, 0, member_id) is None
    assert noted.departed(member_id) is None
