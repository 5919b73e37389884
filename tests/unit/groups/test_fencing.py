"""The three rules by which commits of members that have moved on are taken or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.keys import broker_keys, dynamic_broker_keys
from kafkalite.groups.fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    NEVER_REVOKED,
    REVOCATION_EPOCH,
    RULES,
    STRICT,
    Fenced,
    Revocation,
    Standing,
    fence_commit,
    revocation_of,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = b"T" * 16
HELD = {0: 3, 1: 5, 2: 7}
"""Partition → the epoch since which a member at epoch 7 has it."""


def standing(
    member_epoch: int = 7,
    revocation: Revocation = NEVER_REVOKED,
    held: Mapping[int, int] | None = None,
) -> Standing:
    since = HELD if held is None else held
    return Standing(member_epoch, revocation, lambda _, __, partition: since.get(partition))


def is_taken(rule: str, epoch: int, partition: int, where: Standing) -> bool:
    fenced: list[Fenced] = []

    def refuse(reason: Fenced) -> KafkaError:
        fenced.append(reason)
        return KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    try:
        check = fence_commit(rule, epoch, where, refuse)
        if check is not None:
            check("t", T, partition)
    except KafkaError:
        assert fenced[0][:3] == (rule, epoch, where)
        assert fenced[0].partition in (None, ("t", T, partition))
        return False
    return True


def test_there_is_a_rule_for_each_value_the_setting_takes_and_it_can_be_changed() -> None:
    key = broker_keys()[FENCING_KEY]
    for rule in RULES:
        assert key.parse(rule) == rule
    assert key.default == ASSIGNMENT_EPOCH
    assert FENCING_KEY in dynamic_broker_keys()


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_lets_anybody_commit_ahead(rule: str) -> None:
    assert not is_taken(rule, 8, 0, standing())


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_takes_the_members_own_epoch_whatever_is_committed(rule: str) -> None:
    for partition in (0, 2, 9):
        assert is_taken(rule, 7, partition, standing(revocation=Revocation(6)))


# (situation, epoch of the commit, partition, last revocation) → who takes it
CASES = {
    "retained, nothing given up since": (5, 0, 0, {REVOCATION_EPOCH, ASSIGNMENT_EPOCH}),
    "retained, another one given up on leaving that epoch": (5, 0, 5, {ASSIGNMENT_EPOCH}),
    "retained, another one given up before": (5, 0, 4, {REVOCATION_EPOCH, ASSIGNMENT_EPOCH}),
    "given up since": (5, 9, 5, set[str]()),
    "given to the member after that epoch": (5, 2, 0, {REVOCATION_EPOCH}),
    "never the member's": (5, 9, 0, {REVOCATION_EPOCH}),
    "no epoch at all": (-1, 0, 0, set[str]()),
    "epoch zero": (0, 0, 0, set[str]()),
}


@pytest.mark.parametrize(("epoch", "partition", "revoked", "takers"), CASES.values(), ids=CASES)
def test_which_rules_take_a_commit_at_an_epoch_of_the_past(
    epoch: int, partition: int, revoked: int, takers: set[str]
) -> None:
    where = standing(revocation=Revocation(revoked))
    assert {rule for rule in RULES if is_taken(rule, epoch, partition, where)} == takers


@pytest.mark.parametrize("rule", RULES)
def test_at_its_own_epoch_a_member_may_commit_even_what_it_gave_up(rule: str) -> None:
    where = standing(revocation=Revocation(4, is_under_way=True))
    assert is_taken(rule, 7, 0, where)
    assert is_taken(rule, 7, 9, where)
    assert is_taken(rule, 6, 0, where) is (rule == ASSIGNMENT_EPOCH)


def test_the_reason_names_the_partition_only_where_the_partition_is_the_reason() -> None:
    with pytest.raises(KafkaError) as refused:
        fence_commit(STRICT, 6, standing(), lambda why: KafkaError(ErrorCode.NONE, str(why[3:])))
    assert refused.value.message == "(None, None)"
    check = fence_commit(
        ASSIGNMENT_EPOCH, 6, standing(), lambda why: KafkaError(ErrorCode.NONE, str(why[3:]))
    )
    assert check is not None
    with pytest.raises(KafkaError) as refused:
        check("t", T, 2)
    assert refused.value.message == str((("t", T, 2), 7))


def test_a_step_with_a_revocation_leaves_its_epoch_behind_for_good() -> None:
    """Initially 0; the previous member epoch on a revocation; unchanged without one."""
    assert Revocation(0) == NEVER_REVOKED
    assert NEVER_REVOKED.moved(5, 6, gave_up=False) == NEVER_REVOKED
    revoked = NEVER_REVOKED.moved(5, 6, gave_up=True)
    assert revoked == Revocation(5)
    assert revoked.moved(6, 9, gave_up=False) == Revocation(5)
    assert revoked.moved(6, 9, gave_up=True) == Revocation(6)


def test_what_is_given_up_without_moving_counts_when_the_member_moves() -> None:
    under_way = Revocation(2).moved(5, 5, gave_up=True)
    assert under_way == Revocation(2, is_under_way=True)
    assert under_way.moved(5, 5, gave_up=False) == under_way
    assert under_way.moved(5, 8, gave_up=False) == Revocation(5)


@pytest.mark.parametrize("gave_up", [False, True])
def test_a_static_member_comes_back_after_the_epoch_it_went_at(*, gave_up: bool) -> None:
    away = Revocation(2).left_for_a_while(5, gave_up=gave_up)
    # Nothing moved while it was away: its successor is where it was, at epoch 5.
    assert away.moved(0, 5, gave_up=False) == Revocation(4, is_under_way=gave_up)
    # The group moved: whatever was given up at its going counts, as does what is lost now.
    assert away.moved(0, 7, gave_up=False) == Revocation(5 if gave_up else 4)
    assert away.moved(0, 7, gave_up=True) == Revocation(5)


def test_a_first_step_gives_up_nothing() -> None:
    assert NEVER_REVOKED.moved(0, 1, gave_up=False) == NEVER_REVOKED
    assert NEVER_REVOKED.moved(0, 9, gave_up=False) == NEVER_REVOKED


def test_members_that_never_gave_anything_up_share_one_value() -> None:
    assert revocation_of(0, is_under_way=False) is NEVER_REVOKED
    assert revocation_of(3, is_under_way=False) == Revocation(3)
    assert revocation_of(0, is_under_way=True) == Revocation(0, is_under_way=True)
