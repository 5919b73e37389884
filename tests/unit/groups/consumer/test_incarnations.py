"""Two clients with one member id: the one at the lower epoch is fenced, where that is asked for."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import Stage, given, refusal


@pytest.fixture
def stage() -> Stage:
    return Stage({"T": 2}, {MEMBER_ID_KEY: "uuid"})


def test_by_default_a_second_incarnation_is_the_member_itself() -> None:
    stage = Stage({"T": 2})
    stage.join("A")
    stage.beat("A", 2)
    assert given(stage.join("A")) == {"T": [0, 1]}


def test_a_join_is_fenced_by_a_member_that_has_shown_its_epoch(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    for _ in range(2):
        assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH
    # The other one does not notice.
    assert stage.beat("A", 2).member_epoch == 2


def test_a_join_whose_answer_was_lost_may_be_repeated(stage: Stage) -> None:
    first = stage.join("A")
    again = stage.join("A")
    assert again == first
    assert list(stage.group.members) == ["A"]


def test_who_was_fenced_at_its_epoch_may_join_anew(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.join("A").member_epoch == 2
    # And is the one member with this id from then on.
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_was_fenced_stays_so_when_the_other_shows_its_epoch_meanwhile(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    assert refusal(lambda: stage.beat("A", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_left_may_come_back(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    stage.beat("A", -1)
    stage.join("A")
    assert list(stage.group.members) == ["A"]


def test_a_member_in_the_middle_of_a_rebalance_has_shown_its_epoch_too(stage: Stage) -> None:
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    assert refusal(lambda: stage.join("A")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_static_members_are_told_apart_by_their_instance(stage: Stage) -> None:
    stage.join("A", instance_id="i")
    stage.beat("A", 2, instance_id="i")
    assert refusal(lambda: stage.join("A", instance_id="i")) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_after_a_restart_everybody_may_join_once(stage: Stage) -> None:
    stage.join("A")
    stage.beat("A", 2)
    stage.restart()
    assert stage.join("A").member_epoch == 2
