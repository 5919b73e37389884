"""StreamsGroups: what a heartbeat, a silence or a change of topics means to a group (KIP-1071).

A heartbeat is six steps: the member's own words, the topology and its topics, the group epoch, the
target assignment, the member's next step towards it, the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.events import LEFT, SILENT, Going, moved_on
from kafkalite.groups.streams import events, records
from kafkalite.groups.streams.admission import (
    admit,
    check_room,
    find_group,
    find_or_found_group,
    reported_tasks,
)
from kafkalite.groups.streams.beat import Beat, Beaten, Surroundings, target_records
from kafkalite.groups.streams.commits import check_member
from kafkalite.groups.streams.describe import describe_group
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.member import JOIN_EPOCH, MemberState
from kafkalite.groups.streams.replay import StreamsGroupReplay
from kafkalite.groups.streams.sessions import (
    InitialDelayEnded,
    InitialDelays,
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    rebalance_timer,
)
from kafkalite.groups.streams.settings import SettingsBook
from kafkalite.groups.streams.target import compute_target
from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
    from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_NOTHING: CoordinatorResult[None] = CoordinatorResult(response=None)


class StreamsGroups:
    """The streams groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._settings = SettingsBook(directory.config)
        self._sessions = Sessions()
        self._delays = InitialDelays()
        self._around = Surroundings(directory, self._settings, self._delays)
        self.replayers = StreamsGroupReplay(directory).replayers()
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            SessionExpiry: self.expire_session,
            RebalanceExpiry: self.expire_rebalance,
            InitialDelayEnded: self.end_initial_delay,
        }

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[Beaten]:
        """Let a member join, stay, move on or leave.

        KafkaError for every refusal; the request is one whose form was checked.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, now_ms)
        directory, group_id = self._directory, request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        group, made_room = find_or_found_group(directory, group_id, is_joining=is_joining)
        if is_joining:
            check_room(group, self._settings.of(group).max_size)
        current = admit(group, request, reported_tasks(request))
        beat = Beat(self._around, group, request, current, made_room=made_room, now_ms=now_ms)
        beat.hear(client)
        beat.agree_on_topology()
        beat.hold_against_topics()
        beat.move_group_epoch()
        beat.delay_first_assignment(is_new=directory.groups.get(group_id) is not group)
        beat.compute_target()
        beat.reconcile()
        deadline_ms = now_ms + self._settings.of(group).session_timeout_ms
        # A join sets the timer whatever is remembered of it: an earlier join may have failed to
        # reach the log, and its timers with it.
        if is_joining or not self._sessions.prolong(group_id, beat.member_id, deadline_ms):
            beat.timers.append(self._sessions.start(group_id, beat.member_id, deadline_ms))
        return CoordinatorResult(
            response=beat.answer(), records=beat.records, timers=beat.timers, events=beat.events
        )

    def _leave(
        self, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[Beaten]:
        group = find_group(self._directory, request.group_id)
        member_id = request.member_id
        if request.shutdown_application:
            group.soft.shutdown_by = group.soft.shutdown_by or member_id
        check_member(group, member_id)
        removed = self._remove(group, member_id, LEFT, now_ms)
        response = StreamsGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        return CoordinatorResult(
            response=Beaten(response),
            records=removed.records,
            timers=removed.timers,
            events=removed.events,
        )

    def _remove(
        self, group: StreamsGroup, member_id: MemberId, going: Going, now_ms: int
    ) -> CoordinatorResult[None]:
        """Take a member out of the group and move the group on without it."""
        group_id, epoch = group.group_id, group.epoch + 1
        group.hand_overs().note_departure(member_id, going.how, now_ms)
        return CoordinatorResult(
            response=None,
            records=[
                *records.member_tombstones(group_id, member_id),
                records.group_metadata_record(
                    group_id,
                    epoch,
                    group.metadata_hash,
                    group.validated_topology_epoch,
                    group.assignment_configs,
                ),
            ],
            timers=self._sessions.end(group_id, member_id),
            events=[
                events.gone(group, member_id, going),
                moved_on(group_id, epoch, [f"member {member_id} is gone: {going.how}"]),
            ],
        )

    def describe(self, group_id: GroupId) -> StreamsGroupDescribeResponse.DescribedGroup:
        """Describe a group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of this type."""
        return describe_group(find_group(self._directory, group_id))

    # Timers.

    def expire_session(self, event: SessionExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that has been silent for too long."""
        if (timer := self._sessions.still_running(event, now_ms)) is not None:
            return CoordinatorResult(response=None, timers=(timer,))
        return self._expire(event.group_id, event.member_id, SILENT, now_ms)

    def expire_rebalance(self, event: RebalanceExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that did not let go of its tasks in time."""
        group = self._directory.groups.get(event.group_id)
        if (
            not isinstance(group, StreamsGroup)
            or group.current_of(event.member_id).member_epoch != event.member_epoch
        ):
            return _NOTHING
        return self._expire(event.group_id, event.member_id, events.SLOW, now_ms)

    def _expire(
        self, group_id: GroupId, member_id: MemberId, going: Going, now_ms: int
    ) -> CoordinatorResult[None]:
        group = self._directory.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or member_id not in group.members:
            return _NOTHING
        return self._remove(group, member_id, going, now_ms)

    def end_initial_delay(self, event: InitialDelayEnded, now_ms: int) -> CoordinatorResult[None]:
        """Assign tasks to the members that have come so far; each learns of it by its heartbeat."""
        self._delays.end(event.group_id)
        group = self._directory.groups.get(event.group_id)
        if (
            not isinstance(group, StreamsGroup)
            or group.is_empty()
            or group.epoch <= group.target_epoch
            or group.soft.configured is None
        ):
            return _NOTHING
        targets = compute_target(
            group.members, group.target, group.soft.configured, group.assignment_configs
        )
        written, told = target_records(group, targets, group.epoch, now_ms)
        return CoordinatorResult(response=None, records=written, events=[told])

    # The world.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Give every member a new session, and those that are to let go their time to do so."""
        timers: list[TimerChange] = []
        for group in self._directory.groups.values():
            if isinstance(group, StreamsGroup):
                timers += self._timers_of(group, now_ms)
        return CoordinatorResult(response=None, timers=timers)

    def _timers_of(self, group: StreamsGroup, now_ms: int) -> list[TimerChange]:
        group_id = group.group_id
        deadline_ms = now_ms + self._settings.of(group).session_timeout_ms
        timers: list[TimerChange] = []
        for member_id, member in group.members.items():
            timers.append(self._sessions.start(group_id, member_id, deadline_ms))
            current = group.current_of(member_id)
            if current.state is MemberState.UNREVOKED_TASKS:
                its_deadline_ms = now_ms + member.rebalance_timeout_ms
                timers.append(
                    rebalance_timer(group_id, member_id, current.member_epoch, its_deadline_ms)
                )
        return timers

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Take note of topics and settings that changed; heartbeats draw the consequences."""
        del now_ms
        if changes.configs:
            self._settings.forget()
        if changes.created or changes.deleted or changes.changed or changes.brokers_changed:
            self._around.topics_changed()
        return _NOTHING
