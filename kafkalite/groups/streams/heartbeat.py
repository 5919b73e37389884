"""StreamsHeartbeat: the steps of a heartbeat of a streams group (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern.context import GroupContext
from kafkalite.groups.modern.heartbeat import AssignorRun, HeartbeatRecords, ModernHeartbeat
from kafkalite.groups.modern.member import JOIN_EPOCH, UNCHANGED_MS
from kafkalite.groups.streams import events
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.admission import reported_tasks
from kafkalite.groups.streams.configured_topology import configure
from kafkalite.groups.streams.descriptions import DescriptionBackoffs
from kafkalite.groups.streams.group import NOT_VALIDATED, StreamsGroup
from kafkalite.groups.streams.member import (
    NO_TASK_OFFSETS,
    CurrentTasks,
    Endpoint,
    MemberMetadata,
    MemberState,
    TaskOffsets,
)
from kafkalite.groups.streams.reconcile import ReconcileInput, reconcile
from kafkalite.groups.streams.sessions import StreamsRebalanceExpiry
from kafkalite.groups.streams.settings import StreamsSettings, StreamsSettingsCache
from kafkalite.groups.streams.status import Status, StatusCode
from kafkalite.groups.streams.target import RACK_TAGS, AssignmentInput, compute_target
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks, to_structs
from kafkalite.groups.streams.topology import topology_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.config.rules import Rules
    from kafkalite.coordinator.contract import Event
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.groups.modern.member import Client
    from kafkalite.groups.streams.admission import AdmittedMember
    from kafkalite.groups.streams.configured_topology import (
        ConfiguredSubtopology,
        ConfiguredTopology,
    )
    from kafkalite.groups.streams.sessions import InitialDelays
    from kafkalite.groups.streams.tasks import OwnedTasks, TaskEpochs, TaskIds
    from kafkalite.groups.streams.topology import InternalTopic, Topology
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
    )


class StreamsHeartbeatEra(NamedTuple):
    """Traits of a range of StreamsGroupHeartbeat versions."""

    reports_missing_tags: bool = True
    """Whether the status has the tags that the client lacks."""
    requests_descriptions: bool = True
    """Whether the response can request the description of the topology."""


class StreamsContext(GroupContext[StreamsSettingsCache]):
    """The directory, the settings and the delays, for the groups of one shard."""

    __slots__ = ("description_backoffs", "initial_delays", "rules")

    def __init__(self, directory: GroupDirectory, initial_delays: InitialDelays) -> None:
        super().__init__(directory, StreamsSettingsCache(directory.config))
        self.initial_delays = initial_delays
        self.description_backoffs = DescriptionBackoffs()
        self.rules = directory.rules

    def configured_topology(self, group: StreamsGroup, topology: Topology) -> ConfiguredTopology:
        """Return a group's topology configured with the current topics.

        Raises KafkaError for a topology that is invalid independent of the existing topics.
        """
        soft = group.soft
        if soft.configured is None or not self.is_metadata_hash_current(soft):
            soft.configured = configure(topology, self.directory.image)
            self.mark_metadata_hash_current(soft)
        return soft.configured


class StreamsHeartbeatResult(NamedTuple):
    """The response to a heartbeat, and internal topics to create."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


