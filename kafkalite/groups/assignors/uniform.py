"""The `uniform` assignor: member loads differ by at most one, with as few moves as possible.

If all members subscribe to the same topics, the quotas are known in advance: one pass retains
partitions up to the quota, one pass assigns the rest. If subscriptions differ, partitions are
assigned to the least loaded subscriber and then moved topic by topic until no move helps.

Kafka iterates over members in the order of a hash map. Here members are sorted by id, which is one
of the orders that are possible in Kafka, and the same in every run.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkalite.groups.assignors.contract import Assignment, GroupSpec

_MAX_BALANCING_PASSES = 16


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Assign all partitions evenly; partitions keep their owners as far as balance allows."""
    if not group.members:
        return {}
    return _assign_homogeneous(group) if group.is_homogeneous else _assign_heterogeneous(group)


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    """Assign if all members subscribe to all topics: compute quotas, then fill them."""
    order = sorted(group.members)
    unchanged: dict[str, Assignment] = {}
    retained: dict[str, dict[bytes, list[int]]] = {}
    free_slots: list[tuple[str, int]] = []
    quota, extras = divmod(sum(group.partition_counts.values()), len(order))
    for position, member_id in enumerate(order):
        limit = quota + (extras > 0)
        previous = group.members[member_id].previous
        count = sum(map(len, previous.values()))
        if count <= limit and previous.keys() <= group.partition_counts.keys():
            # The usual case for most members when one member joins or leaves.
            unchanged[member_id] = previous
        else:
            retained[member_id], count = _retain_up_to(limit, group, member_id)
        # A member below its limit leaves its extra partition to a later member, unless there is an
        # extra partition for each remaining member.
        if extras and (count == limit or len(order) - position <= extras):
            extras -= 1
        else:
            limit = quota
        if count < limit:
            free_slots.append((member_id, limit - count))
            if member_id in unchanged:
                assigned_before = unchanged.pop(member_id)
                retained[member_id] = {
                    topic: sorted(assigned_before[topic]) for topic in sorted(assigned_before)
                }
    _assign_to_free_slots(
        _unassigned(group, (*unchanged.values(), *retained.values())), free_slots, retained
    )
    assigned = {**unchanged, **_freeze(retained)}
    return {member_id: assigned[member_id] for member_id in order}


def _retain_up_to(
    limit: int, group: GroupSpec, member_id: str
) -> tuple[dict[bytes, list[int]], int]:
    """Return the first `limit` partitions of a member's previous target, and their number."""
    retained: dict[bytes, list[int]] = {}
    count = 0
    previous = group.members[member_id].previous
    for topic_id in sorted(previous.keys() & group.partition_counts.keys()):
        if partitions := sorted(previous[topic_id])[: limit - count]:
            retained[topic_id] = partitions
            count += len(partitions)
    return retained, count


def _unassigned(
    group: GroupSpec, retained: Iterable[Mapping[bytes, Collection[int]]]
) -> list[tuple[bytes, int]]:
    """Return the partitions without an owner, sorted by topic id and index."""
    assigned: defaultdict[bytes, set[int]] = defaultdict(set)
    for assignment in retained:
        for topic_id, partitions in assignment.items():
            assigned[topic_id].update(partitions)
    return [
        (topic_id, partition)
        for topic_id in sorted(group.partition_counts)
        for partition in range(group.partition_counts[topic_id])
        if partition not in assigned[topic_id]
    ]


def _assign_to_free_slots(
    unassigned: list[tuple[bytes, int]],
    free_slots: list[tuple[str, int]],
    assignments: dict[str, dict[bytes, list[int]]],
) -> None:
    """Fill the free slots of one member after the other."""
    start = 0
    for member_id, free in free_slots:
        for topic_id, partition in unassigned[start : start + free]:
            assignments[member_id].setdefault(topic_id, []).append(partition)
        start += free


def _freeze(assignments: Mapping[str, Mapping[bytes, list[int]]]) -> dict[str, Assignment]:
    return {
        member_id: {
            topic_id: frozenset(partitions) for topic_id, partitions in topics.items() if partitions
        }
        for member_id, topics in assignments.items()
    }


