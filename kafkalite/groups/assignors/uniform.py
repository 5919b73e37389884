"""The `uniform` assignor: loads that differ by at most one, and as few moves as that allows.

Where all members subscribe to the same topics, quotas are known before the first partition is
looked at, so one pass keeps, one pass hands out. Where subscriptions differ, partitions are
handed to the least loaded subscriber and then moved topic by topic until no move helps.

Kafka walks members in the order of a hash map. Here they are walked sorted by id, which is one
of the orders Kafka may have used and the only one that is the same on every run.
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
    """Spread all partitions evenly, keeping previous owners where balance lets them be kept."""
    if not group.members:
        return {}
    return _assign_alike(group) if group.is_homogeneous else _assign_unlike(group)


def _assign_alike(group: GroupSpec) -> dict[str, Assignment]:
    """Assign where all members subscribe to all topics: quotas first, then fill them."""
    order = sorted(group.members)
    same: dict[str, Assignment] = {}
    kept: dict[str, dict[bytes, list[int]]] = {}
    rooms: list[tuple[str, int]] = []
    quota, extras = divmod(sum(group.partition_counts.values()), len(order))
    for position, member_id in enumerate(order):
        limit = quota + (extras > 0)
        previous = group.members[member_id].previous
        size = sum(map(len, previous.values()))
        if size <= limit and previous.keys() <= group.partition_counts.keys():
            # As with nearly everybody when one member comes or goes.
            same[member_id] = previous
        else:
            kept[member_id], size = _keep_up_to(limit, group, member_id)
        # An extra that is not used is passed on, unless every member still to come needs one.
        if extras and (size == limit or len(order) - position <= extras):
            extras -= 1
        else:
            limit = quota
        if size < limit:
            rooms.append((member_id, limit - size))
            if member_id in same:
                taken = same.pop(member_id)
                kept[member_id] = {topic: sorted(taken[topic]) for topic in sorted(taken)}
    _hand_out(_unassigned(group, (*same.values(), *kept.values())), rooms, kept)
    assigned = {**same, **_frozen(kept)}
    return {member_id: assigned[member_id] for member_id in order}


def _keep_up_to(limit: int, group: GroupSpec, member_id: str) -> tuple[dict[bytes, list[int]], int]:
    """Return the first `limit` partitions of a member's previous target, and how many they are."""
    kept: dict[bytes, list[int]] = {}
    size = 0
    previous = group.members[member_id].previous
    for topic_id in sorted(previous.keys() & group.partition_counts.keys()):
        if partitions := sorted(previous[topic_id])[: limit - size]:
            kept[topic_id] = partitions
            size += len(partitions)
    return kept, size


def _unassigned(
    group: GroupSpec, kept: Iterable[Mapping[bytes, Collection[int]]]
) -> list[tuple[bytes, int]]:
    """List the partitions nobody keeps, by topic and then by index."""
    taken: defaultdict[bytes, set[int]] = defaultdict(set)
    for assignment in kept:
        for topic_id, partitions in assignment.items():
            taken[topic_id].update(partitions)
    return [
        (topic_id, partition)
        for topic_id in sorted(group.partition_counts)
        for partition in range(group.partition_counts[topic_id])
        if partition not in taken[topic_id]
    ]


def _hand_out(
    unassigned: list[tuple[bytes, int]],
    rooms: list[tuple[str, int]],
    assignments: dict[str, dict[bytes, list[int]]],
) -> None:
    """Fill each member's room wholly before going on to the next."""
    start = 0
    for member_id, room in rooms:
        for topic_id, partition in unassigned[start : start + room]:
            assignments[member_id].setdefault(topic_id, []).append(partition)
        start += room


def _frozen(assignments: Mapping[str, Mapping[bytes, list[int]]]) -> dict[str, Assignment]:
    return {
        member_id: {
            topic_id: frozenset(partitions) for topic_id, partitions in topics.items() if partitions
        }
        for member_id, topics in assignments.items()
    }


def _assign_unlike(group: GroupSpec) -> dict[str, Assignment]:
    """Assign where subscriptions differ: keep, hand out to the least loaded, then balance."""
    order = sorted(group.members)
    subscribers: defaultdict[bytes, list[str]] = defaultdict(list)
    kept: dict[str, dict[bytes, list[int]]] = {}
    for member_id in order:
        member = group.members[member_id]
        for topic_id in member.topic_ids:
            subscribers[topic_id].append(member_id)
        kept[member_id] = {
            topic_id: sorted(partitions)
            for topic_id, partitions in member.previous.items()
            if topic_id in member.topic_ids
        }
    loads = {
        member_id: sum(map(len, assignment.values())) for member_id, assignment in kept.items()
    }
    counts = group.partition_counts
    # Topics with few subscribers per partition leave the least choice: they choose first.
    topics = sorted(
        subscribers,
        key=lambda topic_id: (
            -counts[topic_id] / len(subscribers[topic_id]),
            len(subscribers[topic_id]),
            topic_id,
        ),
    )
    _hand_out_to_least_loaded(_unassigned(group, kept.values()), topics, subscribers, kept, loads)
    _balance([topic for topic in topics if len(subscribers[topic]) > 1], subscribers, kept, loads)
    return _frozen(kept)


def _hand_out_to_least_loaded(
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
    """Balance topic after topic until a whole round moves nothing, or rounds run out."""
    unmoved = 0
    for _ in range(_MAX_BALANCING_PASSES):
        for topic_id in topics:
            moved = _balance_topic(topic_id, subscribers[topic_id], assignments, loads)
            unmoved = 0 if moved else unmoved + 1
            if unmoved == len(topics):
                return


def _balance_topic(
    topic_id: bytes,
    subscribers: Sequence[str],
    assignments: dict[str, dict[bytes, list[int]]],
    loads: dict[str, int],
) -> bool:
    """Move partitions of one topic from the most to the least loaded; whether any was moved."""
    if max(loads[m] for m in subscribers) - min(loads[m] for m in subscribers) <= 1:
        return False
    donors = [(-loads[m], m) for m in subscribers if assignments[m].get(topic_id)]
    takers = [(loads[m], m) for m in subscribers]
    heapify(donors)
    heapify(takers)
    moved = False
    while donors:
        # Neither heap follows what the other did: an entry whose load is out of date is redone.
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
        _take(assignments[taker].setdefault(topic_id, []), partitions.pop())
        loads[donor] -= 1
        loads[taker] += 1
        moved = True
        heapreplace(takers, (loads[taker], taker))
        heappop(donors)
        if partitions:
            heappush(donors, (-loads[donor], donor))
    return moved


def _take(partitions: list[int], partition: int) -> None:
    """Add one partition, keeping the run in order: a donor gives its highest index first."""
    partitions.append(partition)
    partitions.sort()
