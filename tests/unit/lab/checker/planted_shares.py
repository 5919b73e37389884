"""Planted anomalies of share groups: each function adds one, and returns the expected finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker import share_rules
from kafkalite.shares.acknowledgement import AcknowledgeType
from tests.unit.lab.checker.expected import PARTITION, Expected
from tests.unit.lab.checker.share_simulation import SimulatedShareGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.unit.lab.checker.simulation import Peer, SimulatedCluster

SHARE_GROUP: Final = "planted sharers"


def _begin(
    cluster: SimulatedCluster, records: int
) -> tuple[SimulatedShareGroup, Peer, Peer, list[int]]:
    """Return a group with two members, of which the first one has got records."""
    first = cluster.produce(cluster.producer(cluster.peer("sharing writer")), PARTITION, records)
    group = SimulatedShareGroup(cluster, SHARE_GROUP, PARTITION)
    one, other = cluster.peer("sharer", "sharer-1"), cluster.peer("other sharer", "sharer-2")
    for peer in (one, other):
        group.join(peer)
    offsets = group.fetch(one, range(first, first + records))
    return group, one, other, offsets


def accepted_again(cluster: SimulatedCluster, random: Random) -> Expected:
    # A share group delivers records again that were accepted.
    records = random.randint(1, 5)
    group, one, other, offsets = _begin(cluster, records)
    group.acknowledge(one, offsets)
    group.fetch(other, offsets)
    return Expected(share_rules.DELIVERED_AFTER_END, share_rules.ACCEPTED, records)


def rejected_again(cluster: SimulatedCluster, random: Random) -> Expected:
    # A share group delivers records again that were rejected.
    records = random.randint(1, 5)
    group, one, other, offsets = _begin(cluster, records)
    group.acknowledge(one, offsets, AcknowledgeType.REJECT)
    group.fetch(other, offsets)
    return Expected(share_rules.DELIVERED_AFTER_END, share_rules.REJECTED, records)


def over_limit(cluster: SimulatedCluster, random: Random) -> Expected:
    # A share group delivers records more often than its limit.
    records = random.randint(1, 5)
    group, one, _, offsets = _begin(cluster, records)
    group.limit(cluster.peer("administrator"), 2)
    for _ in range(2):
        group.expire(offsets)
        group.fetch(one, offsets)
    return Expected(share_rules.TOO_MANY_DELIVERIES, share_rules.OVER_LIMIT, records)


def at_limit(cluster: SimulatedCluster, random: Random) -> Expected:
    # A member releases records that were delivered as often as the limit allows.
    records = random.randint(1, 5)
    group, one, other, offsets = _begin(cluster, records)
    group.limit(cluster.peer("administrator"), 2)
    group.acknowledge(one, offsets, AcknowledgeType.RELEASE)
    group.fetch(other, offsets)
    group.acknowledge(other, offsets, AcknowledgeType.RELEASE)
    return Expected(share_rules.NOT_PROCESSED, share_rules.AT_LIMIT, records)


def late_acknowledgement(cluster: SimulatedCluster, random: Random) -> Expected:
    # A member acknowledges records after its lock ended and another member got them.
    records = random.randint(1, 5)
    group, one, other, offsets = _begin(cluster, records)
    group.expire(offsets)
    group.fetch(other, offsets)
    group.acknowledge(one, offsets)
    return Expected(share_rules.STALE_ACKNOWLEDGEMENT, share_rules.OTHER_HOLDER, records)


def old_session_epoch(cluster: SimulatedCluster, random: Random) -> Expected:
    # A broker accepts a request with an earlier epoch of its session.
    group, one, _, offsets = _begin(cluster, random.randint(2, 5))
    group.acknowledge(one, offsets[:1])
    group.acknowledge(one, offsets[1:], epoch=1)
    return Expected(share_rules.STALE_ACKNOWLEDGEMENT, share_rules.OLD_SESSION, 0)


def skipped_by_share_group(cluster: SimulatedCluster, random: Random) -> Expected:
    # A share group leaves out records, and delivers later ones.
    group, one, _, offsets = _begin(cluster, 1)
    group.acknowledge(one, offsets)
    records = random.randint(1, 5)
    producer = cluster.producer(cluster.peer("sharing writer"))
    cluster.produce(producer, PARTITION, records)
    later = cluster.produce(producer, PARTITION)
    group.fetch(one, [later])
    return Expected(share_rules.NEVER_DELIVERED, share_rules.NOT_ACQUIRED, records)


PLANTED_SHARES: Final[tuple[Callable[[SimulatedCluster, Random], Expected], ...]] = (
    accepted_again,
    rejected_again,
    over_limit,
    at_limit,
    late_acknowledgement,
    old_session_epoch,
    skipped_by_share_group,
)
"""One anomaly of each kind."""
