"""ConsumerGroups: what a heartbeat, a silence or a change of topics means to a group (KIP-848).

One heartbeat is at most five steps, each of them skipped when nothing asks for it: the member's
own words, the group epoch, the target assignment, the member's next step towards it, the answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.admission import (
    Identity,
    admit,
    check_holds_instance,
    check_room,
    find_group,
    find_or_found_group,
    member_or_refuse,
    named_member,
)
from kafkalite.groups.consumer.beat import Beat, Client, Surroundings
from kafkalite.groups.consumer.describe import describe_group
from kafkalite.groups.consumer.group import ConsumerGroup, subscribed_topics
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
from kafkalite.groups.consumer.topics import metadata_hash
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkalite.protocol.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.consumer.reconcile import Reported
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeResponse,
    )
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest

_NOTHING: CoordinatorResult[None] = CoordinatorResult(response=None)


class ConsumerGroups:
    """The consumer groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._settings = SettingsBook(directory.config)
        self._sessions = Sessions()
        self._surroundings = Surroundings(directory, self._settings)
        self._steady = SteadyAnswers(self._surroundings, self._sessions)
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
            return self._leave(request)
        group_id = request.group_id
        member = Identity(
            member_id=request.member_id,
            instance_id=request.instance_id,
            member_epoch=request.member_epoch,
            reported=_reported(request),
        )
        is_joining = request.member_epoch == JOIN_EPOCH
        group, made_room = find_or_found_group(
            self._directory.groups, group_id, is_joining=is_joining
        )
        check_room(group, member, self._settings.of(group).max_size)
        if not member.member_id:
            member = replace(member, member_id=uuid_to_text(self._directory.entropy.uuid()))
        admitted = admit(group, member)
        beat = Beat(self._surroundings, group, member, admitted, made_room=made_room, now_ms=now_ms)
        beat.hear(request, client)
        beat.move_group_epoch()
        beat.compute_target()
        beat.reconcile()
        return CoordinatorResult(
            response=beat.answer(request),
            records=beat.records,
            timers=self._timers_after(beat, admitted.replaces),
        )

    def _timers_after(self, beat: Beat, replaced: MemberId | None) -> list[TimerChange]:
        group_id, member_id = beat.group.group_id, beat.member_id
        timers = beat.timers
        if replaced is not None and replaced != member_id:
            timers.extend(self._sessions.end(group_id, replaced))
        deadline_ms = beat.now_ms + self._settings.of(beat.group).session_timeout_ms
        # A join sets the timer whatever is remembered of it: an earlier join may have failed to
        # reach the log, and its timers with it.
        timer = (
            self._sessions.start(group_id, member_id, deadline_ms)
            if beat.is_join
            else self._sessions.extend(group_id, member_id, deadline_ms)
        )
        if timer is not None:
            timers.append(timer)
        return timers

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest
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
                    response=response, records=[_gone_for_a_while(group, request.member_id)]
                )
        member_or_refuse(group, request.member_id)
        removed, timers = self._remove(group, (request.member_id,))
        return CoordinatorResult(response=response, records=removed, timers=timers)

    def leave_classically(
        self, group: ConsumerGroup, request: LeaveGroupRequest
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Decide a LeaveGroup: how administrators remove members, whatever protocol these speak.

        Each member is answered by itself; the group moves on once for all who left.
        """
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[MemberId, None] = {}
        for named in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=named.member_id, group_instance_id=named.group_instance_id
            )
            answers.append(answer)
            try:
                leaving[named_member(group, named.member_id, named.group_instance_id)] = None
            except KafkaError as refusal:
                answer.error_code = refusal.code
        removed, timers = self._remove(group, leaving) if leaving else ([], [])
        return CoordinatorResult(
            response=LeaveGroupResponse(members=answers), records=removed, timers=timers
        )

    def _remove(
        self, group: ConsumerGroup, member_ids: Collection[MemberId]
    ) -> tuple[list[Record], list[TimerChange]]:
        """Take members out of the group and move the group on without them."""
        group_id = group.group_id
        written: list[Record] = []
        timers: list[TimerChange] = []
        for member_id in member_ids:
            written += records.member_tombstones(group_id, member_id)
            timers += self._sessions.end(group_id, member_id)
        remaining = [member for m, member in group.members.items() if m not in member_ids]
        wanted = {member.topic_regex for member in remaining}
        left = {group.members[member_id].topic_regex for member_id in member_ids}
        resolved = dict(group.resolved_regexes)
        for regex in sorted(resolved.keys() & left - wanted):
            written.append(records.regex_tombstone(group_id, regex))
            del resolved[regex]
        topics_hash = metadata_hash(subscribed_topics(remaining, resolved), self._directory.image)
        written.append(records.group_epoch_record(group_id, group.epoch + 1, topics_hash))
        return written, timers

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
        if (timer := self._sessions.still_running(event, now_ms)) is not None:
            return CoordinatorResult(response=None, timers=(timer,))
        return self._fence(event.group_id, event.member_id)

    def expire_rebalance(self, event: RebalanceExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that did not let go of its partitions in time."""
        del now_ms
        group = self._directory.groups.get(event.group_id)
        if (
            not isinstance(group, ConsumerGroup)
            or group.current_of(event.member_id).member_epoch != event.member_epoch
        ):
            return _NOTHING
        return self._fence(event.group_id, event.member_id)

    def _fence(self, group_id: GroupId, member_id: MemberId) -> CoordinatorResult[None]:
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return _NOTHING
        removed, timers = self._remove(group, (member_id,))
        return CoordinatorResult(response=None, records=removed, timers=timers)

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
        has_moved = any(
            topics.topics != group.resolved_regexes.get(regex, UNRESOLVED).topics
            for regex, topics in resolved.items()
        )
        topics_hash = metadata_hash(
            subscribed_topics(group.members.values(), {**group.resolved_regexes, **resolved}),
            image,
        )
        if has_moved or topics_hash != group.metadata_hash:
            written.append(records.group_epoch_record(group.group_id, group.epoch + 1, topics_hash))
        return CoordinatorResult(response=None, records=written)

    # The world.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Give every member a new session, and those that are to let go their time to do so."""
        timers: list[TimerChange] = []
        for group in self._directory.groups.values():
            if isinstance(group, ConsumerGroup):
                timers.extend(self._timers_of(group, now_ms))
        self._surroundings.topics_created()
        return CoordinatorResult(response=None, timers=timers)

    def _timers_of(self, group: ConsumerGroup, now_ms: int) -> list[SetTimer]:
        group_id = group.group_id
        timeout_ms = self._settings.of(group).session_timeout_ms
        timers = []
        for member_id, member in group.members.items():
            timers.append(self._sessions.start(group_id, member_id, now_ms + timeout_ms))
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

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Take note of topics and settings that changed; heartbeats draw the consequences."""
        del now_ms
        if changes.configs:
            self._settings.forget()
        if changes.created:
            self._surroundings.topics_created()
        if changes.created or changes.deleted or changes.changed or changes.brokers_changed:
            self._surroundings.topics_changed()
        return _NOTHING


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
        ),
    )
