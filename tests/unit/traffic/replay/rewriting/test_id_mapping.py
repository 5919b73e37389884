"""Mapping of recorded ids and counters to those of a target."""

from __future__ import annotations

from kafkalite.traffic.replay.rewriting.id_mapping import IdMapping, Scope, Shift, ValueKind

GROUP = Scope(group="g")


def test_recorded_id_maps_to_the_targets_id() -> None:
    mapping = IdMapping()
    assert mapping.translate(ValueKind.MEMBER, GROUP, "a-1") == "a-1"
    assert mapping.match(ValueKind.MEMBER, GROUP, "a-1", "a-2", learn=True)
    assert mapping.translate(ValueKind.MEMBER, GROUP, "a-1") == "a-2"
    assert mapping.match(ValueKind.MEMBER, GROUP, "a-1", "a-2", learn=False)
    assert not mapping.match(ValueKind.MEMBER, GROUP, "a-1", "a-3", learn=False)


def test_missing_id_matches_only_a_missing_id() -> None:
    mapping = IdMapping()
    assert mapping.match(ValueKind.MEMBER, GROUP, "", "", learn=True)
    assert not mapping.match(ValueKind.MEMBER, GROUP, "", "a-1", learn=True)
    assert not mapping.match(ValueKind.SESSION, GROUP, 5, 0, learn=True)
    assert mapping.translate(ValueKind.SESSION, GROUP, 0) == 0


def test_unknown_ids_match_without_being_learned() -> None:
    mapping = IdMapping()
    assert mapping.match(ValueKind.MEMBER, GROUP, "a-1", "b-9", learn=False)
    assert not mapping.knows(ValueKind.MEMBER, "a-1")


def test_counter_is_shifted_by_a_constant_and_an_extra_step_differs() -> None:
    mapping = IdMapping()
    assert mapping.match(ValueKind.GROUP_EPOCH, GROUP, 7, 1, learn=True)
    assert mapping.match(ValueKind.GROUP_EPOCH, GROUP, 8, 2, learn=True)
    assert mapping.translate(ValueKind.GROUP_EPOCH, GROUP, 9) == 3
    assert not mapping.match(ValueKind.GROUP_EPOCH, GROUP, 9, 4, learn=True)
    # Earlier generations keep their mapping, for requests of fenced members.
    assert mapping.translate(ValueKind.GROUP_EPOCH, GROUP, 7) == 1
    assert mapping.translate(ValueKind.GROUP_EPOCH, GROUP, 10) == 5
    assert mapping.translate(ValueKind.GROUP_EPOCH, GROUP, -1) == -1
    assert mapping.translate(ValueKind.GROUP_EPOCH, Scope(group="other"), 7) == 7
    assert mapping.shifts() == [Shift(ValueKind.GROUP_EPOCH, ("g",), -5)]


def test_offset_shift_is_learned_once() -> None:
    mapping = IdMapping()
    scope = Scope(topic="t", partition=0)
    assert mapping.match(ValueKind.OFFSET, scope, 100, 0, learn=True)
    assert not mapping.match(ValueKind.OFFSET, scope, 101, 2, learn=True)
    assert mapping.translate(ValueKind.OFFSET, scope, 102) == 2
    assert mapping.offset_shift(("t", 0)) == -100
    assert mapping.match(ValueKind.OFFSET, scope, 105, 5, learn=False)
    assert not mapping.match(ValueKind.OFFSET, scope, -1, 0, learn=False)


def test_member_ids_of_equal_length_are_translated_in_opaque_bytes() -> None:
    mapping = IdMapping()
    mapping.learn(ValueKind.MEMBER, "worker-1", "worker-2")
    mapping.learn(ValueKind.MEMBER, "short", "longer")
    assert mapping.translate_bytes(b"\x00\x08worker-1 short") == b"\x00\x08worker-2 short"