class StreamsHeartbeat(
    ModernHeartbeat[StreamsContext, StreamsGroup, MemberMetadata, CurrentTasks, Tasks]
):
    """One heartbeat of one member of a streams group."""

    __slots__ = (
        "_configured",
        "_era",
        "_reported",
        "_request",
        "_status",
        "_task_offsets",
        "_topology",
    )  # fmt: skip

    RECORDS = HeartbeatRecords(
        records.TYPES, records.target_tasks_record, records.current_tasks_record
    )

    def __init__(
        self,
        context: StreamsContext,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        admitted: AdmittedMember,
        *,
        era: StreamsHeartbeatEra,
        initial_records: tuple[Record, ...],
        now_ms: int,
    ) -> None:
        super().__init__(
            context,
            group,
            request.member_id,
            is_join=request.member_epoch == JOIN_EPOCH,
            member=admitted.stored,
            current=admitted.current,
            target=group.target.get(admitted.replaces or request.member_id, NO_TASKS),
            replaces=admitted.replaces,
            records=(*initial_records, *admitted.records),
            now_ms=now_ms,
        )
        self._request = request
        self._era = era
        self._task_offsets = group.soft.task_offsets.get(request.member_id, NO_TASK_OFFSETS)
        self._reported = reported_tasks(request)
        self._status: list[Status] = []

    # Step 1: update of the member.

    def update_member(self, client: Client) -> None:
        """Update the member's metadata from the request; omitted fields keep their values."""
        group, stored, rules = self.group, self._stored, self._context.rules
        replaces_endpoint = self.is_join and rules.reports_changed_endpoints
        self.member = updated_member(
            stored, self._request, client, replaces_endpoint=replaces_endpoint
        )
        if self._replaces is not None:
            self.events.append(
                events.static_member_rejoined_event(
                    group, self.member_id, self.member, self._replaces
                )
            )
        is_known = self.member_id in group.members or self._replaces is not None
        if is_known and (self.member is stored or self.member == stored):
            return
        self.records.append(
            records.member_metadata_record(group.group_id, self.member_id, self.member)
        )
        if is_known:
            if self._request.instance_id is None or _must_reassign(stored, self.member):
                self._reasons.append(f"member {self.member_id} changed")
            return
        self._reasons.append(f"member {self.member_id} joined")
        self.events.append(events.member_joined_event(group, self.member_id, self.member))

    # Step 2: the topology.

    def check_topology(self) -> None:
        """Store the first member's topology; later members must send the same one or an older one.

        Raises KafkaError(INVALID_REQUEST) for other topologies: Kafka 4.4 cannot change them.
        """
        group, topology_in_request = self.group, self._request.topology
        group_topology = group.topology
        member_topology = (
            group_topology if topology_in_request is None else topology_of(topology_in_request)
        )
        if group_topology is None:
            if member_topology is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
            self.records.append(records.topology_record(group.group_id, member_topology))
            self._topology = member_topology
            return
        if (
            member_topology is not None
            and member_topology.epoch >= group_topology.epoch
            and member_topology != group_topology
        ):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The topology differs from the group's; changes of topologies are not supported.",
                {
                    "topology_epoch": group_topology.epoch,
                    "received_topology_epoch": member_topology.epoch,
                },
            )
        self._topology = group_topology
        if self.member.topology_epoch < group_topology.epoch:
            self._status.append(
                Status(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch is {self.member.topology_epoch}, the group's is "
                    f"{group_topology.epoch}.",
                )
            )

    def configure_topology(self) -> None:
        """Check whether all topics of the topology exist and are valid."""
        group = self.group
        self._configured = configured = self._context.configured_topology(group, self._topology)
        configured.check_tasks(self._reported)
        self._task_offsets = updated_offsets(self._task_offsets, self._request)
        if configured.metadata_hash != group.metadata_hash:
            self._reasons.append("topics changed")
        if self._validated_epoch() != group.validated_topology_epoch:
            self._reasons.append(
                "all topics are valid" if configured.is_ready else "topics are missing or invalid"
            )

    def _validated_epoch(self) -> int:
        return self._topology.epoch if self._configured.is_ready else NOT_VALIDATED

    # Step 3: the group epoch.

    def update_group_epoch(self) -> None:
        """Raise the group epoch if members, topics or assignment settings changed."""
        group = self.group
        configs = self._settings().assignment_configs
        if configs != group.assignment_configs:
            self._reasons.append("assignment settings changed")
        if not self._reasons:
            return
        epoch_record = records.group_metadata_record(
            group.group_id,
            self.epoch + 1,
            self._configured.metadata_hash,
            self._validated_epoch(),
            configs,
            descriptions=group.descriptions,
        )
        self._raise_group_epoch(epoch_record, self._reasons)

    # Step 4: the target assignment.

    def start_initial_delay(self, *, is_new: bool) -> None:
        """Start the initial rebalance delay of a group that was empty."""
        group, initial_delays = self.group, self._context.initial_delays
        if is_new:
            initial_delays.end(group.group_id)
        delay_ms = self._settings().initial_delay_ms
        if group.is_empty() and delay_ms > 0:
            self.timers.append(
                initial_delays.begin(group.group_id, self.now_ms, delay_ms, is_new=is_new)
            )

    def compute_target(self) -> None:
        """Run the assignor if the group epoch is above the target epoch and no delay is running."""
        group = self.group
        if self._context.initial_delays.is_running(group.group_id, self.now_ms):
            self.target = NO_TASKS
            self._add_delayed_status("the initial rebalance delay is running")
            return
        super().compute_target()

    def _assign(self) -> AssignorRun:
        group = self.group
        previous: Mapping[MemberId, Tasks] = group.target
        if self._replaces is not None:
            previous = {**previous, self.member_id: self.target}
        offsets = {**group.soft.task_offsets, self.member_id: self._task_offsets}
        current = {**group.current, self.member_id: self.current}
        inputs = assignment_input(
            self._context.rules, self._updated_members(), current, previous, offsets
        )
        run, placed_events = run_assignor(
            group, self.epoch, inputs, self._configured, self._settings()
        )
        self.events += placed_events
        return run._replace(previous=previous)

    def _on_assignment_postponed(self, interval_ms: int) -> None:
        self._add_delayed_status(f"the previous one is less than {interval_ms} ms old")

    def _add_delayed_status(self, reason: str) -> None:
        detail = f"There is no new assignment yet: {reason}."
        self._status.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))

    # Step 5: reconciliation.

    def reconcile(self) -> None:
        """Revoke and assign as many tasks as possible now."""
        if self.current.is_reconciled_to(self.target_epoch):
            return
        next_step = reconcile(
            self.current,
            ReconcileInput(
                target_epoch=self.target_epoch,
                target=self.target,
                process_id=self.member.process_id,
                reported=self._reported,
                owners=self.group,
                converts_tasks=self._context.rules.converts_tasks,
            ),
        )
        if next_step is self.current:
            return
        self.group.ownership().record_step(
            self.member_id,
            events.to_current_assignment(self.current),
            events.to_current_assignment(next_step),
            self.now_ms,
        )
        self._set_current(next_step)
        must_revoke = next_step.state is MemberState.UNREVOKED_TASKS
        self._set_revocation_timer(
            StreamsRebalanceExpiry(self.group.group_id, self.member_id, next_step.member_epoch),
            self.member.rebalance_timeout_ms if must_revoke else None,
        )

    # Step 6: the response.

    def answer(self) -> StreamsHeartbeatResult:
        """Return the response; it has the tasks only if the member needs them."""
        group, settings = self.group, self._settings()
        response = StreamsGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if self._context.rules.sends_offset_settings:
            response.task_offset_interval_ms = settings.task_offset_interval_ms
            response.acceptable_recovery_lag = settings.acceptable_recovery_lag
        if self._task_offsets is not NO_TASK_OFFSETS:
            group.soft.task_offsets[self.member_id] = self._task_offsets
        has_changed = self.current.assigned != self._initial_current.assigned
        if self.is_join or has_changed:
            assigned = self.current.assigned
            response.active_tasks = to_structs(_TaskIds, assigned.active)
            response.standby_tasks = to_structs(_TaskIds, assigned.standby)
            response.warmup_tasks = to_structs(_TaskIds, assigned.warmup)
        self._answer_endpoints(response, has_changed=has_changed)
        self._add_group_status()
        response.status = [
            StreamsGroupHeartbeatResponse.Status(
                status_code=int(status.code), status_detail=status.detail
            )
            for status in self._status
        ]
        self._request_description(response)
        return StreamsHeartbeatResult(response, self._configured.missing_topics)

    def _answer_endpoints(
        self, response: StreamsGroupHeartbeatResponse, *, has_changed: bool
    ) -> None:
        """Raise the endpoint epoch if tasks or addresses changed, and add it to the response."""
        group, soft = self.group, self.group.soft
        has_endpoint = self.member.user_endpoint is not None
        if self._context.rules.reports_changed_endpoints:
            has_new_endpoint = self.member.user_endpoint != self._stored.user_endpoint
            is_raised = has_new_endpoint or (has_changed and has_endpoint)
        else:
            is_raised = (self.is_join or has_changed) and has_endpoint
        if is_raised:
            soft.endpoint_epoch += 1
        if soft.endpoint_epoch != self._request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                self._current_tasks_by_member(),
                self._configured,
                self._context.directory.image,
                omits_topics=self._context.rules.reports_changed_endpoints,
            )
        if group.group_id in self._context.directory.groups:
            # A new group has no endpoint epoch until its next heartbeat.
            response.endpoint_information_epoch = soft.endpoint_epoch

    def _add_group_status(self) -> None:
        """Add the problem of the topology, a requested shutdown and missing tags."""
        soft = self.group.soft
        if self._configured.problem is not None:
            self._status.append(self._configured.problem)
        if self._request.shutdown_application:
            soft.shutdown_requested_by = soft.shutdown_requested_by or self.member_id
        if soft.shutdown_requested_by is not None:
            detail = (
                f"Member {soft.shutdown_requested_by} had a fatal error and requested a shutdown."
            )
            self._status.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        self._add_missing_tags()

    def _add_missing_tags(self) -> None:
        """Add a status for missing tags, and an event if they differ from those reported before."""
        reported_tags = self.group.soft.missing_tags
        missing = missing_tags(self._settings().rack_tags, self.member)
        if missing and self._era.reports_missing_tags:
            detail = (
                f"The client has no tags {', '.join(missing)}, which rack-aware assignment needs; "
                "set client.tag.TAG for each of them."
            )
            self._status.append(Status(StatusCode.MISSING_CLIENT_TAGS, detail))
        before = reported_tags.get(self.member_id)
        if missing == before:
            return
        reported_tags[self.member_id] = missing
        if before is None and not self.is_join:
            # A new group and a loaded shard have no soft state, but a record of the settings.
            recorded = self.group.assignment_configs.get(RACK_TAGS, "").split(",")
            before = missing_tags(filter(None, recorded), self._stored)
        if missing and missing != before:
            self.events.append(
                events.tags_missing_event(self.group.group_id, self.member_id, missing)
            )

    def _request_description(self, response: StreamsGroupHeartbeatResponse) -> None:
        """Request the description of the topology if a plugin stores it and has none."""
        group, epoch = self.group, self._topology.epoch
        if (
            not self._settings().stores_descriptions
            or not self._era.requests_descriptions
            or epoch in (group.descriptions.stored, group.descriptions.failed)
            or any(status.code is StatusCode.STALE_TOPOLOGY for status in self._status)
        ):
            return
        response.topology_description_required = self._context.description_backoffs.begin(
            group.group_id, epoch, self.now_ms, self._context.directory.entropy
        )

    def _current_tasks_by_member(self) -> Iterator[tuple[MemberMetadata, OwnedTasks]]:
        """Yield each member and its tasks; the requesting member is last, with its new tasks."""
        for member_id, member in self.group.members.items():
            if member_id not in (self.member_id, self._replaces):
                yield member, self.group.current_of(member_id).assigned
        yield self.member, self.current.assigned

    def _settings(self) -> StreamsSettings:
        return self._context.settings.of(self.group)


