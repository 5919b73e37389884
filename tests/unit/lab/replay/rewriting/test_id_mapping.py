"""Mapping of recorded ids and counters to those of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.replay.rewriting import id_mapping
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, Shift, ValueKind

if TYPE_CHECKING:
    import pytest

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


def test_an_older_epoch_stays_older_if_the_target_increased_it_earlier() -> None:
    """The target bumps the epoch of the member one heartbeat before the recorded broker."""
    for kind, scope in (
        (ValueKind.GROUP_EPOCH, Scope(group="g", member="m")),
        (ValueKind.PRODUCER_EPOCH, Scope(producer=7)),
        (ValueKind.LEADER_EPOCH, Scope(topic="t", partition=0)),
    ):
        mapping = IdMapping()
        for recorded, target in ((1, 1), (1, 2)):
            mapping.match(kind, scope, recorded, target, learn=True)
        assert mapping.translate(kind, scope, 1) == 2
        # The recorded broker had increased it, but its response is not in the capture yet.
        assert mapping.translate(kind, scope, 1, is_outdated=True) == 1
        mapping.match(kind, scope, 2, 2, learn=True)
        assert mapping.translate(kind, scope, 1) == 1
        assert mapping.translate(kind, scope, 2) == 2
        assert mapping.match(kind, scope, 1, 2, learn=False)


def test_an_older_epoch_is_the_one_before_the_latest_if_the_target_increased_it_later() -> None:
    mapping = IdMapping()
    scope = Scope(group="g", member="m")
    for recorded, target in ((1, 1), (2, 1), (2, 2), (3, 3)):
        mapping.match(ValueKind.GROUP_EPOCH, scope, recorded, target, learn=True)
    assert mapping.translate(ValueKind.GROUP_EPOCH, scope, 2) == 2


def test_an_epoch_that_was_refused_as_old_is_old_if_the_target_has_not_increased_it() -> None:
    mapping = IdMapping()
    scope = Scope(group="g", member="m")
    for recorded, target in ((5, 4), (6, 4)):
        mapping.match(ValueKind.GROUP_EPOCH, scope, recorded, target, learn=True)
    assert mapping.translate(ValueKind.GROUP_EPOCH, scope, 5, is_outdated=True) == 3
    assert mapping.translate(ValueKind.GROUP_EPOCH, scope, 5) == 4
    mapping.match(ValueKind.GROUP_EPOCH, Scope(group="new"), 2, 1, learn=True)
    # Lower values than 1 have special meanings.
    assert mapping.translate(ValueKind.GROUP_EPOCH, Scope(group="new"), 2, is_outdated=True) == 1


def test_epochs_of_members_are_independent() -> None:
    mapping = IdMapping()
    first, second = Scope(group="g", member="a"), Scope(group="g", member="b")
    mapping.match(ValueKind.GROUP_EPOCH, first, 1, 1, learn=True)
    mapping.match(ValueKind.GROUP_EPOCH, second, 1, 2, learn=True)
    assert mapping.translate(ValueKind.GROUP_EPOCH, first, 1) == 1
    assert mapping.translate(ValueKind.GROUP_EPOCH, second, 1) == 2
    # A member without a response yet has the epochs of its group.
    assert mapping.translate(ValueKind.GROUP_EPOCH, Scope(group="g", member="c"), 1) == 2


def test_the_oldest_epochs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_mapping, "MAX_EPOCHS", 2)
    mapping = IdMapping()
    for recorded in (1, 2, 3):
        mapping.match(ValueKind.PRODUCER_EPOCH, Scope(producer=7), recorded, 0, learn=True)
    assert mapping.translate(ValueKind.PRODUCER_EPOCH, Scope(producer=7), 1) == 1 - 3
    assert mapping.translate(ValueKind.PRODUCER_EPOCH, Scope(producer=7), 2) == 0
