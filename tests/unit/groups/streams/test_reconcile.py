"""Reconciliation: single steps of a member to its target tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.modern.offset_commit_fencing import NEVER_REVOKED, Revocation
from kafkalite.groups.streams.member import CurrentTasks, MemberState
from kafkalite.groups.streams.reconcile import ReconcileInput, reconcile
from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, NO_TASKS, OwnedTasks, Tasks
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_TASKS
UNRELEASED = MemberState.UNRELEASED_TASKS


class Owners:
    """Processes by their tasks of subtopology 0."""

    def __init__(
        self,
        active: Mapping[int, str] | None = None,
        standby: Mapping[int, set[str]] | None = None,
        warmup: Mapping[int, set[str]] | None = None,
    ) -> None:
        self._active, self._standby, self._warmup = active or {}, standby or {}, warmup or {}

    def active_process(self, subtopology: str, partition: int) -> str | None:
        assert subtopology == "0"
        return self._active.get(partition)

    def standby_processes(self, subtopology: str, partition: int) -> set[str]:
        assert subtopology == "0"
        return self._standby.get(partition, set())

    def warmup_processes(self, subtopology: str, partition: int) -> set[str]:
        assert subtopology == "0"
        return self._warmup.get(partition, set())


NO_OWNER = Owners()


def reconcile_input(
    epoch: int, target: Tasks, reported: Tasks | None = None, owners: Owners = NO_OWNER
) -> ReconcileInput:
    return ReconcileInput(
        target_epoch=epoch, target=target, process_id="p", reported=reported, owners=owners
    )


def active(*partitions: int) -> Tasks:
    return Tasks(active={"0": frozenset(partitions)})


def held(epochs: Mapping[int, int]) -> OwnedTasks:
    return OwnedTasks(active={"0": dict(epochs)}) if epochs else NO_OWNED_TASKS


def at(
    epoch: int,
    assigned: OwnedTasks = NO_OWNED_TASKS,
    state: MemberState = STABLE,
    pending: OwnedTasks = NO_OWNED_TASKS,
    *,
    previous: int = 0,
    revoked: Revocation = NEVER_REVOKED,
) -> CurrentTasks:
    return CurrentTasks(
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
        revocation=revoked,
    )


def test_a_member_at_its_target_does_not_change() -> None:
    current = at(4, held({0: 2}))
    assert reconcile(current, reconcile_input(4, active(0))) is current


def test_free_tasks_are_assigned_at_the_target_epoch() -> None:
    current_tasks = reconcile(at(0), reconcile_input(4, active(0, 1)))
    assert current_tasks == at(4, held({0: 4, 1: 4}))


def test_retained_tasks_have_their_assignment_epoch() -> None:
    current_tasks = reconcile(at(3, held({0: 2})), reconcile_input(4, active(0, 1)))
    assert current_tasks == at(4, held({0: 2, 1: 4}), previous=3)


def test_tasks_that_are_not_in_the_target_are_revoked_first() -> None:
    current_tasks = reconcile(at(3, held({0: 2, 1: 3})), reconcile_input(4, active(0, 5)))
    assert current_tasks == at(3, held({0: 2}), UNREVOKED, held({1: 3}), previous=3)
    assert reconcile(current_tasks, reconcile_input(4, active(0, 5))) is current_tasks
    assert reconcile(current_tasks, reconcile_input(4, active(0, 5), active(0, 1))) is current_tasks
    step = reconcile(current_tasks, reconcile_input(4, active(0, 5), active(0)))
    assert step == at(4, held({0: 2, 5: 4}), previous=3, revoked=Revocation(3))


def test_a_member_without_the_revoked_tasks_gets_the_target_at_once() -> None:
    current_tasks = reconcile(at(3, held({0: 2, 1: 3})), reconcile_input(4, active(0), active(0)))
    assert current_tasks == at(4, held({0: 2}), previous=3, revoked=Revocation(3))


def test_a_second_revocation_is_at_the_next_epoch() -> None:
    current = at(3, held({0: 2, 1: 2}), UNREVOKED, held({2: 2}), previous=3)
    current_tasks = reconcile(current, reconcile_input(6, active(0), active(0, 1)))
    assert current_tasks == at(
        4, held({0: 2}), UNREVOKED, held({1: 2}), previous=3, revoked=Revocation(3)
    )
    step = reconcile(current_tasks, reconcile_input(6, active(0), active(0)))
    assert step == at(6, held({0: 2}), previous=4, revoked=Revocation(4))


def test_a_member_waits_for_tasks_of_others() -> None:
    owners = Owners({1: "q", 2: "p"}, {3: {"p"}}, {4: {"p"}, 5: {"q"}})
    current_tasks = reconcile(at(3), reconcile_input(4, active(0, 1, 2, 3, 4, 5), owners=owners))
    assert current_tasks == at(4, held({0: 4, 5: 4}), UNRELEASED, previous=3)
    again = reconcile(current_tasks, reconcile_input(4, active(0, 1, 5), owners=owners))
    assert again == at(4, held({0: 4, 5: 4}), UNRELEASED, previous=4)
    assert reconcile(again, reconcile_input(4, active(0, 1, 5), owners=owners)) is again
    freed = reconcile(again, reconcile_input(4, active(0, 1, 5)))
    assert freed == at(4, held({0: 4, 1: 4, 5: 4}), previous=4)


def test_copies_are_assigned_if_the_process_has_none() -> None:
    target = Tasks(standby={"0": {0, 1, 2}}, warmup={"0": {3, 4}})
    owners = Owners({0: "q", 1: "p"}, {2: {"q"}, 3: {"p"}}, {4: {"q"}})
    current_tasks = reconcile(at(3), reconcile_input(4, target, owners=owners))
    assert current_tasks.state is UNRELEASED
    assert current_tasks.assigned == OwnedTasks(standby={"0": {0, 2}}, warmup={"0": {4}})


def test_copies_are_revoked_like_active_tasks() -> None:
    current = at(3, OwnedTasks(standby={"0": {0, 1}}, warmup={"0": {2}}))
    current_tasks = reconcile(current, reconcile_input(4, Tasks(standby={"0": {1}})))
    assert current_tasks.state is UNREVOKED
    assert current_tasks.assigned == OwnedTasks(standby={"0": {1}})
    assert current_tasks.pending_revocation == OwnedTasks(standby={"0": {0}}, warmup={"0": {2}})
    step = reconcile(
        current_tasks, reconcile_input(4, Tasks(standby={"0": {1}}), Tasks(standby={"0": {1}}))
    )
    # No offset was ever committed for a copy, so no commit needs to be fenced for it.
    assert (step.state, step.revocation) == (STABLE, NEVER_REVOKED)


def test_an_unknown_state_ends_only_for_a_member_without_tasks() -> None:
    current = at(3, held({0: 2}), MemberState(42))
    for reported in (None, active(0)):
        with pytest.raises(KafkaError) as refusal:
            reconcile(current, reconcile_input(4, active(0), reported))
        assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(current, reconcile_input(4, active(0), NO_TASKS)).state is STABLE
