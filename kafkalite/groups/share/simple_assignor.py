"""The `simple` assignor of share groups (KIP-932).

A partition may be assigned to several members. The aim is the same number of members per partition
and the same number of partitions per member. Members keep their previous partitions as far as
possible. The algorithm and its iteration order are those of Kafka, so that the same group gets
the same assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.java_order import (
    JavaHashMap,
    in_java_order,
    int_hash,
    string_hash,
    topic_partition_hash,
    uuid_hash,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.group import MemberId

SIMPLE_ASSIGNOR = "simple"

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One member as the assignor sees it."""

    topic_ids: Sequence[bytes]
    """The existing topics it subscribes to, in the order of a Java HashSet of their names."""
    previous: Assignment
    """Its previous target assignment."""


_PartitionsByTopic = dict[bytes, set[int]]


def assign_partitions(
    subscribers: Mapping[MemberId, Subscriber],
    assignable: Mapping[bytes, frozenset[int]],
    *,
    is_homogeneous: bool,
) -> Mapping[MemberId, Assignment]:
    """Return the target assignment of each member, with initialized partitions only.

    A topic of which a member loses all partitions remains in its assignment, without partitions.
    """
    order = in_java_order(subscribers, string_hash)
    topic_ids = list(
        dict.fromkeys(
            topic_id for member_id in order for topic_id in subscribers[member_id].topic_ids
        )
    )
    if not topic_ids:
        return {member_id: {} for member_id in order}
    previous = [subscribers[member_id].previous for member_id in order]
    member_assignments = [
        {topic: set(partitions) for topic, partitions in target.items()} for target in previous
    ]
    if is_homogeneous:
        _assign_all_topics(member_assignments, topic_ids, assignable)
    else:
        for topic_id in topic_ids:
            subscriber_indexes = [
                index
                for index, member_id in enumerate(order)
                if topic_id in subscribers[member_id].topic_ids
            ]
            _assign_topic(
                member_assignments,
                topic_id,
                sorted(assignable.get(topic_id, ())),
                subscriber_indexes,
            )
    return {
        member_id: {
            topic: frozenset(partitions) for topic, partitions in member_assignments[index].items()
        }
        for index, member_id in enumerate(order)
    }


def _assign_all_topics(
    member_assignments: Sequence[_PartitionsByTopic],
    topic_ids: Sequence[bytes],
    assignable: Mapping[bytes, frozenset[int]],
) -> None:
    """Assign the partitions of all topics at once, for members with the same subscription."""
    for member_assignment in member_assignments:
        for topic_id in member_assignment.keys() - set(topic_ids):
            del member_assignment[topic_id]
    partitions = [
        (topic, index) for topic in topic_ids for index in sorted(assignable.get(topic, ()))
    ]
    assignment: _PartitionAssignment[tuple[bytes, int]] = _PartitionAssignment(
        hash_of=topic_partition_hash,
        partitions=partitions,
        subscriber_indexes=range(len(member_assignments)),
    )
    for member, member_assignment in enumerate(member_assignments):
        for topic_id in in_java_order(member_assignment, uuid_hash):
            assignment.assign_previous(
                member,
                [
                    (topic_id, index)
                    for index in in_java_order(sorted(member_assignment[topic_id]), int_hash)
                ],
            )
    assignment.rebalance()
    for member, member_assignment in enumerate(member_assignments):
        for indexes in member_assignment.values():
            indexes.clear()
        for topic_id, index in assignment.partitions_of(member):
            member_assignment.setdefault(topic_id, set()).add(index)


def _assign_topic(
    member_assignments: Sequence[_PartitionsByTopic],
    topic_id: bytes,
    partitions: Sequence[int],
    subscriber_indexes: Sequence[int],
) -> None:
    """Assign the partitions of one topic to its subscribers."""
    assignment: _PartitionAssignment[int] = _PartitionAssignment(
        hash_of=int_hash, partitions=partitions, subscriber_indexes=subscriber_indexes
    )
    for member, member_assignment in enumerate(member_assignments):
        assignment.assign_previous(
            member, in_java_order(sorted(member_assignment.get(topic_id, ())), int_hash)
        )
    assignment.rebalance()
    for member, member_assignment in enumerate(member_assignments):
        assigned = assignment.partitions_of(member)
        if assigned or topic_id in member_assignment:
            member_assignment[topic_id] = set(assigned)


