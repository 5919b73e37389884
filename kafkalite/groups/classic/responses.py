"""JoinGroup and SyncGroup responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol._generated.messages.sync_group import SyncGroupResponse
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.classic.membership import Membership
    from kafkalite.groups.group import MemberId

NO_GENERATION = -1


def join_error_response(code: ErrorCode, member_id: MemberId = "") -> JoinGroupResponse:
    """Return a JoinGroup response with an error."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def join_response(
    soft: Membership,
    member_id: MemberId,
    *,
    with_members: bool,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Return the JoinGroup response of the current generation; only the leader gets the members."""
    members = []
    if with_members:
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(soft.protocol_name),
            )
            for member in soft.members.values()
        ]
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=soft.generation_id,
        protocol_type=soft.protocol_type,
        protocol_name=soft.protocol_name,
        leader=(soft.leader_id or "") if leader is None else leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def sync_error_response(code: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup response with an error."""
    return SyncGroupResponse(
        error_code=code, protocol_type=None, protocol_name=None, assignment=b""
    )


def sync_response(soft: Membership, member: ClassicMember) -> SyncGroupResponse:
    """Return the SyncGroup response with a member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=soft.protocol_type,
        protocol_name=soft.protocol_name,
        assignment=member.assignment,
    )