def assignment_input(
    rules: Rules,
    members: Mapping[MemberId, MemberMetadata],
    current: Mapping[MemberId, CurrentTasks],
    targets: Mapping[MemberId, Tasks],
    task_offsets: Mapping[MemberId, TaskOffsets],
) -> AssignmentInput:
    """Return the input of the assignor for these members, their current tasks and last targets."""
    previous = targets
    if rules.starts_from_current_tasks:
        previous = {
            member_id: tasks.assigned.without_epochs() for member_id, tasks in current.items()
        }
    return AssignmentInput(members, previous, task_offsets, rules)


def run_assignor(
    group: StreamsGroup,
    epoch: int,
    inputs: AssignmentInput,
    topology: ConfiguredTopology,
    settings: StreamsSettings,
) -> tuple[AssignorRun, list[Event]]:
    """Run the assignor for a group epoch; return the result and the events of standby tasks."""
    target = compute_target(inputs, topology, settings.assignment_configs)
    placed_events = events.standbys_placed_events(
        group.group_id, epoch, target.standbys, settings.rack_tags
    )
    return AssignorRun(settings.assignor, target.targets, group.target), placed_events


def missing_tags(required: Iterable[str], member: MemberMetadata) -> tuple[str, ...]:
    """Return the required tags that a member's client does not have."""
    return tuple(tag for tag in required if tag not in member.client_tags)


