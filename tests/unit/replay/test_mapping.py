"""What recorded names and counters mean at a target."""

from __future__ import annotations

from kafkalite.replay.mapping import Kind, Mapping, Scope, Shift

GROUP = Scope(group="g")


def test_a_name_means_what_the_target_made_up_in_its_place() -> None:
    meaning = Mapping()
    assert meaning.translate(Kind.MEMBER, GROUP, "a-1") == "a-1"
    assert meaning.meet(Kind.MEMBER, GROUP, "a-1", "a-2", teaches=True)
    assert meaning.translate(Kind.MEMBER, GROUP, "a-1") == "a-2"
    assert meaning.meet(Kind.MEMBER, GROUP, "a-1", "a-2", teaches=False)
    assert not meaning.meet(Kind.MEMBER, GROUP, "a-1", "a-3", teaches=False)


def test_nobody_stands_for_nobody_alone() -> None:
    meaning = Mapping()
    assert meaning.meet(Kind.MEMBER, GROUP, "", "", teaches=True)
    assert not meaning.meet(Kind.MEMBER, GROUP, "", "a-1", teaches=True)
    assert not meaning.meet(Kind.SESSION, GROUP, 5, 0, teaches=True)
    assert meaning.translate(Kind.SESSION, GROUP, 0) == 0


def test_names_that_nobody_told_are_taken_for_each_other() -> None:
    meaning = Mapping()
    assert meaning.meet(Kind.MEMBER, GROUP, "a-1", "b-9", teaches=False)
    assert not meaning.knows(Kind.MEMBER, "a-1")


def test_a_counter_keeps_its_distance_and_a_step_too_many_is_a_difference() -> None:
    meaning = Mapping()
    assert meaning.meet(Kind.GROUP_EPOCH, GROUP, 7, 1, teaches=True)
    assert meaning.meet(Kind.GROUP_EPOCH, GROUP, 8, 2, teaches=True)
    assert meaning.translate(Kind.GROUP_EPOCH, GROUP, 9) == 3
    assert not meaning.meet(Kind.GROUP_EPOCH, GROUP, 9, 4, teaches=True)
    # A zombie's generation is still the one that it was.
    assert meaning.translate(Kind.GROUP_EPOCH, GROUP, 7) == 1
    assert meaning.translate(Kind.GROUP_EPOCH, GROUP, 10) == 5
    assert meaning.translate(Kind.GROUP_EPOCH, GROUP, -1) == -1
    assert meaning.translate(Kind.GROUP_EPOCH, Scope(group="other"), 7) == 7
    assert meaning.shifts() == [Shift(Kind.GROUP_EPOCH, ("g",), -5)]


def test_where_a_log_begins_is_learnt_once() -> None:
    meaning = Mapping()
    scope = Scope(topic="t", partition=0)
    assert meaning.meet(Kind.OFFSET, scope, 100, 0, teaches=True)
    assert not meaning.meet(Kind.OFFSET, scope, 101, 2, teaches=True)
    assert meaning.translate(Kind.OFFSET, scope, 102) == 2
    assert meaning.offset_shift(("t", 0)) == -100
    assert meaning.meet(Kind.OFFSET, scope, 105, 5, teaches=False)
    assert not meaning.meet(Kind.OFFSET, scope, -1, 0, teaches=False)


def test_members_in_bytes_of_clients_are_translated_where_names_are_as_long() -> None:
    meaning = Mapping()
    meaning.tell(Kind.MEMBER, "worker-1", "worker-2")
    meaning.tell(Kind.MEMBER, "short", "longer")
    assert meaning.opaque(b"\x00\x08worker-1 short") == b"\x00\x08worker-2 short"
