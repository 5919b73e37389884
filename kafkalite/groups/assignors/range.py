"""The `range` assignor: each topic is split into contiguous ranges, one per subscriber.

It is not sticky. The order of members is the same for all topics, so topics with the same number
of partitions and the same subscribers are co-partitioned, which joins require.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment, GroupSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Assign each subscriber of a topic one range of its partitions, longer ranges first."""
    # Static members are first: their order does not change when they return with a new id.
    order = sorted(
        group.members,
        key=lambda member_id: (
            (group.members[member_id].instance_id is None),
            group.members[member_id].instance_id or member_id,
        ),
    )
    subscribers: defaultdict[bytes, list[str]] = defaultdict(list)
    for member_id in order:
        for topic_id in group.members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)
    assignments: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic_id, member_ids in subscribers.items():
        range_length, longer_range_count = divmod(group.partition_counts[topic_id], len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + range_length + (position < longer_range_count)
            if end > start:
                assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignments)
