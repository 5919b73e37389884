"""ConsumerGroups: what a heartbeat, a silence or a change of topics means to a group (KIP-848).

One heartbeat is at most five steps, each of them skipped when nothing asks for it: the member's
own words, the group epoch, the target assignment, the member's next step towards it, the answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.consumer import events, records
from kafkalite.groups.consumer.admission import (
    Identity,
    admit,
    check_holds_instance,
    check_room,
    find_group,
    find_or_open_group,
    member_or_refuse,
    named_member,
)
from kafkalite.groups.consumer.beat import Beat, Client
from kafkalite.groups.consumer.departures import Departures
from kafkalite.groups.consumer.describe import describe_group
from kafkalite.groups.consumer.group import ConsumerGroup, subscribed_topics
from kafkalite.groups.consumer.incarnations import (
    check_incarnation,
    may_join_anew,
    showed_epoch,
)
from kafkalite.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, MemberState
from kafkalite.groups.consumer.regex import UNRESOLVED, RegexRefresh, resolve
from kafkalite.groups.consumer.replay import ConsumerGroupReplay
from kafkalite.groups.consumer.sessions import (
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    rebalance_timer,
)
from kafkalite.groups.consumer.settings import SettingsBook
from kafkalite.groups.consumer.steady import SteadyAnswers
from kafkalite.groups.consumer.surroundings import Surroundings
from kafkalite.groups.events import LEFT, SILENT, moved_on
from kafkalite.groups.migration.downgrade import Downgrade
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkalite.protocol.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, Event, TimerChange
    from kafkalite.groups.consumer.admission import Admitted
    from kafkalite.groups.consumer.reconcile import Reported
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.events import Going
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.migration.upgrade import Opened
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeResponse,
    )
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest

R = TypeVar("R")

_NOTHING: CoordinatorResult[None] = CoordinatorResult(response=None)

_REFUSALS_TOLD = 100
"""A request may name many more members who are none."""


class ConsumerGroups:
    """The consumer groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self.settings = SettingsBook(directory.config)
        self.sessions = Sessions()
        self.surroundings = Surroundings(directory, self.settings)
        self.downgrade = Downgrade(directory)
        self._departures = Departures(directory, self.sessions, self.downgrade)
        self._steady = SteadyAnswers(self.surroundings, self.sessions)
        self.replayers = ConsumerGroupReplay(directory).replayers()
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            SessionExpiry: self.expire_session,
            RebalanceExpiry: self.expire_rebalance,
            RegexRefresh: self.refresh_regexes,
        }

    def steady(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Answer a member that has nothing new to say nor to hear; None: ask `heartbeat`."""
        group = self._directory.groups.get(request.group_id)
        if type(group) is not ConsumerGroup:
            return None
        return self._steady.to(group, request, client, now_ms)

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Let a member join, stay, move on or leave.

        KafkaError for every refusal; the request is one whose form was checked.
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
        opened = find_or_open_group(self._directory, group_id, is_joining=is_joining)
        group = opened.group
        check_room(group, member, self.settings.of(group).max_size)
        if not member.member_id:
            member = replace(member, member_id=uuid_to_text(self._directory.entropy.uuid()))
        admitted = self._admit(group, member)
        beat = Beat(
            self.surroundings, group, member, admitted, made_room=opened.records, now_ms=now_ms
        )
        beat.hear(request, client)
        beat.move_group_epoch()
        beat.compute_target()
        beat.reconcile()
        return CoordinatorResult(
            response=beat.answer(request),
            records=beat.records,
            replies=opened.replies,
            timers=self._timers_after(beat, admitted.replaces, opened),
            events=(*opened.events, *beat.events),
        )

    def _admit(self, group: ConsumerGroup, member: Identity) -> Admitted:
        """Let a member in as it stands, or refuse it; of two with one id, one at most."""
        member_id, epoch = member.member_id, member.member_epoch
        if not self.settings.of(group).compares_incarnations or member.instance_id is not None:
            return admit(group, member)
        check_incarnation(group, member_id, epoch)
        try:
            admitted = admit(group, member)
        except KafkaError:
            may_join_anew(group, member_id)
            raise
        if epoch == JOIN_EPOCH:
            may_join_anew(group, member_id)
        else:
            showed_epoch(group, member_id)
        return admitted

    def _timers_after(
        self, beat: Beat, replaced: MemberId | None, opened: Opened
    ) -> list[TimerChange]:
        group_id, member_id = beat.group.group_id, beat.member_id
        timers = [*opened.timers, *beat.timers]
        for classic_id, timeout_ms in opened.sessions.items():
            timers.append(self.sessions.start(group_id, classic_id, beat.now_ms + timeout_ms))
        if replaced is not None and replaced != member_id:
            timers.extend(self.sessions.end(group_id, replaced))
        deadline_ms = beat.now_ms + self.settings.of(beat.group).session_timeout_ms
        # A join sets the timer whatever is remembered of it: an earlier join may have failed to
        # reach the log, and its timers with it.
        timer = (
            self.sessions.start(group_id, member_id, deadline_ms)
            if beat.is_join
            else self.sessions.extend(group_id, member_id, deadline_ms)
        )
        if timer is not None:
            timers.append(timer)
        return timers

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Let a member go, for good or, with its instance id, for a while."""
        group = find_group(self._directory.groups, request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is not None:
            check_holds_instance(group, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return CoordinatorResult(
                    response=response,
                    records=[_gone_for_a_while(group, request.member_id)],
                    events=[events.away(group, request.member_id)],
                )
        member_or_refuse(group, request.member_id)
        removed = self._departures.remove(group, {request.member_id: LEFT}, now_ms)
        return _answered(removed, response)

    def leave_classically(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Decide a LeaveGroup: of members of the classic protocol, or of an administrator for any.

        Each member is answered by itself; the group moves on once for all who left.
        """
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[MemberId, Going] = {}
        told: list[Event] = []
        for named in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=named.member_id, group_instance_id=named.group_instance_id
            )
            answers.append(answer)
            try:
                member_id = named_member(group, named.member_id, named.group_instance_id)
                leaving[member_id] = events.taken_out(named.reason)
            except KafkaError as refusal:
                answer.error_code = refusal.code
                if len(told) < _REFUSALS_TOLD:
                    event = refusal_event(group.group_id, refusal, member_id=named.member_id)
                    told.append(event)
        removed = _NOTHING
        if leaving:
            removed = self._departures.remove(group, leaving, now_ms)
        removed = removed._replace(events=(*told, *removed.events))
        return _answered(removed, LeaveGroupResponse(members=answers))

    def describe(self, group_id: GroupId) -> ConsumerGroupDescribeResponse.DescribedGroup:
        """Describe a group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of this type."""
        directory = self._directory
        return describe_group(
            find_group(directory.groups, group_id),
            directory.image,
            assignor_names(directory.config.list("group.consumer.assignors"))[0],
        )

    # Timers.

    def expire_session(self, event: SessionExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that has been silent for too long."""
        if (timer := self.sessions.still_running(event, now_ms)) is not None:
            return CoordinatorResult(response=None, timers=(timer,))
        return self.fence(event.group_id, event.member_id, SILENT, now_ms)

    def expire_rebalance(self, event: RebalanceExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that did not let go of its partitions in time."""
        group = self._directory.groups.get(event.group_id)
        if (
            not isinstance(group, ConsumerGroup)
            or group.current_of(event.member_id).member_epoch != event.member_epoch
        ):
            return _NOTHING
        return self.fence(event.group_id, event.member_id, events.SLOW, now_ms)

    def fence(
        self, group_id: GroupId, member_id: MemberId, going: Going, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove a member, if it is still there."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return _NOTHING
        return self._departures.remove(group, {member_id: going}, now_ms)

    def refresh_regexes(self, event: RegexRefresh, now_ms: int) -> CoordinatorResult[None]:
        """Resolve all expressions of a group; move it on if any stands for other topics now."""
        try:
            group = find_group(self._directory.groups, event.group_id)
        except KafkaError:
            return _NOTHING
        image = self._directory.image
        resolved = resolve(group.regex_subscribers, image.topics, image.version, now_ms)
        written = [
            records.regex_record(group.group_id, regex, topics)
            for regex, topics in sorted(resolved.items())
        ]
        told: list[Event] = []
        has_moved = any(
            topics.topics != group.resolved_regexes.get(regex, UNRESOLVED).topics
            for regex, topics in resolved.items()
        )
        topics_hash = self._directory.metadata_hash(
            subscribed_topics(group.members.values(), {**group.resolved_regexes, **resolved})
        )
        if has_moved or topics_hash != group.metadata_hash:
            written.append(records.group_epoch_record(group.group_id, group.epoch + 1, topics_hash))
            why = ["expressions stand for other topics than before"]
            told.append(moved_on(group.group_id, group.epoch + 1, why))
        return CoordinatorResult(response=None, records=written, events=told)

    # The world.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Give every member a new session, and those that are to let go their time to do so."""
        timers: list[TimerChange] = []
        for group in self._directory.groups.values():
            if isinstance(group, ConsumerGroup):
                timers.extend(self._timers_of(group, now_ms))
        self.surroundings.topics_created()
        return CoordinatorResult(response=None, timers=timers)

    def _timers_of(self, group: ConsumerGroup, now_ms: int) -> list[SetTimer]:
        group_id = group.group_id
        timeout_ms = self.settings.of(group).session_timeout_ms
        timers = []
        for member_id, member in group.members.items():
            timers.append(self.sessions.start(group_id, member_id, now_ms + timeout_ms))
            current = group.current_of(member_id)
            if current.state is MemberState.UNREVOKED_PARTITIONS:
                timers.append(
                    rebalance_timer(
                        group_id,
                        member_id,
                        current.member_epoch,
                        now_ms + member.rebalance_timeout_ms,
                    )
                )
        return timers

    def on_append_failed(
        self, undone: Sequence[CoordinatorRecord[object, object]], now_ms: int
    ) -> CoordinatorResult[None]:
        """Give the members a new session who were to leave, or to be elsewhere, and are still here.

        Their timers were forgotten by the decision that came to nothing. Who was to join and is not
        here is forgotten too.
        """
        timers: list[TimerChange] = []
        for record in undone:
            key = record.key
            if not isinstance(key, ConsumerGroupMemberMetadataKey):
                continue
            group = self._directory.groups.get(key.group_id)
            if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
                timers += self.sessions.end(key.group_id, key.member_id)
            elif record.value is None:
                deadline_ms = now_ms + self.settings.of(group).session_timeout_ms
                timers.append(self.sessions.start(key.group_id, key.member_id, deadline_ms))
        return CoordinatorResult(response=None, timers=timers)

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Take note of topics and settings that changed; heartbeats draw the consequences."""
        del now_ms
        if changes.configs:
            self.settings.forget()
        if changes.created:
            self.surroundings.topics_created()
        if changes.created or changes.deleted or changes.changed or changes.brokers_changed:
            moved = (*changes.created, *changes.deleted, *changes.changed)
            self.surroundings.topics_changed(topic.name for topic in moved)
        return _NOTHING


def _answered(removed: CoordinatorResult[None], response: R) -> CoordinatorResult[R]:
    return CoordinatorResult(
        response=response,
        records=removed.records,
        replies=removed.replies,
        timers=removed.timers,
        events=removed.events,
    )


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported | None:
    """Return the partitions a member says it owns; None when it does not say."""
    if request.topic_partitions is None:
        return None
    reported: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        reported.setdefault(topic.topic_id, set()).update(topic.partitions)
    return reported


def _gone_for_a_while(group: ConsumerGroup, member_id: MemberId) -> Record:
    """Mark a static member as away; what it had waits for whoever comes with its instance id.

    The epochs of its partitions go to zero, so that they are its successor's from the beginning.
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
            revocation=current.revocation.left_for_a_while(
                current.member_epoch, gave_up=bool(current.pending_revocation)
            ),
        ),
    )
