"""Removal of members, together or one by one, and its history."""

from __future__ import annotations

from functools import partial

import pytest

from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol.errors import KafkaError
from tests.unit.groups.consumer.stage import START_MS, G, Stage


def remove(stage: Stage, *member_ids: str) -> None:
    request = LeaveGroupRequest(
        group_id=G,
        members=[
            LeaveGroupRequest.MemberIdentity(member_id=each, reason="closing" * (each == "B"))
            for each in member_ids
        ],
    )
    stage.run(stage.groups.leave_group(stage.group, request, stage.now_ms))


def test_members_that_leave_together_raise_the_epoch_once() -> None:
    stage = Stage()
    for member_id in "ABC":
        stage.join(member_id)
    stage.events.clear()
    remove(stage, "A", "B")
    assert (list(stage.group.members), stage.group.epoch) == (["C"], 5)
    assert [(event.kind, event.text) for event in stage.events] == [
        ("left", "member A removed: a LeaveGroup removed it"),
        ("left", "member B removed: a LeaveGroup removed it (closing)"),
        ("rebalance", "group epoch 4 → 5: member A was removed, member B was removed"),
    ]


def test_an_expression_is_removed_with_its_last_subscriber() -> None:
    stage = Stage({"T": 1})
    stage.join("A", [], regex="T")
    stage.join("B", [], regex="T")
    stage.advance(0)
    stage.beat("A", -1)
    assert list(stage.group.resolved_regexes) == ["T"]
    stage.beat("B", -1)
    assert not stage.group.resolved_regexes


def test_a_removed_member_gets_the_reason_and_time_of_its_removal() -> None:
    stage = Stage()
    stage.join("A")
    stage.join("B")
    stage.advance(1_500)
    stage.beat("A", -1)
    with pytest.raises(KafkaError) as refused:
        stage.beat("A", 2)
    assert refused.value.message == "Member A is not a member of group group."
    assert refused.value.explanation == (
        "Member A is not a member of group group: it left at 22:13:21.500."
    )
    assert refused.value.facts == {
        "rule": "known-member",
        "member_id": "A",
        "group_epoch": 4,
        "removal_reason": "it left",
        "removed_at_ms": START_MS + 1_500,
    }
    with pytest.raises(KafkaError, match="Member C is not a member of group group"):
        partial(stage.beat, "C", 2)()