def _must_reassign(stored: MemberMetadata, member: MemberMetadata) -> bool:
    """Whether a change of a static member needs a new assignment."""
    return (stored.topology_epoch, stored.rack_id, stored.client_tags, stored.process_id) != (
        member.topology_epoch,
        member.rack_id,
        member.client_tags,
        member.process_id,
    )


def updated_offsets(stored: TaskOffsets, request: StreamsGroupHeartbeatRequest) -> TaskOffsets:
    """Return a member's reported offsets after a heartbeat: `stored` itself if it reports none.

    Raises KafkaError(INVALID_REQUEST) for two offsets of one task.
    """
    if request.task_offsets is None and request.task_end_offsets is None:
        return stored
    offsets, end_offsets = request.task_offsets, request.task_end_offsets
    return TaskOffsets(
        stored.offsets if offsets is None else _offsets_by_task(offsets),
        stored.end_offsets if end_offsets is None else _offsets_by_task(end_offsets),
    )


def _offsets_by_task(
    offsets: Iterable[StreamsGroupHeartbeatRequest.TaskOffset],
) -> Mapping[str, Mapping[int, int]]:
    by_task: dict[str, dict[int, int]] = {}
    for each in offsets:
        by_partition = by_task.setdefault(each.subtopology_id, {})
        if each.partition in by_partition:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task {each.subtopology_id}_{each.partition} has two offsets.",
            )
        by_partition[each.partition] = each.offset
    return by_task


