"""StreamsGroups: deciders, replayers and timers of streams groups (KIP-1071).

A heartbeat has six steps: update of the member, topology and its topics, group epoch, target
assignment, reconciliation, response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.modern.admission import find_group, find_member
from kafkalite.groups.modern.events import LEFT, Departure
from kafkalite.groups.modern.heartbeat import AssignorRun, target_records
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.groups.modern.timers import MemberTimers, remove_member_result, with_response
from kafkalite.groups.streams import events
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.admission import (
    admit,
    check_max_size,
    find_or_create_group,
    reported_tasks,
)
from kafkalite.groups.streams.describe import describe_group
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.heartbeat import (
    StreamsContext,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
)
from kafkalite.groups.streams.member import MemberState
from kafkalite.groups.streams.replay import replayers
from kafkalite.groups.streams.sessions import (
    InitialDelayEnded,
    InitialDelays,
    StreamsRebalanceExpiry,
    StreamsSessionExpiry,
    StreamsSessions,
)
from kafkalite.groups.streams.target import STICKY_ASSIGNOR, compute_target
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.member import Client
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol._generated.messages.streams_group_describe import (
        StreamsGroupDescribeResponse,
    )
    from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
    )

_NO_CHANGE: CoordinatorResult[None] = CoordinatorResult(response=None)


class StreamsGroups:
    """The streams groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._sessions = StreamsSessions()
        self._initial_delays = InitialDelays()
        self._context = StreamsContext(directory, self._initial_delays)
        self._settings = self._context.settings
        self._member_timers = MemberTimers(
            directory, StreamsGroup, self._sessions, self._remove, events.REVOCATION_TIMED_OUT
        )
        self.replayers = replayers(directory)
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            StreamsSessionExpiry: self._member_timers.expire_session,
            StreamsRebalanceExpiry: self._member_timers.expire_rebalance,
            InitialDelayEnded: self.end_initial_delay,
        }

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[StreamsHeartbeatResult]:
        """Handle a heartbeat of a member that joins, stays or leaves.

        The caller has validated the request's fields. Raises KafkaError for every refusal.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, now_ms)
        directory, group_id = self._directory, request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        group, initial_records = find_or_create_group(directory, group_id, is_joining=is_joining)
        if is_joining:
            check_max_size(group, request.member_id, self._settings.of(group).max_size)
        current = admit(group, request, reported_tasks(request))
        heartbeat = StreamsHeartbeat(
            self._context, group, request, current, initial_records=initial_records, now_ms=now_ms
        )
        heartbeat.update_member(client)
        heartbeat.check_topology()
        heartbeat.configure_topology()
        heartbeat.update_group_epoch()
        heartbeat.start_initial_delay(is_new=directory.groups.get(group_id) is not group)
        heartbeat.compute_target()
        heartbeat.reconcile()
        deadline_ms = now_ms + self._settings.of(group).session_timeout_ms
        heartbeat.timers += self._sessions.after_heartbeat(
            group_id, heartbeat.member_id, deadline_ms, is_join=is_joining
        )
        return CoordinatorResult(
            response=heartbeat.answer(),
            records=heartbeat.records,
            timers=heartbeat.timers,
            events=heartbeat.events,
        )

    def _leave(
        self, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[StreamsHeartbeatResult]:
        group = find_group(self._directory.groups, request.group_id, StreamsGroup)
        member_id = request.member_id
        if request.shutdown_application:
            group.soft.shutdown_requested_by = group.soft.shutdown_requested_by or member_id
        find_member(group, member_id)
        removed = self._remove(group, member_id, LEFT, now_ms)
        response = StreamsGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        return with_response(removed, StreamsHeartbeatResult(response))

    def _remove(
        self, group: StreamsGroup, member_id: MemberId, departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove a member and raise the group epoch."""
        group_id = group.group_id
        return remove_member_result(
            group,
            member_id,
            departure,
            events.member_removed_event(group, member_id, departure),
            records=[
                *records.member_tombstones(group_id, member_id),
                records.group_metadata_record(
                    group_id,
                    group.epoch + 1,
                    group.metadata_hash,
                    group.validated_topology_epoch,
                    group.assignment_configs,
                ),
            ],
            timers=self._sessions.cancel_timers(group_id, member_id),
            now_ms=now_ms,
        )

    def describe(self, group_id: GroupId) -> StreamsGroupDescribeResponse.DescribedGroup:
        """Describe a group; raises KafkaError(GROUP_ID_NOT_FOUND) if none of this type exists."""
        return describe_group(find_group(self._directory.groups, group_id, StreamsGroup))

    # Timers.

    def end_initial_delay(self, event: InitialDelayEnded, now_ms: int) -> CoordinatorResult[None]:
        """Assign tasks to the members; each gets its tasks by its next heartbeat."""
        self._initial_delays.end(event.group_id)
        group = self._directory.groups.get(event.group_id)
        if (
            not isinstance(group, StreamsGroup)
            or group.is_empty()
            or group.epoch <= group.target_epoch
            or group.soft.configured is None
        ):
            return _NO_CHANGE
        targets = compute_target(
            group.members, group.target, group.soft.configured, group.assignment_configs
        )
        run = AssignorRun(STICKY_ASSIGNOR, targets, group.target)
        epoch_and_target_records, target_event = target_records(
            StreamsHeartbeat.RECORDS, group.group_id, group.epoch, run, now_ms
        )
        return CoordinatorResult(
            response=None, records=epoch_and_target_records, events=[target_event]
        )

    # Loading and metadata.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Start new sessions of all members, and rebalance timers of pending revocations."""
        revocation_timers = (StreamsRebalanceExpiry, MemberState.UNREVOKED_TASKS)
        return CoordinatorResult(
            response=None,
            timers=self._member_timers.start_all(self._settings, now_ms, revocation_timers),
        )

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Record changed topics and settings; the next heartbeats react to them."""
        del now_ms
        self._context.on_image(changes)
        return _NO_CHANGE
