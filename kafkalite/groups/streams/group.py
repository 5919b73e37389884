"""StreamsGroup: the hard state of one streams group (KIP-1071), changed only by replay.

Epochs never decrease, and assignment epoch ≤ member epoch ≤ target epoch ≤ group epoch. The group
epoch is raised when members, topics or assignment settings change. The target epoch is raised when
the assignor has run. The member epoch is raised when the member has nothing left to revoke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.group import ModernGroup, ModernSoftState, reconciliation_state
from kafkalite.groups.streams import offset_validation
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.descriptions import (
    NO_DESCRIPTIONS,
    DescriptionEpochs,
    StoredDescription,
)
from kafkalite.groups.streams.member import CurrentTasks, MemberMetadata, TaskOffsets
from kafkalite.groups.streams.settings import StreamsSettings
from kafkalite.groups.streams.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import (
        CommitClaim,
        GroupId,
        MemberId,
        PartitionCheck,
        Record,
    )
    from kafkalite.groups.streams.configured_topology import ConfiguredTopology
    from kafkalite.groups.streams.tasks import TaskIds
    from kafkalite.groups.streams.topology import Topology

NOT_VALIDATED = -1
"""The validated topology epoch if the topology's topics are missing or invalid."""

_Task = tuple[str, int]


class StreamsSoftState(ModernSoftState[StreamsSettings]):
    """State of a group that is not in the log and is lost when the shard is reloaded."""

    __slots__ = (
        "configured",
        "description",
        "endpoint_epoch",
        "missing_tags",
        "shutdown_requested_by",
        "task_offsets",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.configured: ConfiguredTopology | None = None
        """The topology, configured with the topics at `topics_version`."""
        self.endpoint_epoch = 0
        """The epoch of all endpoints: it grows when tasks of a member with an endpoint change."""
        self.shutdown_requested_by: MemberId | None = None
        """The member that requested the shutdown of the application."""
        self.task_offsets: dict[MemberId, TaskOffsets] = {}
        """The offsets that members have reported since the shard was loaded."""
        self.missing_tags: dict[MemberId, tuple[str, ...]] = {}
        """The missing tags of each member at its last heartbeat."""
        self.description: StoredDescription | None = None
        """The description of the topology, if a plugin stores it in memory."""


class StreamsGroup(ModernGroup[MemberMetadata, CurrentTasks, Tasks]):
    """A streams group and its members."""

    __slots__ = (
        "_active_owners",
        "_standby_members",
        "_subtopology_by_topic",
        "_warmup_members",
        "assignment_configs",
        "descriptions",
        "soft",
        "static_members",
        "topology",
        "validated_topology_epoch",
    )  # fmt: skip

    group_type = GroupType.STREAMS
    protocol_type = "streams"

    def __init__(self, group_id: GroupId, directory: GroupDirectory | None = None) -> None:
        super().__init__(group_id, directory)
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.descriptions = NO_DESCRIPTIONS
        self.static_members: dict[str, MemberId] = {}
        """Instance id → current member id; computed from `members`."""
        # The owners of tasks, computed from `current`.
        self._active_owners: dict[_Task, MemberId] = {}
        self._standby_members: dict[_Task, set[MemberId]] = {}
        self._warmup_members: dict[_Task, set[MemberId]] = {}
        self._subtopology_by_topic: Mapping[str, str] = {}
        self.soft = StreamsSoftState()

    # The interface `Group`.

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        topology_epoch = None if self.topology is None else self.topology.epoch
        if self.members and topology_epoch != self.validated_topology_epoch:
            return "NotReady"
        return reconciliation_state(self)

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Return the check for each partition, None if none is needed; raises KafkaError."""
        return offset_validation.validate_offset_commit(self, claim)

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless the epoch is the member's, or the request names no member."""
        offset_validation.validate_offset_fetch(self, member_id, member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topology reads the topic and the group has members."""
        return bool(self.members) and topic in self._subtopology_by_topic

    def tombstones(self) -> list[Record]:
        """Return the tombstones of the group, except those of its offsets, in Kafka's order."""
        group_id = self.group_id
        return records.TYPES.group_tombstones(
            group_id,
            self.members,
            [records.TYPES.group_tombstone(group_id), records.topology_tombstone(group_id)],
        )

    # Queries of deciders.

    def metadata_record(self, epoch: int, descriptions: DescriptionEpochs | None = None) -> Record:
        """Return the record of a group epoch, with unchanged metadata except for the argument."""
        return records.group_metadata_record(
            self.group_id,
            epoch,
            self.metadata_hash,
            self.validated_topology_epoch,
            self.assignment_configs,
            descriptions=descriptions or self.descriptions,
        )

    def current_of(self, member_id: MemberId) -> CurrentTasks:
        """Return a member's current tasks; an unknown member has none."""
        return self.current.get(member_id) or CurrentTasks()

    def subtopology_reading(self, topic: str) -> str | None:
        """Return the subtopology that reads a topic, or None."""
        return self._subtopology_by_topic.get(topic)

    def active_member(self, subtopology: str, partition: int) -> MemberId | None:
        """Return the owner of an active task, which may be revoking it."""
        return self._active_owners.get((subtopology, partition))

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """Return the process that owns an active task; None if it is free."""
        member_id = self._active_owners.get((subtopology, partition))
        return None if member_id is None else self._process_of(member_id)

    def standby_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes with a standby of a task."""
        return {
            self._process_of(m) for m in self._standby_members.get((subtopology, partition), ())
        }

    def warmup_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes with a warm-up of a task."""
        return {self._process_of(m) for m in self._warmup_members.get((subtopology, partition), ())}

    def _process_of(self, member_id: MemberId) -> str:
        member = self.members.get(member_id)
        return "" if member is None else member.process_id

    # Replay, record by record.

    def replay_metadata(
        self,
        epoch: int,
        metadata_hash: int,
        validated_topology_epoch: int,
        assignment_configs: Mapping[str, str],
        *,
        descriptions: DescriptionEpochs,
    ) -> None:
        """Set the group epoch and the metadata of this epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.assignment_configs = assignment_configs
        self.descriptions = descriptions

    def replay_topology(self, topology: Topology | None) -> None:
        """Set the topology."""
        self.topology = topology
        self._subtopology_by_topic = {} if topology is None else topology.subtopology_by_topic()

    def replay_member_metadata(self, member_id: MemberId, metadata: MemberMetadata | None) -> None:
        """Set a member's metadata; None removes the member."""
        old = self.members.get(member_id)
        old_instance_id = None if old is None else old.instance_id
        if old_instance_id is not None and self.static_members.get(old_instance_id) == member_id:
            del self.static_members[old_instance_id]
        if metadata is not None:
            self.members[member_id] = metadata
            if metadata.instance_id is not None:
                self.static_members[metadata.instance_id] = member_id
            return
        self.members.pop(member_id, None)
        self.soft.task_offsets.pop(member_id, None)
        self.soft.missing_tags.pop(member_id, None)
        if not self.members:
            self.soft.shutdown_requested_by = None

    def replay_current(self, member_id: MemberId, current: CurrentTasks | None) -> None:
        """Set a member's current tasks; None removes them."""
        previous = self.current.pop(member_id, None)
        if previous is not None:
            for tasks in (previous.assigned, previous.pending_revocation):
                for task in _tasks_of(tasks.active):
                    if self._active_owners.get(task) == member_id:
                        del self._active_owners[task]
                _remove_member(self._standby_members, tasks.standby, member_id)
                _remove_member(self._warmup_members, tasks.warmup, member_id)
        if current is not None:
            self.current[member_id] = current
            for tasks in (current.assigned, current.pending_revocation):
                self._active_owners.update(dict.fromkeys(_tasks_of(tasks.active), member_id))
                _add_member(self._standby_members, tasks.standby, member_id)
                _add_member(self._warmup_members, tasks.warmup, member_id)


def _tasks_of(tasks: TaskIds | Mapping[str, Mapping[int, int]]) -> list[_Task]:
    return [(name, partition) for name, partitions in tasks.items() for partition in partitions]


def _add_member(
    members_by_task: dict[_Task, set[MemberId]], tasks: TaskIds, member_id: MemberId
) -> None:
    for task in _tasks_of(tasks):
        members_by_task.setdefault(task, set()).add(member_id)


def _remove_member(
    members_by_task: dict[_Task, set[MemberId]], tasks: TaskIds, member_id: MemberId
) -> None:
    for task in _tasks_of(tasks):
        members = members_by_task.get(task, set())
        members.discard(member_id)
        if not members:
            members_by_task.pop(task, None)