def _assign_heterogeneous(group: GroupSpec) -> dict[str, Assignment]:
    """Assign if subscriptions differ: retain, assign to the least loaded, then balance."""
    order = sorted(group.members)
    subscribers: defaultdict[bytes, list[str]] = defaultdict(list)
    retained: dict[str, dict[bytes, list[int]]] = {}
    for member_id in order:
        member = group.members[member_id]
        for topic_id in member.topic_ids:
            subscribers[topic_id].append(member_id)
        retained[member_id] = {
            topic_id: sorted(partitions)
            for topic_id, partitions in member.previous.items()
            if topic_id in member.topic_ids
        }
    loads = {
        member_id: sum(map(len, assignment.values())) for member_id, assignment in retained.items()
    }
    counts = group.partition_counts
    # Topics with few subscribers per partition leave the least choice, so they are first.
    topics = sorted(
        subscribers,
        key=lambda topic_id: (
            -counts[topic_id] / len(subscribers[topic_id]),
            len(subscribers[topic_id]),
            topic_id,
        ),
    )
    _assign_to_least_loaded(
        _unassigned(group, retained.values()), topics, subscribers, retained, loads
    )
    _balance(
        [topic for topic in topics if len(subscribers[topic]) > 1], subscribers, retained, loads
    )
    return _freeze(retained)


def _assign_to_least_loaded(
    unassigned: list[tuple[bytes, int]],
    topics: Sequence[bytes],
    subscribers: Mapping[bytes, list[str]],
    assignments: dict[str, dict[bytes, list[int]]],
    loads: dict[str, int],
) -> None:
    by_topic: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in unassigned:
        by_topic[topic_id].append(partition)
    for topic_id in topics:
        heap = [(loads[member_id], member_id) for member_id in subscribers[topic_id]]
        heapify(heap)
        for partition in by_topic[topic_id]:
            load, member_id = heap[0]
            assignments[member_id].setdefault(topic_id, []).append(partition)
            loads[member_id] = load + 1
            heapreplace(heap, (load + 1, member_id))


def _balance(
    topics: Sequence[bytes],
    subscribers: Mapping[bytes, list[str]],
    assignments: dict[str, dict[bytes, list[int]]],
    loads: dict[str, int],
) -> None:
    """Balance topic after topic until a round moves nothing, in a limited number of rounds."""
    unchanged_topics = 0
    for _ in range(_MAX_BALANCING_PASSES):
        for topic_id in topics:
            moved = _balance_topic(topic_id, subscribers[topic_id], assignments, loads)
            unchanged_topics = 0 if moved else unchanged_topics + 1
            if unchanged_topics == len(topics):
                return


def _balance_topic(
    topic_id: bytes,
    subscribers: Sequence[str],
    assignments: dict[str, dict[bytes, list[int]]],
    loads: dict[str, int],
) -> bool:
    """Move partitions of one topic from the most to the least loaded; True if any was moved."""
    if max(loads[m] for m in subscribers) - min(loads[m] for m in subscribers) <= 1:
        return False
    donors = [(-loads[m], m) for m in subscribers if assignments[m].get(topic_id)]
    takers = [(loads[m], m) for m in subscribers]
    heapify(donors)
    heapify(takers)
    moved = False
    while donors:
        # The heaps do not see each other's changes: an entry with an outdated load is replaced.
        load, donor = -donors[0][0], donors[0][1]
        if load != loads[donor]:
            heapreplace(donors, (-loads[donor], donor))
            continue
        if takers[0][0] != loads[takers[0][1]]:
            heapreplace(takers, (loads[takers[0][1]], takers[0][1]))
            continue
        taker = takers[0][1]
        if load - loads[taker] <= 1:
            break
        partitions = assignments[donor][topic_id]
        _insert(assignments[taker].setdefault(topic_id, []), partitions.pop())
        loads[donor] -= 1
        loads[taker] += 1
        moved = True
        heapreplace(takers, (loads[taker], taker))
        heappop(donors)
        if partitions:
            heappush(donors, (-loads[donor], donor))
    return moved


def _insert(partitions: list[int], partition: int) -> None:
    """Add a partition in sorted order; a donor gives its highest index first."""
    partitions.append(partition)
    partitions.sort()
