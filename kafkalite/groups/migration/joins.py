"""ClassicJoins: JoinGroup to a consumer group, by members of the classic protocol (KIP-848).

To such a member the coordinator is the leader, and whoever joins takes one step of the
reconciliation; so joining is answered at once, and parks nobody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.classic.answers import join_refused
from kafkalite.groups.classic.draft import Draft
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.consumer.admission import (
    Admitted,
    Identity,
    check_holds_instance,
    check_room,
    take_over,
)
from kafkalite.groups.consumer.beat import Beat
from kafkalite.groups.consumer.member import JOIN_EPOCH, ClassicProtocolMember, MemberMetadata
from kafkalite.groups.consumer.sessions import sync_timer
from kafkalite.groups.migration.embedded import by_topic_id, subscription_of
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.join_group import JoinGroupResponse
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.heartbeat import ConsumerGroups
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.migration.embedded import Subscription
    from kafkalite.protocol.messages.join_group import JoinGroupRequest

_UNCHANGED_MS = -1
_NOBODY = MemberMetadata()


class ClassicJoins:
    """Lets members of the classic protocol into the consumer groups of one shard."""

    __slots__ = ("_consumer", "_directory", "_sessions")

    def __init__(self, directory: GroupDirectory, consumer: ConsumerGroups) -> None:
        self._directory = directory
        self._consumer = consumer
        self._sessions = consumer.sessions

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Decide a JoinGroup to a consumer group with members; it is answered at once."""
        try:
            return self._join(group, request, caller, now_ms)
        except KafkaError as refusal:
            told = refusal_event(group.group_id, refusal, member_id=request.member_id)
            return CoordinatorResult(join_refused(refusal.code), events=[told])

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
        check_room(group, identity, self._consumer.settings.of(group).max_size)
        _check_protocols(group, request)
        if not request.member_id and instance_id is None and caller.requires_known_member_id:
            # Nothing is remembered of this id: whoever brings one is taken in.
            return CoordinatorResult(join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        admitted = _admit(group, identity, is_new=not request.member_id)
        subscription = _subscription(request)
        identity = replace(identity, reported=by_topic_id(subscription.owned, directory.image))
        beat = Beat(
            self._consumer.surroundings, group, identity, admitted, made_room=(), now_ms=now_ms
        )
        beat.learn(_heard(admitted.stored, request, caller, subscription))
        beat.move_group_epoch()
        replaced = None if instance_id is None else group.static_members.get(instance_id)
        if replaced is not None and self._is_downgraded_by(group, replaced, beat):
            return self._downgrade(group, replaced, beat)
        beat.compute_target()
        beat.reconcile()
        return CoordinatorResult(
            _joined(beat),
            records=beat.records,
            timers=self._timers_after(beat, request, replaced),
            events=beat.events,
        )

    def _check_policy(self, group: ConsumerGroup) -> None:
        policy = migration_policy(self._directory.config)
        if not policy.admits_classic_members:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Consumer group {group.group_id} takes no members of the classic protocol: "
                f"group.consumer.migration.policy is {policy.value}.",
                {"rule": "migration", "reason": policy.value},
            )

    def _timers_after(
        self, beat: Beat, request: JoinGroupRequest, replaced: MemberId | None
    ) -> list[TimerChange]:
        group_id, member_id = beat.group.group_id, beat.member_id
        timers = beat.timers
        if replaced is not None and replaced != member_id:
            timers.extend(self._sessions.end(group_id, replaced))
        session_ms = beat.now_ms + request.session_timeout_ms
        timers.append(self._sessions.joined(group_id, member_id))
        timers.append(self._sessions.start(group_id, member_id, session_ms))
        timers.append(sync_timer(group_id, member_id, beat.now_ms + request.rebalance_timeout_ms))
        return timers

    def _is_downgraded_by(self, group: ConsumerGroup, replaced: MemberId, beat: Beat) -> bool:
        """Whether the member just replaced was the last one of the consumer protocol."""
        if group.members[replaced].classic is not None:
            return False
        members = {m: member for m, member in group.members.items() if m != replaced}
        return self._consumer.downgrade.is_due({**members, beat.member_id: beat.member})

    def _downgrade(
        self, group: ConsumerGroup, replaced: MemberId, beat: Beat
    ) -> CoordinatorResult[JoinGroupResponse]:
        rebalances = group.target_epoch < beat.epoch
        if not rebalances:
            beat.reconcile()
        draft = Draft(beat.now_ms)
        draft.records.extend(beat.records)
        draft.timers.extend(beat.timers)
        draft.events.extend(beat.events)
        for member_id in group.members:
            draft.timers.extend(self._sessions.end(group.group_id, member_id))
        members = {m: member for m, member in group.members.items() if m != replaced}
        self._consumer.downgrade.begin(
            draft,
            group,
            {**members, beat.member_id: beat.member},
            heirs={replaced: beat.member_id},
            rebalances=rebalances,
        )
        return draft.result(_joined(beat))


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raise INCONSISTENT_GROUP_PROTOCOL unless the other classic members know one of these."""
    offered = {protocol.name for protocol in request.protocols}
    if request.protocol_type == CONSUMER_PROTOCOL_TYPE and offered:
        for member in group.members.values():
            if member.classic is not None:
                offered.intersection_update(name for name, _ in member.classic.protocols)
        if offered:
            return
    raise KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"The classic members of consumer group {group.group_id} know none of these protocols.",
        {"protocol_type": request.protocol_type},
    )


def _admit(group: ConsumerGroup, member: Identity, *, is_new: bool) -> Admitted:
    """Return the member as it stands; one with an instance id takes the place of the last."""
    if member.instance_id is not None:
        holder = group.static_members.get(member.instance_id)
        if not is_new:
            check_holds_instance(group, member.member_id, member.instance_id)
        elif holder is not None:
            return take_over(group, holder, member.member_id)
    stored = group.members.get(member.member_id, _NOBODY)
    return Admitted(stored=stored, current=group.current_of(member.member_id))


def _subscription(request: JoinGroupRequest) -> Subscription:
    """Read what the member subscribes to; all its protocols say the same, so the first will do."""
    try:
        return subscription_of(request.protocols[0].metadata)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription of a consumer is malformed: {error}."
        ) from error


def _heard(
    stored: MemberMetadata, request: JoinGroupRequest, caller: Caller, subscription: Subscription
) -> MemberMetadata:
    """Return what is known of a member after its JoinGroup: `stored` itself if nothing is new."""
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


def _joined(beat: Beat) -> JoinGroupResponse:
    """Tell a member its generation; nobody leads, for the coordinator assigns."""
    classic = beat.member.classic
    assert classic is not None, "it joined by JoinGroup"
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=beat.current.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=classic.protocols[0][0],
        leader="",
        member_id=beat.member_id,
        members=[],
    )
