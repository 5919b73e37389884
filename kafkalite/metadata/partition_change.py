"""Changes of one partition: leader, in-sync replicas and reassignment, by Kafka's rules.

The rules are those of Kafka's PartitionChangeBuilder, with eligible leader replicas (KIP-966).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.metadata.image import PartitionImage

UNCHANGED_LEADER = -2
"""Value of a PartitionChangeRecord's leader that leaves it unchanged."""

NOT_TRUNCATED = -1
"""Value of a PartitionChangeRecord's epoch start offset: the new leader has the whole log."""

IS_RECOVERING, IS_RECOVERED = 1, 0
"""Values of a PartitionChangeRecord's leader recovery state."""


class Election(Enum):
    """Which replicas may become the leader."""

    ONLINE = "online"
    """The current leader if it is valid, else a replica in the ISR or ELR."""

    PREFERRED = "preferred"
    """The first replica if it is in the ISR, else as ONLINE."""

    UNCLEAN = "unclean"
    """As ONLINE, but any active replica if there is no other; records may be lost."""


class LeadershipRules(NamedTuple):
    """The settings of a topic and of the cluster that decide about leaders."""

    min_isr: int
    allows_unclean_election: bool = False
    uses_eligible_replicas: bool = False
    """Whether feature `eligible.leader.replicas.version` is at level 1 or higher."""


class Reassignment(NamedTuple):
    """The replicas of a partition during a reassignment: all of them, added ones, removed ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def between(cls, current: tuple[int, ...], target: tuple[int, ...]) -> Reassignment:
        """Return the reassignment that replaces `current` by `target`."""
        removing = tuple(sorted(set(current) - set(target)))
        adding = tuple(sorted(set(target) - set(current)))
        return cls((*target, *removing), adding, removing)

    def completed(self, isr: tuple[int, ...]) -> tuple[Reassignment, tuple[int, ...]] | None:
        """Return replicas and ISR after the reassignment, or None while replicas must catch up."""
        if not self.adding and not self.removing:
            return None
        replicas = tuple(node_id for node_id in self.replicas if node_id not in self.removing)
        remaining_isr = tuple(node_id for node_id in isr if node_id not in self.removing)
        if not replicas or not remaining_isr or not set(replicas) <= set(remaining_isr):
            return None
        return Reassignment(replicas), remaining_isr

    def set_fields(self, record: PartitionChangeRecord, partition: PartitionImage) -> None:
        """Set the fields of a record whose values differ from those of the partition."""
        if self.replicas != partition.replicas:
            record.replicas = list(self.replicas)
        if self.adding != partition.adding:
            record.adding_replicas = list(self.adding)
        if self.removing != partition.removing:
            record.removing_replicas = list(self.removing)


class PartitionChange:
    """The planned state of a partition; `record` returns its difference from the current state.

    `is_active` returns whether a node may lead: it is registered and not fenced. An absent
    `election` is UNCLEAN where the topic allows that, else ONLINE. `isr` and `reassignment` are
    the planned ones; absent ones are the current ones. `crashed` is a node that may have lost
    records because it was not shut down; it is no eligible leader replica.
    """

    __slots__ = (
        "_crashed",
        "_election",
        "_elr",
        "_is_active",
        "_isr",
        "_partition",
        "_reassignment",
        "_rules",
    )

    def __init__(
        self,
        partition: PartitionImage,
        rules: LeadershipRules,
        is_active: Callable[[int], bool],
        *,
        election: Election | None = None,
        isr: tuple[int, ...] | None = None,
        reassignment: Reassignment | None = None,
        crashed: int | None = None,
    ) -> None:
        if election is None:
            election = Election.UNCLEAN if rules.allows_unclean_election else Election.ONLINE
        if reassignment is None:
            reassignment = Reassignment(partition.replicas, partition.adding, partition.removing)
        self._partition = partition
        self._rules = rules
        self._is_active = is_active
        self._election = election
        self._isr = partition.isr if isr is None else isr
        self._reassignment = reassignment
        self._elr = partition.elr
        self._crashed = crashed

    def record(self, topic_id: bytes) -> PartitionChangeRecord | None:
        """Return the record of the change, or None if nothing changes."""
        partition = self._partition
        completed = self._reassignment.completed(self._isr)
        if completed is not None:
            self._reassignment, self._isr = completed
        self._update_eligible_replicas()
        leader, is_unclean = self._elect()
        if leader != partition.leader and leader in self._elr:
            self._isr = (leader,)
            self._elr = tuple(node_id for node_id in self._elr if node_id != leader)
        if is_unclean:
            self._isr = (leader,)
        if is_unclean or not self._rules.uses_eligible_replicas:
            self._elr = ()
        record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id)
        if leader != partition.leader:
            record.leader = leader
        elif not set(partition.replicas) <= set(self._reassignment.replicas):
            # A removed replica must not be taken for a current one, so the epoch increases.
            record.leader = leader
        if is_unclean and not partition.is_recovering:
            record.leader_recovery_state = IS_RECOVERING
        if (self._isr or self._rules.uses_eligible_replicas) and self._isr != partition.isr:
            record.isr = list(self._isr)
        if self._elr != partition.elr:
            record.eligible_leader_replicas = list(self._elr)
        self._set_last_known_leader(record)
        self._reassignment.set_fields(record, partition)
        empty = PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id)
        return None if record == empty else record

    def _update_eligible_replicas(self) -> None:
        """Let replicas that leave an ISR below its minimum remain eligible."""
        if not self._rules.uses_eligible_replicas:
            return
        if len(self._isr) >= self._rules.min_isr:
            self._elr = ()
            return
        candidates = dict.fromkeys((*self._elr, *self._partition.isr))
        self._elr = tuple(
            node_id
            for node_id in candidates
            if node_id not in self._isr and node_id != self._crashed
        )

    def _elect(self) -> tuple[int, bool]:
        """Return the leader, NO_LEADER if there is no candidate, and whether it is unclean."""
        replicas = self._reassignment.replicas
        if self._election is Election.PREFERRED and self._is_valid_leader(replicas[0]):
            return replicas[0], False
        if self._is_valid_leader(self._partition.leader):
            return self._partition.leader, False
        for node_id in replicas:
            if self._is_valid_leader(node_id):
                return node_id, False
        if (last_known := self._last_known_leader()) is not None:
            return last_known, True
        if self._election is Election.UNCLEAN:
            for node_id in replicas:
                if self._is_active(node_id):
                    return node_id, True
        return NO_LEADER, False

    def _is_valid_leader(self, node_id: int) -> bool:
        is_in_sync = node_id in self._isr or (not self._isr and node_id in self._elr)
        return is_in_sync and self._is_active(node_id)

    def _last_known_leader(self) -> int | None:
        """Return the last leader of a partition without ISR and ELR, if it is active."""
        known = self._partition.last_known_elr
        if not self._rules.uses_eligible_replicas or self._isr or self._elr or len(known) != 1:
            return None
        return known[0] if self._is_active(known[0]) else None

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._rules.uses_eligible_replicas:
            return
        partition = self._partition
        will_have_leader = record.leader >= 0 or (
            partition.leader != NO_LEADER and record.leader == UNCHANGED_LEADER
        )
        if record.isr == [] and partition.last_known_elr != (partition.leader,):
            record.last_known_elr = [partition.leader]
        elif will_have_leader and partition.last_known_elr:
            record.last_known_elr = []