def updated_member(
    stored: MemberMetadata,
    request: StreamsGroupHeartbeatRequest,
    client: Client,
    *,
    replaces_endpoint: bool,
) -> MemberMetadata:
    """Return the member's metadata after a heartbeat: `stored` itself if nothing changed.

    With `replaces_endpoint`, a request without endpoint removes it.
    """
    if (
        request.topology is None
        and request.rebalance_timeout_ms == UNCHANGED_MS
        and request.rack_id is None
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.instance_id in (None, stored.instance_id)
        and client.client_id == stored.client_id
        and client.host == stored.client_host
    ):
        # The usual case.
        return stored
    timeout_ms, requested, tags = (
        request.rebalance_timeout_ms,
        request.user_endpoint,
        request.client_tags,
    )
    endpoint = None if replaces_endpoint else stored.user_endpoint
    return MemberMetadata(
        instance_id=stored.instance_id if request.instance_id is None else request.instance_id,
        rack_id=stored.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            stored.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms
        ),
        topology_epoch=(
            stored.topology_epoch if request.topology is None else request.topology.epoch
        ),
        process_id=stored.process_id if request.process_id is None else request.process_id,
        user_endpoint=(endpoint if requested is None else Endpoint(requested.host, requested.port)),
        client_tags=stored.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


_TaskIds = StreamsGroupHeartbeatResponse.TaskIds
_TopicPartition = StreamsGroupHeartbeatResponse.TopicPartition


def partitions_by_endpoint(
    members: Iterable[tuple[MemberMetadata, OwnedTasks]],
    topology: ConfiguredTopology,
    image: MetadataImage,
    *,
    omits_topics: bool,
) -> list[StreamsGroupHeartbeatResponse.EndpointToPartitions]:
    """Return the partitions of each member with an endpoint.

    The list is empty while topics of the topology are missing. With `omits_topics`, as in Kafka
    4.4, topics without partitions are omitted, and standby partitions include those of warm-ups.
    """
    subtopologies = topology.subtopologies
    if subtopologies is None:
        return []
    partitions = _existing_partitions if omits_topics else _first_partitions
    return [
        StreamsGroupHeartbeatResponse.EndpointToPartitions(
            user_endpoint=StreamsGroupHeartbeatResponse.Endpoint(
                host=member.user_endpoint.host, port=member.user_endpoint.port
            ),
            active_partitions=partitions(owned.active, subtopologies, image),
            standby_partitions=partitions(
                owned.copies() if omits_topics else owned.standby, subtopologies, image
            ),
        )
        for member, owned in members
        if member.user_endpoint is not None
    ]


_Partitions = tuple[str, list[int], int]
"""A topic, the partitions of tasks that read it, and the number of its partitions."""


def _partitions_of_tasks(
    tasks: TaskIds | TaskEpochs,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    image: MetadataImage,
) -> Iterator[_Partitions]:
    for name, partitions in sorted(tasks.items()):
        if name in subtopologies:
            for topic in sorted(set(subtopologies[name].inputs())):
                if topic in image.topics:
                    yield topic, sorted(partitions), len(image.topics[topic].partitions)


def _first_partitions(
    tasks: TaskIds | TaskEpochs,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    image: MetadataImage,
) -> list[_TopicPartition]:
    return [
        # A topic may have fewer partitions than there are tasks.
        _TopicPartition(topic=topic, partitions=partitions[:count])
        for topic, partitions, count in _partitions_of_tasks(tasks, subtopologies, image)
    ]


def _existing_partitions(
    tasks: TaskIds | TaskEpochs,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    image: MetadataImage,
) -> list[_TopicPartition]:
    return [
        _TopicPartition(topic=topic, partitions=existing)
        for topic, partitions, count in _partitions_of_tasks(tasks, subtopologies, image)
        if (existing := [partition for partition in partitions if partition < count])
    ]
