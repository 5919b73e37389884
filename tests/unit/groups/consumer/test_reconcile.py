"""Reconciliation: single steps, and all steps to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.groups.consumer.member import CurrentAssignment, MemberState
from kafkalite.groups.consumer.reconcile import ReconcileInput, ReportedPartitions, reconcile
from kafkalite.groups.modern.offset_commit_fencing import NEVER_REVOKED, Revocation
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

T, U = b"T" * 16, b"U" * 16
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def reconcile_input(
    epoch: int,
    target: Mapping[bytes, set[int]],
    *,
    reported: ReportedPartitions | None = None,
    topics: set[bytes] | None = None,
    changed: bool = False,
    held: set[tuple[bytes, int]] | None = None,
) -> ReconcileInput:
    return ReconcileInput(
        target_epoch=epoch,
        target={topic: frozenset(partitions) for topic, partitions in target.items()},
        topic_ids={T, U} if topics is None else topics,
        subscription_changed=changed,
        reported=reported,
        is_held_by_another=lambda topic, partition: (topic, partition) in (held or set()),
    )


def at(
    epoch: int,
    state: MemberState = STABLE,
    assigned: Mapping[bytes, dict[int, int]] | None = None,
    pending: Mapping[bytes, dict[int, int]] | None = None,
    *,
    previous: int = 1,
    revoked: Revocation = NEVER_REVOKED,
) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned=assigned or {},
        pending_revocation=pending or {},
        revocation=revoked,
    )


def test_a_stable_member_at_the_target_epoch_does_not_change() -> None:
    current = at(5, assigned={T: {0: 5}})
    assert reconcile(current, reconcile_input(5, {T: {0, 1}})) is current


def test_retained_partitions_have_their_epoch_and_new_ones_the_target_epoch() -> None:
    stepped = reconcile(at(5, assigned={T: {0: 3}}), reconcile_input(6, {T: {0, 1}}))
    assert stepped == at(6, assigned={T: {0: 3, 1: 6}}, previous=5)


def test_revocation_is_first_and_delays_the_epoch() -> None:
    stepped = reconcile(at(5, assigned={T: {0: 3, 1: 4}}), reconcile_input(6, {T: {0}, U: {0}}))
    assert stepped == at(5, UNREVOKED, {T: {0: 3}}, {T: {1: 4}}, previous=5)


def test_a_member_that_owns_nothing_to_revoke_gets_the_target_at_once() -> None:
    stepped = reconcile(
        at(5, assigned={T: {0: 3, 1: 4}}),
        reconcile_input(6, {T: {0}}, reported={T: frozenset({0})}),
    )
    assert stepped == at(6, assigned={T: {0: 3}}, previous=5, revoked=Revocation(5))


def test_a_revocation_ends_only_when_the_member_reports_it() -> None:
    current = at(5, UNREVOKED, {T: {0: 3}}, {T: {1: 4}})
    assert reconcile(current, reconcile_input(6, {T: {0}})) is current
    assert reconcile(current, reconcile_input(6, {T: {0}}, reported={T: frozenset({1})})) is current
    step = reconcile(current, reconcile_input(6, {T: {0}}, reported={T: frozenset({0})}))
    assert step == at(6, assigned={T: {0: 3}}, previous=5, revoked=Revocation(5))


def test_after_a_revocation_the_latest_target_may_revoke_again() -> None:
    current = at(5, UNREVOKED, {T: {0: 3, 2: 3}}, {T: {1: 4}})
    again = reconcile(current, reconcile_input(9, {T: {0}}, reported={T: frozenset({0, 2})}))
    under_way = Revocation(0, is_under_way=True)
    assert again == at(5, UNREVOKED, {T: {0: 3}}, {T: {2: 3}}, previous=5, revoked=under_way)
    step = reconcile(again, reconcile_input(9, {T: {0}}, reported={T: frozenset({0})}))
    assert step == at(9, assigned={T: {0: 3}}, previous=5, revoked=Revocation(5))


def test_revoked_partitions_may_be_assigned_again_with_a_new_epoch() -> None:
    current = at(5, UNREVOKED, {T: {0: 3}}, {T: {1: 4}})
    back = reconcile(current, reconcile_input(7, {T: {0, 1}}, reported={T: frozenset({0})}))
    assert back == at(7, assigned={T: {0: 3, 1: 7}}, previous=5, revoked=Revocation(5))


def test_a_member_waits_for_partitions_of_others_at_the_new_epoch() -> None:
    waiting = reconcile(at(5), reconcile_input(6, {T: {0, 1}}, held={(T, 0)}))
    assert waiting == at(6, UNRELEASED, {T: {1: 6}}, previous=5)
    # The second step changes only the previous epoch, which is now the current one.
    again = reconcile(waiting, reconcile_input(6, {T: {0, 1}}, held={(T, 0)}))
    assert again == at(6, UNRELEASED, {T: {1: 6}}, previous=6)
    assert reconcile(again, reconcile_input(6, {T: {0, 1}}, held={(T, 0)})) is again
    step = reconcile(again, reconcile_input(6, {T: {0, 1}}))
    assert step == at(6, assigned={T: {0: 6, 1: 6}}, previous=6)


def test_targets_of_unsubscribed_topics_are_ignored() -> None:
    stepped = reconcile(
        at(5, assigned={T: {0: 5}}), reconcile_input(6, {T: {0}, U: {0}}, topics={U}, reported={})
    )
    assert stepped == at(6, assigned={U: {0: 6}}, previous=5, revoked=Revocation(5))


@pytest.mark.parametrize("pending", [{}, {T: {1: 4}}])
def test_unsubscribed_topics_are_revoked_at_the_same_epoch(
    pending: dict[bytes, dict[int, int]],
) -> None:
    state = UNREVOKED if pending else STABLE
    current = at(5, state, {T: {0: 3}, U: {0: 4}}, pending)
    shrunk = reconcile(current, reconcile_input(5, {T: {0}, U: {0}}, topics={T}, changed=True))
    assert shrunk == at(5, UNREVOKED, {T: {0: 3}}, {**pending, U: {0: 4}}, previous=5)


def test_unsubscribed_topics_that_are_not_owned_leave_the_state() -> None:
    current = at(5, assigned={T: {0: 3}, U: {0: 4}})
    shrunk = reconcile(
        current,
        reconcile_input(5, {T: {0}}, topics={T}, changed=True, reported={T: frozenset({0})}),
    )
    under_way = Revocation(0, is_under_way=True)
    assert shrunk == at(5, assigned={T: {0: 3}}, previous=5, revoked=under_way)
    # The epoch is raised without another revocation: the earlier one counts at the previous epoch.
    moved = reconcile(shrunk, reconcile_input(6, {T: {0}}, topics={T}))
    assert moved == at(6, assigned={T: {0: 3}}, previous=5, revoked=Revocation(5))


def test_no_unsubscribed_topics_change_nothing() -> None:
    current = at(5, assigned={T: {0: 3}})
    assert reconcile(current, reconcile_input(5, {T: {0}}, changed=True)) is current


def test_an_unknown_state_ends_only_for_a_member_without_partitions() -> None:
    current = at(5, MemberState.UNKNOWN, {T: {0: 3}})
    with pytest.raises(KafkaError) as refused:
        reconcile(current, reconcile_input(6, {T: {0}}))
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert MemberState(42) is MemberState.UNKNOWN
    stepped = reconcile(current, reconcile_input(6, {T: {1}}, reported={}))
    assert stepped == at(6, assigned={T: {1: 6}}, previous=5, revoked=Revocation(5))


def test_a_new_epoch_without_revocation_retains_the_revocation_epoch() -> None:
    current = at(5, assigned={T: {0: 3}}, revoked=Revocation(2))
    assert reconcile(current, reconcile_input(6, {T: {0, 1}})).revocation == Revocation(2)


partitions_of = st.fixed_dictionaries({}, optional={t: st.sets(st.integers(0, 3)) for t in (T, U)})


@settings(max_examples=examples(200))
@given(st.lists(st.lists(partitions_of, min_size=3, max_size=3), min_size=1, max_size=6), st.data())
def test_reconciled_members_reach_any_target_and_never_share_a_partition(
    targets: list[list[dict[bytes, set[int]]]], data: st.DataObject
) -> None:
    """Three members reconcile in any order while the targets change."""
    members = {name: at(0, previous=-1) for name in "abc"}
    owned: dict[str, dict[bytes, frozenset[int]]] = {name: {} for name in "abc"}

    def beat(name: str, epoch: int, target: dict[bytes, set[int]]) -> None:
        held = {
            (topic, p)
            for other, current in members.items()
            if other != name
            for owned_there in (current.assigned, current.pending_revocation)
            for topic, epochs in owned_there.items()
            for p in epochs
        }
        before = members[name]
        after = reconcile(before, reconcile_input(epoch, target, reported=owned[name], held=held))
        members[name] = after
        owned[name] = {topic: frozenset(epochs) for topic, epochs in after.assigned.items()}
        assert before.member_epoch <= after.member_epoch <= epoch
        assert all(
            e <= max(after.member_epoch, 0) for x in after.assigned.values() for e in x.values()
        )
        mine = {(t, p) for t, epochs in after.assigned.items() for p in epochs}
        assert mine.isdisjoint(held)

    def disjoint(row: list[dict[bytes, set[int]]]) -> dict[str, dict[bytes, set[int]]]:
        taken: set[tuple[bytes, int]] = set()
        result: dict[str, dict[bytes, set[int]]] = {}
        for name, target in zip("abc", row, strict=True):
            result[name] = {t: {p for p in ps if (t, p) not in taken} for t, ps in target.items()}
            taken |= {(t, p) for t, ps in result[name].items() for p in ps}
        return result

    epoch = 0
    target: dict[str, dict[bytes, set[int]]] = {}
    for epoch, row in enumerate(targets, start=1):
        target = disjoint(row)
        for name in data.draw(st.lists(st.sampled_from("abc"), max_size=6)):
            beat(name, epoch, target[name])
    for _ in range(4):
        for name in "abc":
            beat(name, epoch, target[name])
    for name in "abc":
        assert members[name].is_reconciled_to(epoch)
        assert {t: set(e) for t, e in members[name].assigned.items()} == {
            t: ps for t, ps in target[name].items() if ps
        }
