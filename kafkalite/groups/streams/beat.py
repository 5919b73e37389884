"""Beat: one heartbeat on its way through the steps, and what it has decided so far.

Nothing here changes the group. Each step reads the group as it stands and what the steps before
it decided, and adds records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.consumer.target import may_assign_now
from kafkalite.groups.events import assigned, moved_on, postponed
from kafkalite.groups.streams import events, records
from kafkalite.groups.streams.admission import reported_tasks
from kafkalite.groups.streams.configured import configure
from kafkalite.groups.streams.endpoints import partitions_by_endpoint
from kafkalite.groups.streams.group import NOT_VALIDATED
from kafkalite.groups.streams.member import JOIN_EPOCH, Endpoint, MemberMetadata, MemberState
from kafkalite.groups.streams.reconcile import Towards, reconcile
from kafkalite.groups.streams.sessions import cancel_rebalance_timer, rebalance_timer
from kafkalite.groups.streams.status import Status, StatusCode
from kafkalite.groups.streams.target import compute_target
from kafkalite.groups.streams.tasks import NO_TASKS
from kafkalite.groups.streams.topology import check_size, topology_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.coordinator.contract import Event, TimerChange
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.groups.streams.configured import ConfiguredTopology
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.groups.streams.member import CurrentTasks
    from kafkalite.groups.streams.sessions import InitialDelays
    from kafkalite.groups.streams.settings import GroupSettings, SettingsBook
    from kafkalite.groups.streams.tasks import EpochsOfTasks, HeldTasks, TaskIds, Tasks
    from kafkalite.groups.streams.topology import InternalTopic, Topology
    from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_UNCHANGED_MS = -1
"""What a member sends as its rebalance timeout when it has not changed."""


class Surroundings:
    """What groups look at besides themselves; topics and settings come in turns."""

    __slots__ = ("_topics_turn", "delays", "directory", "settings")

    def __init__(
        self, directory: GroupDirectory, settings: SettingsBook, delays: InitialDelays
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.delays = delays
        self._topics_turn = 0

    def topics_changed(self) -> None:
        """Let every group hold its topology against the topics again."""
        self._topics_turn += 1

    def configured(self, group: StreamsGroup, topology: Topology) -> ConfiguredTopology:
        """Return a group's topology as it is with the topics there are now.

        KafkaError for a topology that no topics could make work.
        """
        soft = group.soft
        if soft.configured is None or soft.topics_turn != self._topics_turn:
            soft.configured = configure(topology, self.directory.image)
            soft.topics_turn = self._topics_turn
        return soft.configured


class Beaten(NamedTuple):
    """What a heartbeat comes to: the answer, and topics to be made for the application."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


