"""Two clients with one member id: the one with the lower epoch is fenced, if so configured."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import (
    REBALANCE_TIMEOUT_MS,
    Stage,
    refusal,
)


@pytest.fixture
def stage() -> Stage:
    return Stage({"T": 2}, {MEMBER_ID_KEY: "uuid"})


def test_a_client_with_a_fenced_epoch_may_rejoin(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.join("A").member_epoch == 2
    # From then on it is the only client with this member id.
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_client_may_not_rejoin_after_the_other_client_confirmed(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_left_may_rejoin(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    stage.beat("A", -1)
    stage.join("A")
    assert list(stage.group.members) == ["A"]


def test_a_reconciling_member_confirms_its_join_as_well(stage: Stage) -> None:
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_static_members_are_identified_by_instance_id(stage: Stage) -> None:
    stage.join("A", instance_id="i")
    stage.beat("A", 2, instance_id="i")
    assert refusal(lambda: stage.join("A", instance_id="i")) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_confirmed_join_survives_a_restart(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    stage.restart()
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.beat("A", 2).member_epoch == 2


def test_a_fenced_member_may_join_again_after_a_restart(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    stage.restart()
    assert stage.join("A").member_epoch == 2


def confirmations(stage: Stage) -> list[tuple[int, bool]]:
    """Return the epoch and the confirmation in each assignment of the last decision."""
    return [
        (record.value.member_epoch, record.value.is_join_confirmed)
        for record in stage.written
        if isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue)
    ]


def test_a_confirmation_is_written_once(stage: Stage) -> None:
    stage.join("A")
    assert confirmations(stage) == [(2, False)]
    stage.beat("A", 2)
    assert confirmations(stage) == [(2, True)]
    assert len(stage.written) == 1
    stage.beat("A", 2)
    assert stage.written == []


def test_the_record_of_a_step_has_the_confirmation(stage: Stage) -> None:
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    assert confirmations(stage) == [(2, True)]
    stage.beat("A", 2, {"T": [0]})
    assert confirmations(stage) == [(3, True)]


def test_a_fenced_epoch_writes_one_record_and_a_refused_join_none(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH
    stage.written.clear()
    for expected in ([(2, False)], []):
        stage.written.clear()
        assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
        assert confirmations(stage) == expected


def test_a_confirmation_does_not_extend_the_rebalance_timeout(stage: Stage) -> None:
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    for _ in range(10):
        stage.advance(REBALANCE_TIMEOUT_MS // 10)
        if "A" not in stage.group.members:
            return
        stage.beat("A", 2)
        stage.beat("B", 3)
    raise AssertionError("the member that does not revoke is still in the group")


def test_the_default_mode_writes_no_confirmation_and_clears_one() -> None:
    stage = Stage({"T": 2})
    stage.join("A")
    stage.beat("A", 2)
    assert stage.written == []
    stage.set_config(MEMBER_ID_KEY, "uuid")
    stage.beat("A", 2)
    assert confirmations(stage) == [(2, True)]
    stage.set_config(MEMBER_ID_KEY, "kafka")
    stage.join("A")
    assert confirmations(stage) == [(2, False)]
