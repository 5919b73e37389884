"""The three rules for offset commits at earlier member epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.keys import broker_keys, dynamic_broker_keys
from kafkalite.groups.modern.offset_commit_fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    NEVER_REVOKED,
    REVOCATION_EPOCH,
    RULES,
    STRICT,
    CommitterState,
    FencedCommit,
    Revocation,
    fence_commit,
    revocation_of,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = b"T" * 16
HELD = {0: 3, 1: 5, 2: 7}
"""Partition → its assignment epoch, for a member at epoch 7."""


def committer(
    member_epoch: int = 7,
    revocation: Revocation = NEVER_REVOKED,
    held: Mapping[int, int] | None = None,
) -> CommitterState:
    since = HELD if held is None else held
    return CommitterState(member_epoch, revocation, lambda _, __, partition: since.get(partition))


def is_taken(rule: str, epoch: int, partition: int, where: CommitterState) -> bool:
    fenced: list[FencedCommit] = []

    def refuse(reason: FencedCommit) -> KafkaError:
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


def test_every_value_of_the_setting_has_a_rule_and_it_is_dynamic() -> None:
    key = broker_keys()[FENCING_KEY]
    for rule in RULES:
        assert key.parse(rule) == rule
    assert key.default == ASSIGNMENT_EPOCH
    assert FENCING_KEY in dynamic_broker_keys()


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_accepts_a_greater_epoch(rule: str) -> None:
    assert not is_taken(rule, 8, 0, committer())


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_accepts_the_member_epoch_for_any_partition(rule: str) -> None:
    for partition in (0, 2, 9):
        assert is_taken(rule, 7, partition, committer(revocation=Revocation(6)))


# (situation, epoch of the commit, partition, last revocation) → the rules that accept it
CASES = {
    "retained, nothing revoked since": (5, 0, 0, {REVOCATION_EPOCH, ASSIGNMENT_EPOCH}),
    "retained, another one revoked at that epoch": (5, 0, 5, {ASSIGNMENT_EPOCH}),
    "retained, another one revoked before": (5, 0, 4, {REVOCATION_EPOCH, ASSIGNMENT_EPOCH}),
    "revoked since": (5, 9, 5, set[str]()),
    "assigned to the member after that epoch": (5, 2, 0, {REVOCATION_EPOCH}),
    "never the member's": (5, 9, 0, {REVOCATION_EPOCH}),
    "no epoch at all": (-1, 0, 0, set[str]()),
    "epoch zero": (0, 0, 0, set[str]()),
}


@pytest.mark.parametrize(("epoch", "partition", "revoked", "takers"), CASES.values(), ids=CASES)
def test_commits_at_earlier_epochs_by_rule(
    epoch: int, partition: int, revoked: int, takers: set[str]
) -> None:
    where = committer(revocation=Revocation(revoked))
    assert {rule for rule in RULES if is_taken(rule, epoch, partition, where)} == takers


@pytest.mark.parametrize("rule", RULES)
def test_at_its_own_epoch_a_member_may_commit_revoked_partitions(rule: str) -> None:
    where = committer(revocation=Revocation(4, is_under_way=True))
    assert is_taken(rule, 7, 0, where)
    assert is_taken(rule, 7, 9, where)
    assert is_taken(rule, 6, 0, where) is (rule == ASSIGNMENT_EPOCH)


def test_the_reason_names_the_partition_only_if_the_partition_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        fence_commit(STRICT, 6, committer(), lambda why: KafkaError(ErrorCode.NONE, str(why[3:])))
    assert refused.value.message == "(None, None)"
    check = fence_commit(
        ASSIGNMENT_EPOCH, 6, committer(), lambda why: KafkaError(ErrorCode.NONE, str(why[3:]))
    )
    assert check is not None
    with pytest.raises(KafkaError) as refused:
        check("t", T, 2)
    assert refused.value.message == str((("t", T, 2), 7))


def test_a_step_with_a_revocation_sets_the_revocation_epoch() -> None:
    """Initially 0; the previous member epoch on a revocation; unchanged without one."""
    assert Revocation(0) == NEVER_REVOKED
    assert NEVER_REVOKED.after_step(5, 6, revoked=False) == NEVER_REVOKED
    revoked = NEVER_REVOKED.after_step(5, 6, revoked=True)
    assert revoked == Revocation(5)
    assert revoked.after_step(6, 9, revoked=False) == Revocation(5)
    assert revoked.after_step(6, 9, revoked=True) == Revocation(6)


def test_a_revocation_at_the_same_epoch_counts_at_the_next_epoch() -> None:
    under_way = Revocation(2).after_step(5, 5, revoked=True)
    assert under_way == Revocation(2, is_under_way=True)
    assert under_way.after_step(5, 5, revoked=False) == under_way
    assert under_way.after_step(5, 8, revoked=False) == Revocation(5)


@pytest.mark.parametrize("revoked", [False, True])
def test_a_static_member_returns_after_the_epoch_at_which_it_left(*, revoked: bool) -> None:
    after_leave = Revocation(2).after_temporary_leave(5, revoked=revoked)
    # Nothing changed during its absence: its successor is at the same epoch 5.
    assert after_leave.after_step(0, 5, revoked=False) == Revocation(4, is_under_way=revoked)
    # The epoch was raised: earlier and current revocations count.
    assert after_leave.after_step(0, 7, revoked=False) == Revocation(5 if revoked else 4)
    assert after_leave.after_step(0, 7, revoked=True) == Revocation(5)


def test_a_first_step_revokes_nothing() -> None:
    assert NEVER_REVOKED.after_step(0, 1, revoked=False) == NEVER_REVOKED
    assert NEVER_REVOKED.after_step(0, 9, revoked=False) == NEVER_REVOKED


def test_members_without_revocations_share_one_value() -> None:
    assert revocation_of(0, is_under_way=False) is NEVER_REVOKED
    assert revocation_of(3, is_under_way=False) == Revocation(3)
    assert revocation_of(0, is_under_way=True) == Revocation(0, is_under_way=True)
