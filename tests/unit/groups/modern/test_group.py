"""ModernGroup: deletion, states and the assignment interval."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import CurrentAssignment, MemberState
from kafkalite.groups.consumer.member import MemberMetadata as ConsumerMember
from kafkalite.groups.modern.group import may_assign_now
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.member import ShareMember
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.member import MemberMetadata as StreamsMember
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

KINDS = [
    (ConsumerGroup("g"), ConsumerMember(), "Consumer"),
    (ShareGroup("g"), ShareMember(), "Share"),
    (StreamsGroup("g"), StreamsMember(), "Streams"),
]


@pytest.mark.parametrize(("group", "member", "kind"), KINDS, ids=[kind for *_, kind in KINDS])
def test_a_group_with_members_is_not_deleted(
    group: ConsumerGroup | ShareGroup | StreamsGroup, member: object, kind: str
) -> None:
    group.validate_delete()
    group.replay_member_metadata("m", member)  # type: ignore[arg-type]
    with pytest.raises(KafkaError, match="not empty") as refused:
        group.validate_delete()
    group.replay_member_metadata("m", None)
    group.validate_delete()
    error = refused.value
    assert error.code is ErrorCode.NON_EMPTY_GROUP
    assert error.facts == {"rule": "empty-group", "members": 1}
    assert error.explanation == f"{kind} group g has 1 members."


def test_the_state_follows_the_epochs() -> None:
    group = ConsumerGroup("g")
    assert group.state_name() == "Empty"
    group.replay_member_metadata("m", ConsumerMember())
    group.replay_epoch(2, 0)
    assert group.state_name() == "Assigning"
    group.replay_target_epoch(2, 1)
    assert group.state_name() == "Reconciling"
    group.replay_current("m", CurrentAssignment(member_epoch=2))
    assert group.state_name() == "Stable"
    waiting = CurrentAssignment(member_epoch=2, state=MemberState.UNRELEASED_PARTITIONS)
    group.replay_current("m", waiting)
    assert group.state_name() == "Reconciling"


@pytest.mark.parametrize(
    ("last_ms", "interval_ms", "now_ms", "may"),
    [
        (0, 1000, 5, True),
        (5000, 0, 10, True),
        (5000, 1000, 5999, False),
        (5000, 1000, 6000, True),
        (5000, 1000, 10, False),
    ],
    ids=["never ran", "no interval", "too soon", "interval over", "clock set back"],
)
def test_the_assignor_waits_for_the_assignment_interval(
    last_ms: int, interval_ms: int, now_ms: int, *, may: bool
) -> None:
    assert may_assign_now(last_ms, interval_ms, now_ms) is may