class Beat:
    """One heartbeat of one member."""

    __slots__ = (
        "_around", "_before", "_configured", "_reasons", "_reported", "_request", "_status",
        "_topology", "current", "epoch", "events", "group", "member", "now_ms", "records",
        "target", "target_epoch", "timers",
    )  # fmt: skip

    def __init__(
        self,
        around: Surroundings,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        current: CurrentTasks,
        *,
        made_room: tuple[Record, ...],
        now_ms: int,
    ) -> None:
        self._around = around
        self._request = request
        self._reported = reported_tasks(request)
        self._before = self.current = current
        self._reasons: list[str] = []
        """Why the group moves on."""
        self._status: list[Status] = []
        self.group = group
        self.now_ms = now_ms
        self.member = group.members.get(request.member_id, MemberMetadata())
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.target: Tasks = group.target.get(request.member_id, NO_TASKS)
        self.records: list[Record] = list(made_room)
        self.timers: list[TimerChange] = []
        self.events: list[Event] = []

    @property
    def member_id(self) -> MemberId:
        """Whose heartbeat it is."""
        return self._request.member_id

    @property
    def is_join(self) -> bool:
        """Whether the member joins, for the first time or anew."""
        return self._request.member_epoch == JOIN_EPOCH

    # Step 1: the member's own words.

    def hear(self, client: Client) -> None:
        """Take over what the member says of itself; what it leaves out stays as it was."""
        group, stored = self.group, self.member
        self.member = heard(stored, self._request, client)
        if self.member == stored and self.member_id in group.members:
            return
        self.records.append(
            records.member_metadata_record(group.group_id, self.member_id, self.member)
        )
        if self.member_id in group.members:
            self._reasons.append(f"member {self.member_id} changed")
            return
        self._reasons.append(f"member {self.member_id} joined")
        self.events.append(events.joined(group, self.member_id, self.member))

    # Step 2: the topology.

    def agree_on_topology(self) -> None:
        """Take the first topology there is; later members must bring the same, or an older one.

        KafkaError(INVALID_REQUEST) for any other: Kafka 4.3 does not change topologies.
        """
        group, said = self.group, self._request.topology
        known = group.topology
        if said is not None:
            check_size(said)
        brought = known if said is None else topology_of(said)
        if known is None:
            if brought is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
            self.records.append(records.topology_record(group.group_id, brought))
            self._topology = brought
            return
        if brought is not None and brought.epoch >= known.epoch and brought != known:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The topology is not the one of the group, and topologies cannot be changed yet.",
                {"topology_epoch": known.epoch, "brought_epoch": brought.epoch},
            )
        self._topology = known
        if self.member.topology_epoch < known.epoch:
            self._status.append(
                Status(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology has epoch {self.member.topology_epoch}, the group's "
                    f"epoch {known.epoch}.",
                )
            )

    def hold_against_topics(self) -> None:
        """See whether all topics are there, and in order."""
        group = self.group
        self._configured = configured = self._around.configured(group, self._topology)
        configured.check_tasks(self._reported)
        if configured.metadata_hash != group.metadata_hash:
            self._reasons.append("topics changed")
        if self._validated_epoch() != group.validated_topology_epoch:
            self._reasons.append(
                "all topics are in order" if configured.is_ready else "topics are not in order"
            )

    def _validated_epoch(self) -> int:
        return self._topology.epoch if self._configured.is_ready else NOT_VALIDATED

    # Step 3: the group epoch.

    def move_group_epoch(self) -> None:
        """Move the group on when members, topics or assignment settings changed."""
        group = self.group
        configs = self._settings().assignment_configs
        if configs != group.assignment_configs:
            self._reasons.append("assignment settings changed")
        if not self._reasons:
            return
        self.epoch += 1
        self.records.append(
            records.group_metadata_record(
                group.group_id,
                self.epoch,
                self._configured.metadata_hash,
                self._validated_epoch(),
                configs,
            )
        )
        self.events.append(moved_on(group.group_id, self.epoch, self._reasons))

    # Step 4: the target assignment.

    def delay_first_assignment(self, *, is_new: bool) -> None:
        """Let a group that was empty wait for more members."""
        group, delays = self.group, self._around.delays
        if is_new:
            delays.end(group.group_id)
        delay_ms = self._settings().initial_delay_ms
        if group.is_empty() and delay_ms > 0:
            self.timers.append(delays.begin(group.group_id, self.now_ms, delay_ms, is_new=is_new))

    def compute_target(self) -> None:
        """Run the assignor if the group has moved on since it last ran, and it may run again."""
        group = self.group
        if self._around.delays.is_under_way(group.group_id, self.now_ms):
            self.target = NO_TASKS
            self._delayed("the group waits for more members")
            return
        if group.target_epoch >= self.epoch:
            return
        interval_ms = self._settings().assignment_interval_ms
        if not may_assign_now(group.target_timestamp_ms, interval_ms, self.now_ms):
            if self.epoch > group.epoch:
                self.events.append(
                    postponed(group.group_id, self.epoch, group.target_timestamp_ms, interval_ms)
                )
            self._delayed(f"the last one is less than {interval_ms} ms old")
            return
        members = {**group.members, self.member_id: self.member}
        targets = compute_target(
            members, group.target, self._configured, self._settings().assignment_configs
        )
        written, event = target_records(group, targets, self.epoch, self.now_ms)
        self.records += written
        self.events.append(event)
        self.target = targets[self.member_id]
        self.target_epoch = self.epoch

    def _delayed(self, why: str) -> None:
        detail = f"There is no new assignment yet: {why}."
        self._status.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))

    # Step 5: the member's next step towards its target.

    def reconcile(self) -> None:
        """Take from the member and give it what can be taken and given now."""
        if self.current.is_reconciled_to(self.target_epoch):
            return
        stepped = reconcile(
            self.current,
            Towards(
                target_epoch=self.target_epoch,
                target=self.target,
                process_id=self.member.process_id,
                reported=self._reported,
                owners=self.group,
            ),
        )
        if stepped is self.current:
            return
        self.group.hand_overs().note(
            self.member_id,
            events.as_partitions(self.current),
            events.as_partitions(stepped),
            self.now_ms,
        )
        self.current = stepped
        group_id, member_id = self.group.group_id, self.member_id
        self.records.append(records.current_tasks_record(group_id, member_id, stepped))
        if stepped.state is MemberState.UNREVOKED_TASKS:
            deadline_ms = self.now_ms + self.member.rebalance_timeout_ms
            self.timers.append(
                rebalance_timer(group_id, member_id, stepped.member_epoch, deadline_ms)
            )
        else:
            self.timers.append(cancel_rebalance_timer(group_id, member_id))

    # Step 6: the answer.

    def answer(self) -> Beaten:
        """Tell the member where it stands; its tasks only when it needs telling."""
        group, soft, request = self.group, self.group.soft, self._request
        response = StreamsGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=self._settings().heartbeat_interval_ms,
        )
        if self.is_join or self.current.assigned != self._before.assigned:
            assigned = self.current.assigned
            response.active_tasks = _task_ids(assigned.active)
            response.standby_tasks = _task_ids(assigned.standby)
            response.warmup_tasks = _task_ids(assigned.warmup)
            if self.member.user_endpoint is not None:
                soft.endpoint_epoch += 1
        if soft.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                self._holders(), self._configured, self._around.directory.image
            )
        if group.group_id in self._around.directory.groups:
            # A group that is only coming to be begins to count with its next heartbeat.
            response.endpoint_information_epoch = soft.endpoint_epoch
        if self._configured.trouble is not None:
            self._status.append(self._configured.trouble)
        if request.shutdown_application:
            soft.shutdown_by = soft.shutdown_by or self.member_id
        if soft.shutdown_by is not None:
            detail = f"Member {soft.shutdown_by} met a fatal error and asks all members to stop."
            self._status.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        response.status = [
            StreamsGroupHeartbeatResponse.Status(
                status_code=int(status.code), status_detail=status.detail
            )
            for status in self._status
        ]
        return Beaten(response, self._configured.missing_topics)

    def _holders(self) -> Iterator[tuple[MemberMetadata, HeldTasks]]:
        """Yield each member and its tasks, the one that asks last and as it is now."""
        for member_id, member in self.group.members.items():
            if member_id != self.member_id:
                yield member, self.group.current_of(member_id).assigned
        yield self.member, self.current.assigned

    def _settings(self) -> GroupSettings:
        return self._around.settings.of(self.group)


