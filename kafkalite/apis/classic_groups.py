"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the classic group protocol on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.groups.classic.answers import join_refused, sync_refused
from kafkalite.groups.classic.caller import Caller
from kafkalite.ports.waiting import when
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupEra:
    """What a range of JoinGroup versions means."""

    has_rebalance_timeout: bool = True
    """Before, members had one session timeout to rejoin (KIP-62)."""
    requires_known_member_id: bool = True
    """A new dynamic member is sent away once, with the id to come back with (KIP-394)."""
    nullable_protocol_name: bool = True
    supports_skipping_assignment: bool = True
    """A static leader that comes back can be told to leave the assignment alone (KIP-814)."""


JOIN_GROUP_ERAS = Eras(
    (
        0,
        JoinGroupEra(
            has_rebalance_timeout=False,
            requires_known_member_id=False,
            nullable_protocol_name=False,
            supports_skipping_assignment=False,
        ),
    ),
    (
        1,
        JoinGroupEra(
            requires_known_member_id=False,
            nullable_protocol_name=False,
            supports_skipping_assignment=False,
        ),
    ),
    (4, JoinGroupEra(nullable_protocol_name=False, supports_skipping_assignment=False)),
    (7, JoinGroupEra(supports_skipping_assignment=False)),
    (9, JoinGroupEra()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupEra:
    """What a range of SyncGroup versions means."""

    must_name_protocol: bool


SYNC_GROUP_ERAS = Eras(
    (0, SyncGroupEra(must_name_protocol=False)),
    (5, SyncGroupEra(must_name_protocol=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupEra:
    """What a range of LeaveGroup versions means."""

    leaves_in_batches: bool


LEAVE_GROUP_ERAS = Eras(
    (0, LeaveGroupEra(leaves_in_batches=False)),
    (3, LeaveGroupEra(leaves_in_batches=True)),
)


# JoinGroup


def handle_join_group(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Waiting[JoinGroupResponse]:
    """Let a member in; the answer comes when its generation begins."""
    _require_group_id(request.group_id)
    services = context.services
    _check_session_timeout(request, services.config)
    era: JoinGroupEra = context.era
    caller = Caller(
        client_id=context.client_id or "",
        client_host=context.client_host,
        requires_known_member_id=era.requires_known_member_id,
        supports_skipping_assignment=era.supports_skipping_assignment,
    )
    shard = services.groups.locate(request.group_id, context.node_id)
    return shard.write(lambda machine, now_ms: machine.join(request, caller, now_ms))


def _check_session_timeout(request: JoinGroupRequest, config: BrokerConfig) -> None:
    asked_ms = request.session_timeout_ms
    least_ms = config.int("group.min.session.timeout.ms")
    most_ms = config.int("group.max.session.timeout.ms")
    if not least_ms <= asked_ms <= most_ms:
        raise KafkaError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"join of {request.member_id or 'a new member'} refused: its session timeout of "
            f"{asked_ms} ms is not within {least_ms} and {most_ms}",
            {
                "rule": "session-timeout",
                "session_timeout_ms": asked_ms,
                "group.min.session.timeout.ms": least_ms,
                "group.max.session.timeout.ms": most_ms,
            },
        )


def refuse_join_group(
    request: JoinGroupRequest, code: ErrorCode, message: str | None
) -> JoinGroupResponse:
    """Say an error of JoinGroup; there is no field for a message."""
    del message
    return join_refused(code, request.member_id)


def lift_join_group(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    """Give the first members the rebalance timeout they could not name."""
    if not JOIN_GROUP_ERAS.at(version).has_rebalance_timeout:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def lower_join_group(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Write no protocol name as "" where null has no place."""
    if response.protocol_name is None and not JOIN_GROUP_ERAS.at(version).nullable_protocol_name:
        response.protocol_name = ""
    return response


# SyncGroup


def handle_sync_group(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Waiting[SyncGroupResponse]:
    """Take the leader's assignment, or wait for it."""
    era: SyncGroupEra = context.era
    if era.must_name_protocol and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _require_group_id(request.group_id)
    shard = context.services.groups.locate(request.group_id, context.node_id)
    return shard.write(lambda machine, now_ms: machine.sync(request, now_ms))


def refuse_sync_group(
    request: SyncGroupRequest, code: ErrorCode, message: str | None
) -> SyncGroupResponse:
    """Say an error of SyncGroup; there is no field for a message."""
    del request, message
    return sync_refused(code)


# Heartbeat

_NONE = ErrorCode.NONE
_ALIVE = HeartbeatResponse(error_code=_NONE)
"""The answer to nearly every heartbeat, made once."""


def handle_heartbeat(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Waiting[HeartbeatResponse]:
    """Take a sign of life and say whether a rebalance is on."""
    services = context.services
    group_id = request.group_id
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard = services.groups.locate(group_id, context.node_id)
    code = shard.machine.classic.heartbeat(request, services.clock.now_ms())
    if code is _NONE:
        return _ALIVE
    if code is not None:
        return HeartbeatResponse(error_code=code)
    decided = shard.write(lambda machine, now_ms: machine.heartbeat(request, now_ms))
    return when(decided, lambda code: HeartbeatResponse(error_code=code))


def refuse_heartbeat(
    request: HeartbeatRequest, code: ErrorCode, message: str | None
) -> HeartbeatResponse:
    """Say an error of Heartbeat; one whose coordinator is still loading counts as heard."""
    del request, message
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return _ALIVE
    return HeartbeatResponse(error_code=code)


# LeaveGroup


def handle_leave_group(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Waiting[LeaveGroupResponse]:
    """Let members go, each answered by itself."""
    _require_group_id(request.group_id)
    shard = context.services.groups.locate(request.group_id, context.node_id)
    return shard.write(lambda machine, now_ms: machine.leave(request, now_ms))


def refuse_leave_group(
    request: LeaveGroupRequest, code: ErrorCode, message: str | None
) -> LeaveGroupResponse:
    """Say an error of LeaveGroup; there is no field for a message."""
    del request, message
    return LeaveGroupResponse(error_code=code, members=[])


def lift_leave_group(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Make the single member of old versions a batch of one."""
    if not LEAVE_GROUP_ERAS.at(version).leaves_in_batches:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    return request


def lower_leave_group(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Say the single member's error at the top, where old versions have their only field."""
    if not LEAVE_GROUP_ERAS.at(version).leaves_in_batches and response.members:
        response.error_code = response.error_code or response.members[0].error_code
    return response


def _require_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


APIS = (
    Api(
        key=11,
        versions=Versions(0, 9),
        handler=handle_join_group,
        refuse=refuse_join_group,
        eras=JOIN_GROUP_ERAS,
        lift=lift_join_group,
        lower=lower_join_group,
    ),
    Api(
        key=12,
        versions=Versions(0, 4),
        handler=handle_heartbeat,
        refuse=refuse_heartbeat,
        is_repeated=True,
    ),
    Api(
        key=13,
        versions=Versions(0, 5),
        handler=handle_leave_group,
        refuse=refuse_leave_group,
        eras=LEAVE_GROUP_ERAS,
        lift=lift_leave_group,
        lower=lower_leave_group,
    ),
    Api(
        key=14,
        versions=Versions(0, 5),
        handler=handle_sync_group,
        refuse=refuse_sync_group,
        eras=SYNC_GROUP_ERAS,
    ),
)
