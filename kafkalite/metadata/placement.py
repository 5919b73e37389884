"""Which nodes hold a new partition's replicas; the first of them leads.

As Kafka's striped placer, roughly: leaders go round the nodes from a random one, replicas of one
partition lie on different nodes and, where nodes name racks, on as many racks as there are.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.image import BrokerImage


def interleave_racks(brokers: Mapping[int, BrokerImage]) -> tuple[int, ...]:
    """Return node ids so that neighbours are on different racks while racks last."""
    racks: dict[str, list[int]] = {}
    for node_id in sorted(brokers):
        racks.setdefault(brokers[node_id].rack or "", []).append(node_id)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return tuple(node_id for node_id in chain.from_iterable(rounds) if node_id is not None)


def plan_replicas(
    brokers: Mapping[int, BrokerImage], *, partitions: int, replication_factor: int, start: int
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of each of `partitions` new partitions, leaders first.

    `start` is a die's throw that says on which node the first leader is. KafkaError
    INVALID_REPLICATION_FACTOR when there are fewer nodes than replicas.
    """
    ring = interleave_racks(brokers)
    if replication_factor > len(ring):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(ring)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {reason}",
        )
    placed = []
    for index in range(partitions):
        turn = index // len(ring)
        at = (start + index) % len(ring)
        others = ring[at + 1 :] + ring[:at]
        # After each full round the followers shift by one, so that no node always follows another.
        shift = turn % max(1, len(others))
        followers = _spread(ring[at], others[shift:] + others[:shift], brokers)
        placed.append((ring[at], *followers[: replication_factor - 1]))
    return tuple(placed)


def _spread(
    leader: int, others: tuple[int, ...], brokers: Mapping[int, BrokerImage]
) -> tuple[int, ...]:
    """Return the others in order, but those on racks that none before is on come first."""
    racks = {brokers[leader].rack}
    first: list[int] = []
    rest: list[int] = []
    for node_id in others:
        (rest if brokers[node_id].rack in racks else first).append(node_id)
        racks.add(brokers[node_id].rack)
    return (*first, *rest)