def heard(
    stored: MemberMetadata, request: StreamsGroupHeartbeatRequest, client: Client
) -> MemberMetadata:
    """Return what is known of a member after its heartbeat."""
    timeout_ms, endpoint, tags = (
        request.rebalance_timeout_ms,
        request.user_endpoint,
        request.client_tags,
    )
    return MemberMetadata(
        instance_id=stored.instance_id,
        rack_id=stored.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            stored.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms
        ),
        topology_epoch=(
            stored.topology_epoch if request.topology is None else request.topology.epoch
        ),
        process_id=stored.process_id if request.process_id is None else request.process_id,
        user_endpoint=(
            stored.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port)
        ),
        client_tags=stored.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


def target_records(
    group: StreamsGroup, targets: Mapping[MemberId, Tasks], epoch: int, now_ms: int
) -> tuple[list[Record], Event]:
    """Return the records of a new target, of members whose target changed first; and the event."""
    group_id = group.group_id
    moved = {
        member_id: target
        for member_id, target in targets.items()
        if target != group.target.get(member_id)
    }
    written = [
        *(records.target_tasks_record(group_id, each, moved[each]) for each in moved),
        records.target_epoch_record(group_id, epoch, now_ms),
    ]
    return written, assigned(group_id, epoch, "sticky", moved)


def _task_ids(tasks: TaskIds | EpochsOfTasks) -> list[StreamsGroupHeartbeatResponse.TaskIds]:
    return [
        StreamsGroupHeartbeatResponse.TaskIds(subtopology_id=name, partitions=sorted(partitions))
        for name, partitions in sorted(tasks.items())
    ]
