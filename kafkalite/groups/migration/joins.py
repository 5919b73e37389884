"""ClassicJoins: JoinGroup requests of classic members to consumer groups (KIP-848).

The coordinator has the leader's role, and a JoinGroup takes one step of the reconciliation. So it
is answered at once and never waits for other members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.classic.decision import DecisionBuilder
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.classic.responses import join_error_response
from kafkalite.groups.consumer.admission import (
    AdmittedMember,
    Identity,
    check_max_size,
    take_over,
)
from kafkalite.groups.consumer.heartbeat import ConsumerHeartbeat
from kafkalite.groups.consumer.member import ClassicProtocolMember, MemberMetadata
from kafkalite.groups.consumer.sessions import sync_timer
from kafkalite.groups.migration.consumer_protocol import by_topic_id, parse_subscription
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.groups.modern.admission import check_holds_instance
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kafkalite.config.rules import Rules
    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.classic.member import Caller
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.groups import ConsumerGroups
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.migration.consumer_protocol import Subscription
    from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest

_UNCHANGED_MS = -1
_NEW_MEMBER = MemberMetadata()


class ClassicJoins:
    """Handles JoinGroup requests to the consumer groups of one shard."""

    __slots__ = ("_consumer", "_directory", "_sessions")

    def __init__(self, directory: GroupDirectory, consumer: ConsumerGroups) -> None:
        self._directory = directory
        self._consumer = consumer
        self._sessions = consumer.sessions

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Handle a JoinGroup to a consumer group with members."""
        try:
            return self._join(group, request, caller, now_ms)
        except KafkaError as refusal:
            event = refusal_event(group.group_id, refusal, member_id=request.member_id)
            return CoordinatorResult(join_error_response(refusal.code), events=[event])

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        directory = self._directory
        self._check_policy(group)
        instance_id = request.group_instance_id
        member_id = request.member_id or uuid_to_text(directory.entropy.uuid())
        identity = Identity(
            member_id=member_id, instance_id=instance_id, member_epoch=JOIN_EPOCH, reported={}
        )
        check_max_size(
            group,
            identity,
            self._consumer.settings.of(group).max_size,
            admits_static_members=directory.rules.admits_static_members_to_full_groups,
        )
        _check_protocols(group, request)
        if not request.member_id and instance_id is None and caller.requires_known_member_id:
            # The id is not stored: any client with a member id may join.
            return CoordinatorResult(join_error_response(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        admitted = _admit(group, identity, is_new=not request.member_id)
        subscription = _subscription(request, directory.rules)
        identity = replace(identity, reported=by_topic_id(subscription.owned, directory.image))
        heartbeat = ConsumerHeartbeat(
            self._consumer.context, group, identity, admitted, initial_records=(), now_ms=now_ms
        )
        member = _member_metadata(admitted.stored, request, caller, subscription)
        heartbeat.apply_member(member, caller.may_describe)
        heartbeat.update_group_epoch()
        replaced_id = None if instance_id is None else group.static_members.get(instance_id)
        if replaced_id is not None and self._is_downgraded_by(group, replaced_id, heartbeat):
            return self._downgrade(group, replaced_id, heartbeat)
        heartbeat.compute_target()
        heartbeat.reconcile()
        return CoordinatorResult(
            _response(heartbeat),
            records=heartbeat.records,
            timers=self._timers_after(heartbeat, request, replaced_id),
            events=heartbeat.events,
        )

    def _check_policy(self, group: ConsumerGroup) -> None:
        policy = migration_policy(self._directory.config)
        if not policy.admits_classic_members:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Consumer group {group.group_id} does not accept members of the classic protocol: "
                f"group.consumer.migration.policy is {policy.value}.",
                {"rule": "migration", "reason": policy.value},
            )

    def _timers_after(
        self, heartbeat: ConsumerHeartbeat, request: JoinGroupRequest, replaced_id: MemberId | None
    ) -> list[TimerChange]:
        group_id, member_id = heartbeat.group.group_id, heartbeat.member_id
        timers = heartbeat.timers
        if replaced_id is not None and replaced_id != member_id:
            timers.extend(self._sessions.cancel_timers(group_id, replaced_id))
        session_deadline_ms = heartbeat.now_ms + request.session_timeout_ms
        timers.append(self._sessions.cancel_join_timer(group_id, member_id))
        timers.append(self._sessions.start(group_id, member_id, session_deadline_ms))
        timers.append(
            sync_timer(group_id, member_id, heartbeat.now_ms + request.rebalance_timeout_ms)
        )
        return timers

    def _is_downgraded_by(
        self, group: ConsumerGroup, replaced_id: MemberId, heartbeat: ConsumerHeartbeat
    ) -> bool:
        """Whether the group becomes classic, because the member is replaced by a classic one."""
        if group.members[replaced_id].classic is not None:
            return False
        members = {m: member for m, member in group.members.items() if m != replaced_id}
        return self._consumer.downgrade.is_due({**members, heartbeat.member_id: heartbeat.member})

    def _downgrade(
        self, group: ConsumerGroup, replaced_id: MemberId, heartbeat: ConsumerHeartbeat
    ) -> CoordinatorResult[JoinGroupResponse]:
        must_rebalance = group.target_epoch < heartbeat.epoch
        if not must_rebalance:
            heartbeat.reconcile()
        decision = DecisionBuilder(heartbeat.now_ms)
        decision.records.extend(heartbeat.records)
        decision.timers.extend(heartbeat.timers)
        decision.events.extend(heartbeat.events)
        for member_id in group.members:
            decision.timers.extend(self._sessions.cancel_timers(group.group_id, member_id))
        members = {m: member for m, member in group.members.items() if m != replaced_id}
        self._consumer.downgrade.convert(
            decision,
            group,
            {**members, heartbeat.member_id: heartbeat.member},
            replacements={replaced_id: heartbeat.member_id},
            must_rebalance=must_rebalance,
        )
        return decision.result(_response(heartbeat))


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raise INCONSISTENT_GROUP_PROTOCOL unless all classic members support one of the protocols."""
    offered = {protocol.name for protocol in request.protocols}
    if request.protocol_type == CONSUMER_PROTOCOL_TYPE and offered:
        for member in group.members.values():
            if member.classic is not None:
                offered.intersection_update(name for name, _ in member.classic.protocols)
        if offered:
            return
    raise KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"The classic members of consumer group {group.group_id} support none of these protocols.",
        {"protocol_type": request.protocol_type},
    )


def _admit(group: ConsumerGroup, member: Identity, *, is_new: bool) -> AdmittedMember:
    """Return the member's state; a new member replaces the previous one of its instance id."""
    if member.instance_id is not None:
        holder = group.static_members.get(member.instance_id)
        if not is_new:
            check_holds_instance(group.static_members, member.member_id, member.instance_id)
        elif holder is not None:
            return take_over(group, holder, member.member_id)
    stored = group.members.get(member.member_id, _NEW_MEMBER)
    return AdmittedMember(stored=stored, current=group.current_of(member.member_id))


def _subscription(request: JoinGroupRequest, rules: Rules) -> Subscription:
    """Parse the subscription of the first protocol; all protocols have the same one."""
    try:
        return parse_subscription(request.protocols[0].metadata)
    except ValueError as error:
        code = (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if rules.explains_malformed_subscriptions
            else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        raise KafkaError(code, f"The subscription of a consumer is malformed: {error}.") from error


def _member_metadata(
    stored: MemberMetadata, request: JoinGroupRequest, caller: Caller, subscription: Subscription
) -> MemberMetadata:
    """Return the member's metadata after its JoinGroup: `stored` itself if nothing changed."""
    timeout_ms = request.rebalance_timeout_ms
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    member = MemberMetadata(
        instance_id=request.group_instance_id or stored.instance_id,
        rack_id=subscription.rack_id or stored.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=(
            stored.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms
        ),
        topic_names=subscription.topics,
        server_assignor=stored.server_assignor,
        classic=ClassicProtocolMember(
            session_timeout_ms=request.session_timeout_ms, protocols=protocols
        ),
    )
    return stored if member == stored else member


def _response(heartbeat: ConsumerHeartbeat) -> JoinGroupResponse:
    """Return the response with the member epoch as generation and without a leader."""
    classic = heartbeat.member.classic
    assert classic is not None, "it joined by JoinGroup"
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=heartbeat.current.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=classic.protocols[0][0],
        leader="",
        member_id=heartbeat.member_id,
        members=[],
    )