class _PartitionAssignment(Generic[P]):
    """Partitions, members (as indexes), and their assignment in both directions."""

    __slots__ = (
        "_by_member",
        "_by_partition",
        "_hash_of",
        "_members_per_partition",
        "_partitions",
        "_quota",
        "_subscriber_indexes",
    )

    def __init__(
        self,
        *,
        hash_of: Callable[[P], int],
        partitions: Sequence[P],
        subscriber_indexes: Sequence[int],
    ) -> None:
        self._hash_of = hash_of
        self._partitions = partitions
        self._subscriber_indexes = subscriber_indexes
        self._by_partition: JavaHashMap[P, JavaHashMap[int, None]] = JavaHashMap(
            hash_of, len(partitions)
        )
        self._by_member: JavaHashMap[int, JavaHashMap[P, None]] = JavaHashMap(
            int_hash, len(subscriber_indexes)
        )
        self._members_per_partition = (
            -(-len(subscriber_indexes) // len(partitions)) if partitions else 0
        )
        """The number of members per partition."""
        per_member = self._members_per_partition * len(partitions) / len(subscriber_indexes)
        self._quota = {
            member: ceil(per_member * (position + 1)) - ceil(per_member * position)
            for position, member in enumerate(subscriber_indexes)
        }
        """Member → its number of partitions; only subscribers are in it."""

    def assign_previous(self, member: int, partitions: Iterable[P]) -> None:
        """Assign a member's previous partitions."""
        for partition in partitions:
            self._assign(partition, member)

    def partitions_of(self, member: int) -> list[P]:
        """Return a member's partitions."""
        assigned = self._by_member.get(member)
        return [] if assigned is None else assigned.keys()

    def rebalance(self) -> None:
        """Remove assignments above the quotas, then assign partitions to members below them."""
        self._unassign_from_overfilled_members()
        self._unassign_overassigned_partitions()
        for partition in self._partitions:
            self._by_partition.compute_if_absent(partition, self._no_members)
        self._assign_to_unfilled_members()

    def _unassign_from_overfilled_members(self) -> None:
        for member in self._by_member.keys():  # noqa: SIM118 - not a dict: this is Java's order
            assigned = self._by_member[member]
            excess = len(assigned) - self._quota.get(member, 0)
            if excess > 0:
                for partition in assigned.keys()[:excess]:
                    self._unassign(partition, member)

    def _unassign_overassigned_partitions(self) -> None:
        for partition in self._by_partition.keys():  # noqa: SIM118
            members = self._by_partition[partition]
            excess = len(members) - self._members_per_partition
            if excess > 0:
                for member in members.keys()[:excess]:
                    self._unassign(partition, member)

    def _assign_to_unfilled_members(self) -> None:
        """Assign round-robin to members below their quota; rounds continue over partitions."""
        unfilled = [member for member in self._subscriber_indexes if self._is_below_quota(member)]
        round_robin = iter(list(unfilled))
        has_assigned = False
        for partition in self._by_partition.keys():  # noqa: SIM118
            if not unfilled:
                return
            members = self._by_partition[partition]
            while len(members) < self._members_per_partition:
                member = next(round_robin, None)
                if member is None:
                    if not has_assigned or not unfilled:
                        break
                    round_robin, has_assigned = iter(list(unfilled)), False
                elif member not in members:
                    self._assign(partition, member)
                    has_assigned = True
                    if not self._is_below_quota(member):
                        unfilled.remove(member)

    def _is_below_quota(self, member: int) -> bool:
        assigned = self._by_member.get(member)
        return (0 if assigned is None else len(assigned)) < self._quota[member]

    def _assign(self, partition: P, member: int) -> None:
        self._by_partition.compute_if_absent(partition, self._no_members).put(member, None)
        self._by_member.compute_if_absent(member, self._no_partitions).put(partition, None)

    @staticmethod
    def _no_members() -> JavaHashMap[int, None]:
        return JavaHashMap(int_hash)

    def _no_partitions(self) -> JavaHashMap[P, None]:
        return JavaHashMap(self._hash_of)

    def _unassign(self, partition: P, member: int) -> None:
        self._by_partition[partition].remove(member)
        self._by_member[member].remove(partition)
