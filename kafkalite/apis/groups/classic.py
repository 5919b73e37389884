"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the classic group protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api, Eras
from kafkalite.gateway.overdue_calls import after_overdue_calls
from kafkalite.groups.classic.member import Caller
from kafkalite.groups.classic.responses import join_error_response
from kafkalite.ports.turns import without_pauses
from kafkalite.ports.waiting import when
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol._generated.messages.join_group import (
        JoinGroupRequest,
        JoinGroupResponse,
    )
    from kafkalite.protocol._generated.messages.sync_group import (
        SyncGroupRequest,
        SyncGroupResponse,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupEra:
    """Traits of a range of JoinGroup versions."""

    has_rebalance_timeout: bool = True
    """Without this field the session timeout is the rebalance timeout (KIP-62)."""
    requires_known_member_id: bool = True
    """A new dynamic member must rejoin with the member id that it is given (KIP-394)."""
    has_nullable_protocol_name: bool = True
    supports_skipping_assignment: bool = True
    """A returning static leader can skip the assignment (KIP-814)."""


JOIN_GROUP_ERAS = Eras(
    (
        0,
        JoinGroupEra(
            has_rebalance_timeout=False,
            requires_known_member_id=False,
            has_nullable_protocol_name=False,
            supports_skipping_assignment=False,
        ),
    ),
    (
        1,
        JoinGroupEra(
            requires_known_member_id=False,
            has_nullable_protocol_name=False,
            supports_skipping_assignment=False,
        ),
    ),
    (4, JoinGroupEra(has_nullable_protocol_name=False, supports_skipping_assignment=False)),
    (7, JoinGroupEra(supports_skipping_assignment=False)),
    (9, JoinGroupEra()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupEra:
    """Traits of a range of SyncGroup versions."""

    requires_protocol_name: bool


SYNC_GROUP_ERAS = Eras(
    (0, SyncGroupEra(requires_protocol_name=False)),
    (5, SyncGroupEra(requires_protocol_name=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupEra:
    """Traits of a range of LeaveGroup versions."""

    has_member_list: bool


LEAVE_GROUP_ERAS = Eras(
    (0, LeaveGroupEra(has_member_list=False)),
    (3, LeaveGroupEra(has_member_list=True)),
)


# JoinGroup


def handle_join_group(
    call: Call, request: JoinGroupRequest
) -> JoinGroupResponse | Waiting[JoinGroupResponse]:
    """Handle a JoinGroup; the response is sent when the next generation starts."""
    _require_group_id(request.group_id)
    _check_session_timeout(request, call.node.config)
    if request.member_id:
        return _join(call, request)
    # The sessions of members decide whether there is room for another member.
    return after_overdue_calls(call, request, _join)


def _join(call: Call, request: JoinGroupRequest) -> JoinGroupResponse | Waiting[JoinGroupResponse]:
    node = call.node
    era: JoinGroupEra = call.era
    permissions = call.permissions
    caller = Caller(
        client_id=call.client_id or "",
        client_host=call.client_host,
        requires_known_member_id=era.requires_known_member_id,
        supports_skipping_assignment=era.supports_skipping_assignment,
        may_describe=None if permissions is None else permissions.may_describe_topic,
    )
    shard = node.groups.locate(request.group_id, node.id)
    return shard.write(lambda machine, now_ms: machine.join(request, caller, now_ms))


def _check_session_timeout(request: JoinGroupRequest, config: BrokerConfig) -> None:
    session_timeout_ms = request.session_timeout_ms
    min_ms = config.int("group.min.session.timeout.ms")
    max_ms = config.int("group.max.session.timeout.ms")
    if not min_ms <= session_timeout_ms <= max_ms:
        raise KafkaError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"join of {request.member_id or 'a new member'} refused: its session timeout of "
            f"{session_timeout_ms} ms is not between {min_ms} and {max_ms}",
            {
                "rule": "session-timeout",
                "session_timeout_ms": session_timeout_ms,
                "group.min.session.timeout.ms": min_ms,
                "group.max.session.timeout.ms": max_ms,
            },
        )


def refuse_join_group(
    request: JoinGroupRequest, code: ErrorCode, message: str | None
) -> JoinGroupResponse:
    """Return an error of JoinGroup, which has no field for a message."""
    del message
    return join_error_response(code, request.member_id)


def lift_join_group(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    """Set the rebalance timeout, which v0 does not have, to the session timeout."""
    if not JOIN_GROUP_ERAS.at(version).has_rebalance_timeout:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def lower_join_group(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Replace a null protocol name by "" in versions where it is not nullable."""
    if (
        response.protocol_name is None
        and not JOIN_GROUP_ERAS.at(version).has_nullable_protocol_name
    ):
        response.protocol_name = ""
    return response


# SyncGroup


def check_protocol(call: Call, request: SyncGroupRequest) -> None:
    """Raise the KafkaError of a SyncGroup without a protocol, if the version requires one."""
    era: SyncGroupEra = call.era
    if era.requires_protocol_name and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def handle_sync_group(
    call: Call, request: SyncGroupRequest
) -> SyncGroupResponse | Waiting[SyncGroupResponse]:
    """Handle a SyncGroup; the response is sent when the leader's assignment is known."""
    check_protocol(call, request)
    _require_group_id(request.group_id)
    node = call.node
    shard = node.groups.locate(request.group_id, node.id)
    return shard.write(lambda machine, now_ms: machine.sync(request, now_ms))


# Heartbeat

_NONE = ErrorCode.NONE
_SUCCESS = HeartbeatResponse(error_code=_NONE)
"""The response to most heartbeats, created once."""


def handle_heartbeat(
    call: Call, request: HeartbeatRequest
) -> HeartbeatResponse | Waiting[HeartbeatResponse]:
    """Extend the member's session; the error code shows a rebalance in progress."""
    node = call.node
    group_id = request.group_id
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard = node.groups.locate(group_id, node.id)
    code = shard.machine.classic.steady_heartbeat(request, node.clock.now_ms())
    if code is _NONE:
        return _SUCCESS
    if code is not None:
        return HeartbeatResponse(error_code=code)
    result = shard.write(lambda machine, now_ms: machine.heartbeat(request, now_ms))
    return when(result, lambda code: HeartbeatResponse(error_code=code))


def refuse_heartbeat(
    request: HeartbeatRequest, code: ErrorCode, message: str | None
) -> HeartbeatResponse:
    """Return an error of Heartbeat; no error while the coordinator is loading, as in Kafka."""
    del request, message
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return _SUCCESS
    return HeartbeatResponse(error_code=code)


# LeaveGroup


def handle_leave_group(
    call: Call, request: LeaveGroupRequest
) -> LeaveGroupResponse | Waiting[LeaveGroupResponse]:
    """Handle a LeaveGroup; each member has its own error code."""
    _require_group_id(request.group_id)
    node = call.node
    shard = node.groups.locate(request.group_id, node.id)
    # A decision iterates over all members.
    return without_pauses(
        lambda: shard.write(lambda machine, now_ms: machine.leave(request, now_ms))
    )


def lift_leave_group(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Convert the single member of earlier versions to a list."""
    if not LEAVE_GROUP_ERAS.at(version).has_member_list:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    return request


def lower_leave_group(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Copy the single member's error to the top level, the only error field of earlier versions."""
    if not LEAVE_GROUP_ERAS.at(version).has_member_list and response.members:
        response.error_code = response.error_code or response.members[0].error_code
    return response


def _require_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


APIS = (
    Api(
        key=ApiKey.JOIN_GROUP,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 9),
        handler=handle_join_group,
        refusal=refuse_join_group,
        eras=JOIN_GROUP_ERAS,
        lift=lift_join_group,
        lower=lower_join_group,
    ),
    Api(
        key=ApiKey.HEARTBEAT,
        versions=Versions(0, 4),
        handler=handle_heartbeat,
        refusal=refuse_heartbeat,
        is_repeated=True,
    ),
    Api(
        key=ApiKey.LEAVE_GROUP,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 5),
        handler=handle_leave_group,
        eras=LEAVE_GROUP_ERAS,
        lift=lift_leave_group,
        lower=lower_leave_group,
    ),
    Api(
        key=ApiKey.SYNC_GROUP,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 5),
        handler=handle_sync_group,
        check_first=check_protocol,
        eras=SYNC_GROUP_ERAS,
    ),
)
