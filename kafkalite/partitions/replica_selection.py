"""Selection of the replica that a consumer reads from, by rack (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.image import BrokerImage, PartitionImage
    from kafkalite.partitions.partition import Partition

NO_REPLICA = -1
"""The consumer continues to read from the leader."""


def preferred_read_replica(
    partition: Partition,
    image: PartitionImage,
    brokers: Mapping[int, BrokerImage],
    *,
    rack: str,
    fetch_offset: int,
    now_ms: int,
) -> int:
    """Return the follower that a consumer in `rack` should read from, or NO_REPLICA.

    `image` and `brokers` are those that the leader knows. As in Kafka's RackAwareReplicaSelector,
    a leader in the rack is read from. Otherwise the in-sync replica in the rack that has most
    records is selected, if it has the offset; among equal ones, the one with the highest id.
    """
    leader = image.leader
    if _rack_of(leader, brokers) == rack or fetch_offset < partition.log_start_offset:
        return NO_REPLICA
    candidates = [
        node_id
        for node_id in image.isr
        if node_id != leader
        and _rack_of(node_id, brokers) == rack
        and partition.end_offset_of(node_id) >= fetch_offset
    ]

    def progress(node_id: int) -> tuple[int, int, int]:
        view = partition.views.get(node_id)
        lags = view is not None and view.replica_end is not None
        caught_up_ms = view.caught_up_ms if lags and view is not None else now_ms
        return partition.end_offset_of(node_id), caught_up_ms, node_id

    return max(candidates, key=progress, default=NO_REPLICA)


def _rack_of(node_id: int, brokers: Mapping[int, BrokerImage]) -> str | None:
    broker = brokers.get(node_id)
    return None if broker is None else broker.rack
