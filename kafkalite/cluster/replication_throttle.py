"""ReplicationThrottle: how far throttled replicas that are not in sync have copied (KIP-73).

The rules are those of Kafka's ReplicationQuotaManager, RemoteLeaderEndPoint and ReplicaManager. A
partition that `leader.replication.throttled.replicas` or `follower.replication.throttled.replicas`
of its topic names is copied in fetches of `replica.fetch.max.bytes`. Its bytes count in the rate of
the leader's or the follower's node. While a rate is above `leader.replication.throttled.rate` or
`follower.replication.throttled.rate`, replicas that are not in sync receive nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.image import ResourceType
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.quotas import SimpleRate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView

_LEADER: Final = "leader"
_FOLLOWER: Final = "follower"
_ALL_REPLICAS: Final = "*"
_ALL_NODES: Final = ""
UNLIMITED: Final = 2**63 - 1
"""The rate of a node without a limit."""


class _Meter(NamedTuple):
    """What limits a copy: the rate of one role of one node."""

    role: str
    node_id: int

    @property
    def rate_key(self) -> str:
        return f"{self.role}.replication.throttled.rate"

    @property
    def replicas_key(self) -> str:
        return f"{self.role}.replication.throttled.replicas"


class _Copy(NamedTuple):
    """A replica that is not in sync, and that could follow its leader."""

    partition: Partition
    node_id: int
    view: ReplicaView

    @property
    def is_complete(self) -> bool:
        """Whether the replica has the whole log."""
        return self.end_offset >= self.partition.end_offset

    @property
    def end_offset(self) -> int:
        """The end offset of the replica."""
        return self.view.end_offset


class ReplicationThrottle:
    """The rates of all nodes of one cluster."""

    __slots__ = ("_config", "_image", "_rates")

    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the metadata with the settings of topics and nodes."""
        self._config = config
        self._image = image
        self._rates: dict[_Meter, SimpleRate] = {}

    def is_throttled(self, partition: Partition, node_id: int) -> bool:
        """Return whether a rate limits the copy of a partition to a node."""
        return bool(self._meters(partition, node_id))

    def copy(self, replicas: Sequence[tuple[Partition, int, ReplicaView]], now_ms: int) -> bool:
        """Advance the ends of replicas, each with its node, as far as the rates allow now.

        Returns whether all of them have the whole log. Each round is one fetch of every follower,
        so the rates are compared with their limits at its beginning. A fetch returns at least one
        batch of each partition; nothing if the log cannot be read, which is reported.
        """
        copies = [_Copy(*replica) for replica in replicas]
        incomplete = copies
        while incomplete:
            exceeded = {meter for meter in self._rates if self._is_exceeded(meter, now_ms)}
            fetched = []
            for replica in incomplete:
                meters = self._meters(replica.partition, replica.node_id)
                if exceeded.isdisjoint(meters):
                    size = self._copy_one_fetch(replica)
                    fetched.append((replica, meters, size))
            for _, meters, size in fetched:
                for meter in meters:
                    self._rate(meter).add(size, now_ms)
            incomplete = [
                replica for replica, _, size in fetched if size and not replica.is_complete
            ]
        return all(each.is_complete for each in copies)

    def forget_node(self, node_id: int) -> None:
        """Forget the rates of a node, because its process has ended."""
        self._rates = {
            meter: rate for meter, rate in self._rates.items() if meter.node_id != node_id
        }

    def _meters(self, partition: Partition, node_id: int) -> tuple[_Meter, ...]:
        settings = self._image().topic_config(partition.topic_name)
        return tuple(
            meter
            for meter in (_Meter(_LEADER, partition.leader), _Meter(_FOLLOWER, node_id))
            if meter.replicas_key in settings
            and _names_replica(settings[meter.replicas_key], partition.index, meter.node_id)
            and self._limit(meter) < UNLIMITED
        )

    def _limit(self, meter: _Meter) -> int:
        return allowed_rate(self._image(), meter.node_id, meter.rate_key)

    def _is_exceeded(self, meter: _Meter, now_ms: int) -> bool:
        rate = self._rate(meter)
        rate.limit = self._limit(meter)
        return rate.is_exceeded(now_ms)

    def _rate(self, meter: _Meter) -> SimpleRate:
        rate = self._rates.get(meter)
        if rate is None:
            config = self._config.of_node(meter.node_id)
            rate = self._rates[meter] = SimpleRate(
                self._limit(meter),
                config.int("replication.quota.window.num"),
                config.int("replication.quota.window.size.seconds") * 1000,
            )
        return rate

    def _copy_one_fetch(self, replica: _Copy) -> int:
        """Advance the end of a replica by one fetch, and return the size of its batches."""
        max_bytes = self._config.node_int(replica.node_id, "replica.fetch.max.bytes")
        size, end_offset = advance_by_one_fetch(replica.partition, replica.end_offset, max_bytes)
        replica.view.replica_end = end_offset
        return size


def allowed_rate(image: MetadataImage, node_id: int, key: str) -> int:
    """Return the rate in bytes per second that a node allows: a dynamic setting only."""
    for name in (str(node_id), _ALL_NODES):
        settings = image.config_of(ResourceType.BROKER, name)
        if key in settings:
            return int(settings[key])
    return UNLIMITED


def advance_by_one_fetch(partition: Partition, offset: int, max_bytes: int) -> tuple[int, int]:
    """Return the size of the batches of one fetch at an offset, and the offset after them.

    A fetch returns at least one batch. A failure to read the log is reported.
    """
    size, log = 0, partition.log
    try:
        for batch in log.batches(offset):
            if size and size + batch.size > max_bytes:
                break
            size += batch.size
            offset = batch.last_offset + 1
        else:
            # Compaction may have removed the last batches.
            offset = log.end_offset
    except OSError as error:
        start = offset
        partition.report_read_failure(error, lambda: next(log.batches(start), None))
    return size, offset


def _names_replica(throttled: str, index: int, node_id: int) -> bool:
    """Return whether a list of throttled replicas names a partition at a node."""
    names = _throttled_names(throttled)
    return f"{index}:{node_id}" in names or names == {_ALL_REPLICAS}


@lru_cache(maxsize=8)  # a topic with many partitions has long lists, which each of them looks up
def _throttled_names(throttled: str) -> frozenset[str]:
    return frozenset(name.strip() for name in throttled.split(","))
