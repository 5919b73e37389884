"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in all versions."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from kafkalite.groups.shard import GroupShard
from kafkalite.ports import turns
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.groups import GroupCluster
from tests.cluster.responses import PendingResponse


@pytest.fixture
def wire() -> GroupCluster:
    wire = GroupCluster()
    wire.ask(FindCoordinatorRequest(key="g"), 3)
    return wire


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:  # noqa: ANN401
    defaults: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    }
    return JoinGroupRequest(**(defaults | fields))


def sync_request(member_id: str, **fields: Any) -> SyncGroupRequest:  # noqa: ANN401
    defaults: dict[str, Any] = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
        ],
    }
    return SyncGroupRequest(**(defaults | fields))


def join(wire: GroupCluster, version: int, **fields: Any) -> Any:  # noqa: ANN401
    """Join one member, with a second request if the version requires a known member id."""
    answer = wire.ask(join_request(**fields), version)
    if (
        not isinstance(answer, PendingResponse)
        and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    ):
        answer = wire.ask(join_request(answer.member_id, **fields), version)
    if isinstance(answer, PendingResponse):
        assert not answer.has_arrived
        wire.clock.advance(0)
        answer = answer.response
    return answer


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_missing_protocol_name_is_null_or_empty_by_version(
    wire: GroupCluster, version: int, name: str | None
) -> None:
    refused = wire.ask(join_request("unknown"), version)
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (refused.member_id, refused.generation_id) == ("unknown", -1)
    assert refused.protocol_name == name


def test_members_of_version_0_rejoin_within_their_session_timeout(wire: GroupCluster) -> None:
    first = join(wire, 0)
    wire.ask(sync_request(first.member_id), 0)
    second = wire.ask(join_request(), 0)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id)
    wire.clock.advance(9_999)
    assert wire.ask(beat, 0).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.has_arrived
    wire.clock.advance(1)
    assert second.response.generation_id == 2


def test_before_version_9_a_returning_static_leader_is_not_named_as_leader(
    wire: GroupCluster,
) -> None:
    joined = join(wire, 9, group_instance_id="one")
    wire.ask(sync_request(joined.member_id, group_instance_id="one"), 5)
    back = wire.ask(join_request(group_instance_id="one"), 8)
    assert (back.leader, back.members) == (joined.member_id, [])
    again = wire.ask(join_request(group_instance_id="one"), 9)
    assert (again.leader, again.skip_assignment) == (again.member_id, True)
    assert len(again.members) == 1


def test_no_other_request_is_served_while_many_members_leave(
    wire: GroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All members leave by one decision, although the parser of the long request pauses."""
    join(wire, 3)
    members = [
        LeaveGroupRequest.MemberIdentity(member_id=f"unknown-{number:0100}")
        for number in range(1_000)
    ]
    leave = GroupShard.leave
    pauses: list[int] = []

    def counted(shard: GroupShard, request: LeaveGroupRequest, now_ms: int) -> Any:  # noqa: ANN401
        before = turns.pause_count
        result = leave(shard, request, now_ms)
        pauses.append(turns.pause_count - before)
        return result

    monkeypatch.setattr(GroupShard, "leave", counted)
    answers: list[Any] = []
    worker = Worker()
    worker.task = lambda: answers.append(
        wire.ask(LeaveGroupRequest(group_id="g", members=members), 5)
    )
    count = 1
    while worker.take_turn(-inf) is not None:
        count += 1
    worker.end()
    assert count > 1
    assert pauses == [0]
    assert len(answers[0].members) == len(members)
