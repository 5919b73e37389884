"""StreamsGroups: deciders, replayers and timers of streams groups (KIP-1071).

A heartbeat has six steps: update of the member, topology and its topics, group epoch, target
assignment, reconciliation, response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.modern.admission import (
    check_holds_instance,
    find_group,
    find_member,
)
from kafkalite.groups.modern.events import LEFT, Departure, static_member_left_event
from kafkalite.groups.modern.heartbeat import target_records
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kafkalite.groups.modern.timers import (
    MemberTimers,
    remove_members_result,
    target_reset_records,
    with_response,
)
from kafkalite.groups.streams import events
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.admission import (
    admit,
    check_max_size,
    find_or_create_group,
    left_temporarily_record,
    reported_tasks,
)
from kafkalite.groups.streams.describe import attach_description, describe_group
from kafkalite.groups.streams.descriptions import (
    NO_DESCRIPTION,
    UNCERTAIN,
    StoredDescription,
    check_described_epoch,
    description_of,
)
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.heartbeat import (
    StreamsContext,
    StreamsHeartbeat,
    StreamsHeartbeatEra,
    StreamsHeartbeatResult,
    assignment_input,
    run_assignor,
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
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )

_LATEST: Final = StreamsHeartbeatEra()
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
        self,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
        era: StreamsHeartbeatEra = _LATEST,
    ) -> CoordinatorResult[StreamsHeartbeatResult]:
        """Handle a heartbeat of a member that joins, stays or leaves.

        The caller has validated the request's fields. Raises KafkaError for every refusal.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, now_ms)
        directory, group_id = self._directory, request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        group, initial_records = find_or_create_group(directory, group_id, is_joining=is_joining)
        rules = self._context.rules
        if is_joining:
            check_max_size(
                group,
                request,
                self._settings.of(group).max_size,
                admits_rejoins=rules.admits_rejoins_to_full_streams_groups,
            )
        admitted = admit(group, request, reported_tasks(request))
        heartbeat = StreamsHeartbeat(
            self._context,
            group,
            request,
            admitted,
            era=era,
            initial_records=initial_records,
            now_ms=now_ms,
        )
        heartbeat.update_member(client)
        heartbeat.check_topology()
        heartbeat.configure_topology()
        heartbeat.update_group_epoch()
        heartbeat.start_initial_delay(is_new=directory.groups.get(group_id) is not group)
        heartbeat.compute_target()
        heartbeat.reconcile()
        self._add_session_timers(heartbeat, admitted.replaces)
        return CoordinatorResult(
            response=heartbeat.answer(),
            records=heartbeat.records,
            timers=heartbeat.timers,
            events=heartbeat.events,
        )

    def _add_session_timers(self, heartbeat: StreamsHeartbeat, replaced: MemberId | None) -> None:
        """Extend the session of the member, and end that of the member that it replaces."""
        group_id, member_id = heartbeat.group.group_id, heartbeat.member_id
        if replaced is not None and replaced != member_id:
            heartbeat.timers += self._sessions.cancel_timers(group_id, replaced)
        timeout_ms = self._settings.of(heartbeat.group).session_timeout_ms
        heartbeat.timers += self._sessions.after_heartbeat(
            group_id, member_id, heartbeat.now_ms + timeout_ms, is_join=heartbeat.is_join
        )

    def _leave(
        self, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[StreamsHeartbeatResult]:
        group = find_group(self._directory.groups, request.group_id, StreamsGroup)
        member_id = request.member_id
        if request.shutdown_application:
            group.soft.shutdown_requested_by = group.soft.shutdown_requested_by or member_id
        response = StreamsGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is not None:
            check_holds_instance(group.static_members, member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return CoordinatorResult(
                    response=StreamsHeartbeatResult(response),
                    records=[left_temporarily_record(group, member_id)],
                    events=[static_member_left_event(group, member_id)],
                )
        find_member(group, member_id)
        removed = self._remove(group, member_id, LEFT, now_ms)
        return with_response(removed, StreamsHeartbeatResult(response))

    def _remove(
        self, group: StreamsGroup, member_id: MemberId, departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        return self.remove_members(group, (member_id,), departure, now_ms)

    def remove_members(
        self, group: StreamsGroup, member_ids: Iterable[MemberId], departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove members, which exist, and raise the group epoch."""
        group_id = group.group_id
        leaving = {each: events.member_removed_event(group, each, departure) for each in member_ids}
        is_emptied = len(leaving) == len(group.members)
        return remove_members_result(
            group,
            departure,
            leaving,
            records=[
                *(
                    tombstone
                    for each in leaving
                    for tombstone in records.member_tombstones(group_id, each)
                ),
                group.metadata_record(group.epoch + 1),
                *target_reset_records(
                    records.TYPES, group, self._context.rules, is_emptied=is_emptied
                ),
            ],
            timers=[
                timer for each in leaving for timer in self._sessions.cancel_timers(group_id, each)
            ],
            now_ms=now_ms,
        )

    def describe(
        self, group_id: GroupId, *, includes_description: bool = False
    ) -> StreamsGroupDescribeResponse.DescribedGroup:
        """Describe a group; raises KafkaError(GROUP_ID_NOT_FOUND) if none of this type exists."""
        group = find_group(self._directory.groups, group_id, StreamsGroup)
        described = describe_group(group, self.assignor_of(group))
        if includes_description:
            attach_description(described, group)
        return described

    def assignor_of(self, group: StreamsGroup) -> str:
        """Return the assignor of a group's next assignment."""
        return self._settings.of(group).assignor

    def store_description(
        self, request: StreamsGroupTopologyDescriptionUpdateRequest, now_ms: int
    ) -> CoordinatorResult[None]:
        """Store the description of a group's topology.

        Raises KafkaError for an unknown group or member, another epoch, or an invalid description.
        """
        del now_ms
        group = find_group(self._directory.groups, request.group_id, StreamsGroup)
        find_member(group, request.member_id)
        epoch = NO_DESCRIPTION if group.topology is None else group.topology.epoch
        check_described_epoch(request.topology_epoch, epoch)
        description = description_of(request.topology_description)
        group.soft.description = StoredDescription(epoch, description)
        self._context.description_backoffs.end(group.group_id)
        # Kafka marks the description as uncertain before its plugin stores it.
        before = group.descriptions
        written = [group.metadata_record(group.epoch, before._replace(stored=epoch))]
        if before.stored != UNCERTAIN:
            uncertain = before._replace(stored=UNCERTAIN)
            written.insert(0, group.metadata_record(group.epoch, uncertain))
        event = events.description_stored_event(group.group_id, request.member_id, epoch)
        return CoordinatorResult(response=None, records=written, events=[event])

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
        inputs = assignment_input(
            self._context.rules,
            group.members,
            group.current,
            group.target,
            group.soft.task_offsets,
        )
        # The group epoch belongs to the recorded settings, not to newer ones.
        settings = self._settings.of(group)._replace(assignment_configs=group.assignment_configs)
        run, placed_events = run_assignor(
            group, group.epoch, inputs, group.soft.configured, settings
        )
        epoch_and_target_records, target_event = target_records(
            StreamsHeartbeat.RECORDS, group.group_id, group.epoch, run, now_ms
        )
        return CoordinatorResult(
            response=None, records=epoch_and_target_records, events=[*placed_events, target_event]
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
