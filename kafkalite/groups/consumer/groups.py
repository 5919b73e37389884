"""ConsumerGroups: deciders, replayers and timers of consumer groups (KIP-848).

A heartbeat has five steps, and each is skipped if nothing has changed: update of the member, group
epoch, target assignment, reconciliation, response.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.classic.decision import DecisionBuilder
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer import events
from kafkalite.groups.consumer.admission import (
    Identity,
    admit,
    check_max_size,
    find_leaving_member,
    find_or_create_group,
)
from kafkalite.groups.consumer.context import ConsumerContext
from kafkalite.groups.consumer.describe import describe_group
from kafkalite.groups.consumer.group import ConsumerGroup, subscribed_topics
from kafkalite.groups.consumer.heartbeat import ConsumerHeartbeat, is_steady
from kafkalite.groups.consumer.incarnations import (
    check_incarnation,
    records_to_allow_rejoin,
    with_join_confirmation,
)
from kafkalite.groups.consumer.member import MemberState
from kafkalite.groups.consumer.regex import UNRESOLVED, RegexRefresh, hide_topics, resolve
from kafkalite.groups.consumer.replay import replayers
from kafkalite.groups.consumer.sessions import (
    ConsumerRebalanceExpiry,
    ConsumerSessionExpiry,
    ConsumerSessions,
)
from kafkalite.groups.consumer.target import preferred_assignor
from kafkalite.groups.migration.downgrade import Downgrade
from kafkalite.groups.modern.admission import (
    check_holds_instance,
    find_group,
    find_member,
)
from kafkalite.groups.modern.events import (
    LEFT,
    group_epoch_raised_event,
    static_member_left_event,
)
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Client
from kafkalite.groups.modern.steady import SteadyHeartbeats
from kafkalite.groups.modern.timers import MemberTimers, target_reset_records, with_response
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, Event, TimerChange
    from kafkalite.groups.consumer.admission import AdmittedMember
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.consumer.reconcile import ReportedPartitions
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.migration.upgrade import UpgradedGroup
    from kafkalite.groups.modern.events import Departure
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol._generated.messages.consumer_group_describe import (
        ConsumerGroupDescribeResponse,
    )
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )
    from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest

_NO_CHANGE: CoordinatorResult[None] = CoordinatorResult(response=None)

_MAX_REPORTED_REFUSALS = 100
"""The maximum number of refused members of one request that have an event."""


class ConsumerGroups:
    """The consumer groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self.sessions = ConsumerSessions()
        self.context = ConsumerContext(directory)
        self.settings = self.context.settings
        self.downgrade = Downgrade(directory)
        self.members = MemberTimers(
            directory, ConsumerGroup, self.sessions, self._remove_one, events.REVOCATION_TIMED_OUT
        )
        self.steady_heartbeat = SteadyHeartbeats(
            self.context, self.sessions, ConsumerGroup, is_steady, ConsumerGroupHeartbeatResponse
        ).answer
        """Returns the response to a steady heartbeat; None if `heartbeat` must decide."""
        self.replayers = replayers(directory)
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            ConsumerSessionExpiry: self.members.expire_session,
            ConsumerRebalanceExpiry: self.members.expire_rebalance,
            RegexRefresh: self.refresh_regexes,
        }

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Handle a heartbeat of a member that joins, stays or leaves.

        The caller has validated the request's fields. A refusal raises KafkaError. If the refusal
        writes a record, the KafkaError is the response.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, now_ms)
        group_id = request.group_id
        member = Identity(
            member_id=request.member_id,
            instance_id=request.instance_id,
            member_epoch=request.member_epoch,
            reported=_reported(request),
        )
        is_joining = request.member_epoch == JOIN_EPOCH
        upgrade = find_or_create_group(self._directory, group_id, is_joining=is_joining)
        group = upgrade.group
        check_max_size(
            group,
            member,
            self.settings.of(group).max_size,
            admits_static_members=self._directory.rules.admits_static_members_to_full_groups,
        )
        if not member.member_id:
            member = replace(member, member_id=uuid_to_text(self._directory.entropy.uuid()))
        try:
            admitted = self._admit(group, member)
        except KafkaError as refusal:
            if rejoin_records := records_to_allow_rejoin(group, member):
                return CoordinatorResult(response=refusal, records=rejoin_records)
            raise
        heartbeat = ConsumerHeartbeat(
            self.context, group, member, admitted, initial_records=upgrade.records, now_ms=now_ms
        )
        heartbeat.update_member(request, client)
        heartbeat.update_group_epoch()
        heartbeat.compute_target()
        heartbeat.reconcile()
        heartbeat.record_join_confirmation()
        return CoordinatorResult(
            response=heartbeat.answer(request),
            records=heartbeat.records,
            replies=upgrade.replies,
            timers=self._timers_after(heartbeat, admitted.replaces, upgrade),
            events=(*upgrade.events, *heartbeat.events),
        )

    def _admit(self, group: ConsumerGroup, member: Identity) -> AdmittedMember:
        """Return the member's state; raises KafkaError for a wrong epoch or a duplicate id."""
        is_join = member.member_epoch == JOIN_EPOCH
        if not self.settings.of(group).compares_incarnations or member.instance_id is not None:
            admitted = admit(group, member)
            return (
                with_join_confirmation(admitted, is_join_confirmed=False) if is_join else admitted
            )
        check_incarnation(group, member)
        return with_join_confirmation(admit(group, member), is_join_confirmed=not is_join)

    def _timers_after(
        self, heartbeat: ConsumerHeartbeat, replaced: MemberId | None, upgrade: UpgradedGroup
    ) -> list[TimerChange]:
        group_id, member_id = heartbeat.group.group_id, heartbeat.member_id
        timers = [*upgrade.timers, *heartbeat.timers]
        for classic_id, timeout_ms in upgrade.sessions.items():
            timers.append(self.sessions.start(group_id, classic_id, heartbeat.now_ms + timeout_ms))
        if replaced is not None and replaced != member_id:
            timers.extend(self.sessions.cancel_timers(group_id, replaced))
        deadline_ms = heartbeat.now_ms + self.settings.of(heartbeat.group).session_timeout_ms
        timers += self.sessions.after_heartbeat(
            group_id, member_id, deadline_ms, is_join=heartbeat.is_join
        )
        return timers

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Handle the heartbeat of a member that leaves, permanently or temporarily."""
        group = find_group(self._directory.groups, request.group_id, ConsumerGroup)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is not None:
            check_holds_instance(group.static_members, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return CoordinatorResult(
                    response=response,
                    records=[_left_temporarily_record(group, request.member_id)],
                    events=[static_member_left_event(group, request.member_id)],
                )
        find_member(group, request.member_id)
        removed = self._remove(group, {request.member_id: LEFT}, now_ms)
        return with_response(removed, response)

    def leave_group(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Handle a LeaveGroup of classic members, or of an administrator for any members.

        Each member has its own error code; the group epoch is raised once.
        """
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[MemberId, Departure] = {}
        refusals: list[Event] = []
        for leaving_member in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=leaving_member.member_id,
                group_instance_id=leaving_member.group_instance_id,
            )
            answers.append(answer)
            try:
                member_id = find_leaving_member(
                    group, leaving_member.member_id, leaving_member.group_instance_id
                )
                leaving[member_id] = events.removed_by_leave_group(leaving_member.reason)
            except KafkaError as refusal:
                answer.error_code = refusal.code
                if len(refusals) < _MAX_REPORTED_REFUSALS:
                    event = refusal_event(
                        group.group_id, refusal, member_id=leaving_member.member_id
                    )
                    refusals.append(event)
        removed = _NO_CHANGE
        if leaving:
            removed = self._remove(group, leaving, now_ms)
        removed = removed._replace(events=(*refusals, *removed.events))
        return with_response(removed, LeaveGroupResponse(members=answers))

    def _remove_one(
        self, group: ConsumerGroup, member_id: MemberId, departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        return self._remove(group, {member_id: departure}, now_ms)

    def remove_members(
        self,
        group: ConsumerGroup,
        member_ids: Iterable[MemberId],
        departure: Departure,
        now_ms: int,
    ) -> CoordinatorResult[None]:
        """Remove members, which exist, and raise the group epoch."""
        return self._remove(group, dict.fromkeys(member_ids, departure), now_ms)

    def _remove(
        self, group: ConsumerGroup, leaving: Mapping[MemberId, Departure], now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove members, each for its reason, and raise the group epoch.

        If only members of the classic protocol remain, the group may become a classic group.
        """
        removed = [
            self._record_removal(group, member_id, departure, now_ms)
            for member_id, departure in leaving.items()
        ]
        remaining = {m: member for m, member in group.members.items() if m not in leaving}
        if self.downgrade.is_due(remaining):
            result = self._continue_as_classic(group, remaining, now_ms)
        else:
            result = self._remove_from_consumer_group(group, leaving, remaining)
        return result._replace(events=(*removed, *result.events))

    def _record_removal(
        self, group: ConsumerGroup, member_id: MemberId, departure: Departure, now_ms: int
    ) -> Event:
        group.ownership().record_departure(member_id, departure.reason, now_ms)
        return events.member_removed_event(group, member_id, departure)

    def _remove_from_consumer_group(
        self,
        group: ConsumerGroup,
        member_ids: Collection[MemberId],
        remaining: Mapping[MemberId, MemberMetadata],
    ) -> CoordinatorResult[None]:
        group_id = group.group_id
        written: list[Record] = []
        timers: list[TimerChange] = []
        for member_id in member_ids:
            written += records.member_tombstones(group_id, member_id)
            timers += self.sessions.cancel_timers(group_id, member_id)
        still_subscribed = {member.topic_regex for member in remaining.values()}
        removed_regexes = {group.members[member_id].topic_regex for member_id in member_ids}
        resolved = dict(group.resolved_regexes)
        for regex in sorted(resolved.keys() & removed_regexes - still_subscribed):
            written.append(records.regex_tombstone(group_id, regex))
            del resolved[regex]
        names = subscribed_topics(remaining.values(), resolved)
        topics_hash = self._directory.metadata_hash(names)
        written.append(records.group_epoch_record(group_id, group.epoch + 1, topics_hash))
        written += target_reset_records(
            records.TYPES, group, self._directory.rules, is_emptied=not remaining
        )
        reasons = [f"member {member_id} was removed" for member_id in member_ids]
        event = group_epoch_raised_event(group_id, group.epoch + 1, reasons)
        return CoordinatorResult(response=None, records=written, timers=timers, events=(event,))

    def _continue_as_classic(
        self, group: ConsumerGroup, remaining: Mapping[MemberId, MemberMetadata], now_ms: int
    ) -> CoordinatorResult[None]:
        decision = DecisionBuilder(now_ms)
        for member_id in group.members:
            decision.timers.extend(self.sessions.cancel_timers(group.group_id, member_id))
        self.downgrade.convert(decision, group, remaining, replacements={}, must_rebalance=True)
        return decision.result(None)

    def describe(self, group_id: GroupId) -> ConsumerGroupDescribeResponse.DescribedGroup:
        """Describe a group; raises KafkaError(GROUP_ID_NOT_FOUND) if none of this type exists."""
        group = find_group(self._directory.groups, group_id, ConsumerGroup)
        return describe_group(group, self._directory.image, self.assignor_of(group))

    def assignor_of(self, group: ConsumerGroup) -> str:
        """Return the assignor that most members of a group request, or the default."""
        default = assignor_names(self._directory.config.list("group.consumer.assignors"))[0]
        return preferred_assignor(group.members.values(), default)

    # Timers.

    def refresh_regexes(self, event: RegexRefresh, now_ms: int) -> CoordinatorResult[None]:
        """Resolve all expressions of a group; raise its epoch if their topics changed."""
        try:
            group = find_group(self._directory.groups, event.group_id, ConsumerGroup)
        except KafkaError:
            return _NO_CHANGE
        image = self._directory.image
        resolved = resolve(group.regex_subscribers, image.topics, image.version, now_ms)
        refresh_events: list[Event] = []
        if event.may_describe is not None:
            resolved, hidden = hide_topics(resolved, event.may_describe)
            if hidden:
                refresh_events.append(events.topics_hidden_event(group, event.member_id, hidden))
        written = [
            records.regex_record(group.group_id, regex, resolved_regex)
            for regex, resolved_regex in sorted(resolved.items())
        ]
        has_changed = any(
            resolved_regex.topics != group.resolved_regexes.get(regex, UNRESOLVED).topics
            for regex, resolved_regex in resolved.items()
        )
        topics_hash = self._directory.metadata_hash(
            subscribed_topics(group.members.values(), {**group.resolved_regexes, **resolved})
        )
        if has_changed or topics_hash != group.metadata_hash:
            written.append(records.group_epoch_record(group.group_id, group.epoch + 1, topics_hash))
            reasons = ["regular expressions match other topics than before"]
            refresh_events.append(
                group_epoch_raised_event(group.group_id, group.epoch + 1, reasons)
            )
        return CoordinatorResult(response=None, records=written, events=refresh_events)

    # Loading and metadata.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Start new sessions of all members, and rebalance timers of pending revocations."""
        revocation_timers = (ConsumerRebalanceExpiry, MemberState.UNREVOKED_PARTITIONS)
        self.context.invalidate_regexes()
        return CoordinatorResult(
            response=None, timers=self.members.start_all(self.settings, now_ms, revocation_timers)
        )

    def on_append_failed(
        self, failed: Sequence[CoordinatorRecord[object, object]], now_ms: int
    ) -> CoordinatorResult[None]:
        """Restore the sessions of members whose removal could not be appended.

        The failed decision cancelled their timers. Sessions of members whose join failed are ended.
        """
        timers: list[TimerChange] = []
        for record in failed:
            key = record.key
            if not isinstance(key, ConsumerGroupMemberMetadataKey):
                continue
            group = self._directory.groups.get(key.group_id)
            if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
                timers += self.sessions.cancel_timers(key.group_id, key.member_id)
            elif record.value is None:
                deadline_ms = now_ms + self.settings.of(group).session_timeout_ms
                timers.append(self.sessions.start(key.group_id, key.member_id, deadline_ms))
        return CoordinatorResult(response=None, timers=timers)

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Record changed topics and settings; the next heartbeats react to them."""
        del now_ms
        self.context.on_image(changes)
        return _NO_CHANGE


def _reported(request: ConsumerGroupHeartbeatRequest) -> ReportedPartitions | None:
    """Return the partitions that a member reports to own; None if it reports none."""
    if request.topic_partitions is None:
        return None
    reported: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        reported.setdefault(topic.topic_id, set()).update(topic.partitions)
    return reported


def _left_temporarily_record(group: ConsumerGroup, member_id: MemberId) -> Record:
    """Return the record of a static member that left temporarily; it keeps its partitions.

    The assignment epochs become 0, so that its successor owns the partitions from its first epoch.
    """
    current = group.current_of(member_id)
    return records.current_assignment_record(
        group.group_id,
        member_id,
        replace(
            current,
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned={topic: dict.fromkeys(owned, 0) for topic, owned in current.assigned.items()},
            pending_revocation={},
            revocation=current.revocation.after_temporary_leave(
                current.member_epoch, revoked=bool(current.pending_revocation)
            ),
        ),
    )
