"""StreamsGroup: the hard state of one streams group, changed in replay alone (KIP-1071).

Epochs only grow, and in this order: assignment epoch ≤ member epoch ≤ target epoch ≤ group epoch.
The group epoch moves when members, topics or assignment settings do; the target epoch follows when
the assignor has run; a member's epoch follows when it has nothing left to give up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.topics import NO_TOPICS_HASH
from kafkalite.groups.fencing import FENCING_KEY
from kafkalite.groups.group import GroupType, OffsetExpiry
from kafkalite.groups.replaying import FIRST_EPOCH, NEVER_ASSIGNED_MS
from kafkalite.groups.streams import commits, records
from kafkalite.groups.streams.member import CurrentTasks, MemberMetadata
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.consumer.hand_overs import HandOvers
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, PartitionCheck, Record
    from kafkalite.groups.offset import OffsetAndMetadata
    from kafkalite.groups.streams.configured import ConfiguredTopology
    from kafkalite.groups.streams.settings import GroupSettings
    from kafkalite.groups.streams.tasks import TaskIds, Tasks
    from kafkalite.groups.streams.topology import Topology

NOT_VALIDATED = -1
"""In the place of the epoch of a topology whose topics were all found in order."""

_Task = tuple[str, int]


def _commit_timestamp_ms(offset: OffsetAndMetadata) -> int:
    return offset.commit_timestamp_ms


class SoftState:
    """What deciders remember of a group, and may lose."""

    __slots__ = ("configured", "endpoint_epoch", "settings", "shutdown_by", "topics_turn")

    def __init__(self) -> None:
        self.settings: tuple[int, GroupSettings | None] = (0, None)
        """What the group goes by, and at which turn of the configuration that was worked out."""
        self.topics_turn = -1
        """The turn of the metadata at which `configured` was worked out."""
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        """Moves when a member that answers queries gets other tasks."""
        self.shutdown_by: MemberId | None = None
        """The member that asked for all of them to stop, while there are any."""


class StreamsGroup:
    """A group whose tasks the coordinator assigns, and its members."""

    __slots__ = (
        "_active", "_directory", "_readers", "_standby", "_warmup", "assignment_configs", "current",
        "epoch", "group_id", "members", "metadata_hash", "soft", "target", "target_epoch",
        "target_timestamp_ms", "topology", "validated_topology_epoch",
    )  # fmt: skip

    def __init__(self, group_id: GroupId, directory: GroupDirectory) -> None:
        self.group_id = group_id
        self._directory = directory
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = NEVER_ASSIGNED_MS
        self.topology: Topology | None = None
        self.members: dict[MemberId, MemberMetadata] = {}
        self.current: dict[MemberId, CurrentTasks] = {}
        self.target: dict[MemberId, Tasks] = {}
        # Who holds a task follows from `current`.
        self._active: dict[_Task, MemberId] = {}
        self._standby: dict[_Task, set[MemberId]] = {}
        self._warmup: dict[_Task, set[MemberId]] = {}
        self._readers: Mapping[str, str] = {}
        self.soft = SoftState()

    # What a group is to its neighbours.

    @property
    def group_type(self) -> GroupType:
        """The protocol the group speaks."""
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows."""
        return "streams"

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self.current_of(m).is_reconciled_to(self.target_epoch) for m in self.members):
            return "Stable"
        return "Reconciling"

    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Raise KafkaError unless the claim may commit; None: no need to check partitions."""
        return commits.validate_offset_commit(self, claim)

    def touch(self, claim: CommitClaim, now_ms: int) -> None:
        """Do nothing: in this protocol only heartbeats are signs of life."""

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless this member at just this epoch, or an observer, may fetch."""
        commits.validate_offset_fetch(self, member_id, member_epoch)

    def validate_offset_delete(self) -> None:
        """Allow it: what must not go is told topic by topic."""

    def validate_delete(self) -> None:
        """Raise KafkaError(NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                f"Group {self.group_id} has members.",
                {"members": len(self.members)},
            )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topology reads the topic, and there are members to do it."""
        return bool(self.members) and topic in self._readers

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule that offsets age from their commit, whatever the group's state."""
        return OffsetExpiry(_commit_timestamp_ms)

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group, without its offsets, in Kafka's order."""
        group_id = self.group_id
        return [
            *(records.current_tasks_tombstone(group_id, m) for m in self.members),
            *(records.target_tasks_tombstone(group_id, m) for m in self.members),
            records.target_epoch_tombstone(group_id),
            *(records.member_metadata_tombstone(group_id, m) for m in self.members),
            records.group_metadata_tombstone(group_id),
            records.topology_tombstone(group_id),
        ]

    # What deciders read.

    def fencing_rule(self) -> str:
        """Return by which rule commits are fenced now; see `kafkalite.groups.fencing`."""
        return self._directory.config.str(FENCING_KEY)

    def hand_overs(self) -> HandOvers:
        """Return what is remembered of who did which task; for explanations alone."""
        return self._directory.hand_overs.of(self.group_id)

    def current_of(self, member_id: MemberId) -> CurrentTasks:
        """Return what a member has been given; nothing, for one that is not known."""
        return self.current.get(member_id) or CurrentTasks()

    def reader_of(self, topic: str) -> str | None:
        """Return the subtopology that reads a topic."""
        return self._readers.get(topic)

    def active_member(self, subtopology: str, partition: int) -> MemberId | None:
        """Return the member that does an active task, be it in order to give it up."""
        return self._active.get((subtopology, partition))

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """Return the process that does an active task; None: it is free."""
        member_id = self._active.get((subtopology, partition))
        return None if member_id is None else self._process_of(member_id)

    def standby_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that keep a standby of a task."""
        return {self._process_of(m) for m in self._standby.get((subtopology, partition), ())}

    def warmup_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that warm up for a task."""
        return {self._process_of(m) for m in self._warmup.get((subtopology, partition), ())}

    def _process_of(self, member_id: MemberId) -> str:
        member = self.members.get(member_id)
        return "" if member is None else member.process_id

    # What replay does, record by record.

    def replay_metadata(
        self,
        epoch: int,
        metadata_hash: int,
        validated_topology_epoch: int,
        assignment_configs: Mapping[str, str],
    ) -> None:
        """Move the group to an epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.assignment_configs = assignment_configs

    def replay_topology(self, topology: Topology | None) -> None:
        """Say what the application looks like."""
        self.topology = topology
        self._readers = {} if topology is None else topology.readers()

    def replay_member_metadata(self, member_id: MemberId, metadata: MemberMetadata | None) -> None:
        """Make what a member says of itself true; None: it is gone."""
        if metadata is not None:
            self.members[member_id] = metadata
            return
        self.members.pop(member_id, None)
        if not self.members:
            self.soft.shutdown_by = None

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Say for which epoch the assignor has run, and when."""
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def replay_target(self, member_id: MemberId, target: Tasks | None) -> None:
        """Say what a member should have; None: nothing is known of it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def replay_current(self, member_id: MemberId, current: CurrentTasks | None) -> None:
        """Say what a member has; None: nothing, it is gone."""
        old = self.current.pop(member_id, None)
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                for task in _tasks_of(held.active):
                    if self._active.get(task) == member_id:
                        del self._active[task]
                _let_go(self._standby, held.standby, member_id)
                _let_go(self._warmup, held.warmup, member_id)
        if current is not None:
            self.current[member_id] = current
            for held in (current.assigned, current.pending_revocation):
                self._active.update(dict.fromkeys(_tasks_of(held.active), member_id))
                _take(self._standby, held.standby, member_id)
                _take(self._warmup, held.warmup, member_id)


def _tasks_of(tasks: TaskIds | Mapping[str, Mapping[int, int]]) -> list[_Task]:
    return [(name, partition) for name, partitions in tasks.items() for partition in partitions]


def _take(holders: dict[_Task, set[MemberId]], tasks: TaskIds, member_id: MemberId) -> None:
    for task in _tasks_of(tasks):
        holders.setdefault(task, set()).add(member_id)


def _let_go(holders: dict[_Task, set[MemberId]], tasks: TaskIds, member_id: MemberId) -> None:
    for task in _tasks_of(tasks):
        members = holders.get(task, set())
        members.discard(member_id)
        if not members:
            holders.pop(task, None)
