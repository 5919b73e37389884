"""ClusterMetadata: the content of a Metadata response, and the rule that finds outdated responses.

Brokers learn of changes at different times, so a response can be older than the previous one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import NO_EPOCH, Epochs, TopicPartition
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.protocol._generated.messages.metadata import MetadataResponse

NO_LEADER: Final = -1


class PartitionMetadata(NamedTuple):
    """The leader of a partition, and its epochs; the leader is -1 if there is none."""

    leader: int
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = NO_EPOCH
    topic_id: bytes = ZERO_UUID

    @property
    def epochs(self) -> Epochs:
        """The epochs of leader and partition."""
        return Epochs(self.leader_epoch, self.partition_epoch)

    def is_older_than(self, other: PartitionMetadata) -> bool:
        """Return whether the epochs are older.

        Without partition epochs, the ids of the topics show whether leader epochs are comparable.
        """
        if self.partition_epoch == other.partition_epoch == NO_EPOCH and (
            self.topic_id != other.topic_id
        ):
            return False
        return self.epochs.is_older_than(other.epochs)


class RequiredMetadata(NamedTuple):
    """The epochs of an offset, and the id of its topic; zero if it is unknown."""

    epochs: Epochs
    topic_id: bytes = ZERO_UUID

    def is_of_other_topic(self, known: PartitionMetadata) -> bool:
        """Return whether only the ids of the topics show that the offset is of another partition.

        The ids do not show which of both topics is newer. Returns False if partition epochs do.
        """
        return (
            NO_EPOCH in (self.epochs.partition_epoch, known.partition_epoch)
            and ZERO_UUID not in (self.topic_id, known.topic_id)
            and self.topic_id != known.topic_id
        )


class ClusterMetadata(NamedTuple):
    """Brokers and partitions, as one broker knew them."""

    brokers: Mapping[int, Address]
    """Node id → address."""
    partitions: Mapping[TopicPartition, PartitionMetadata]
    max_partition_epoch: int = NO_EPOCH
    """The largest partition epoch that the cluster has used; -1 if the broker reports none."""

    @classmethod
    def parse(cls, response: MetadataResponse) -> ClusterMetadata:
        """Return the content of a response; topics with errors are omitted."""
        return cls(
            brokers={
                broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
            },
            partitions={
                TopicPartition(topic.name, row.partition_index): PartitionMetadata(
                    leader=row.leader_id,
                    leader_epoch=row.leader_epoch,
                    partition_epoch=row.incarnation_epoch,
                    topic_id=topic.topic_id,
                )
                for topic in response.topics
                if topic.name is not None and not topic.error_code
                for row in topic.partitions
            },
            max_partition_epoch=response.max_incarnation_epoch,
        )

    def is_outdated(
        self, cached: ClusterMetadata, partitions: Iterable[TopicPartition] | None = None
    ) -> bool:
        """Return whether this metadata is older than `cached`, for the partitions of interest.

        None means that all partitions are of interest. Partitions that only one of both has are not
        compared: the maximum partition epoch grows when a topic is created or deleted.
        """
        if NO_EPOCH < self.max_partition_epoch < cached.max_partition_epoch:
            return True
        compared = self.partitions if partitions is None else partitions
        return any(
            (own := self.partitions.get(partition)) is not None
            and (other := cached.partitions.get(partition)) is not None
            and own.is_older_than(other)
            for partition in compared
        )

    def partitions_older_than(
        self, required: Mapping[TopicPartition, RequiredMetadata]
    ) -> frozenset[TopicPartition]:
        """Return the partitions whose epochs are older than those required, such as committed ones.

        Partitions without metadata and partitions of other topics are not included.
        """
        return frozenset(
            partition
            for partition, one in required.items()
            if (known := self.partitions.get(partition)) is not None
            and not one.is_of_other_topic(known)
            and known.epochs.is_older_than(one.epochs)
        )

    def partitions_of_other_topics(
        self, required: Mapping[TopicPartition, RequiredMetadata]
    ) -> frozenset[TopicPartition]:
        """Return the partitions of topics with other ids, see `RequiredMetadata`."""
        return frozenset(
            partition
            for partition, one in required.items()
            if (known := self.partitions.get(partition)) is not None
            and one.is_of_other_topic(known)
        )


NO_METADATA: Final = ClusterMetadata(MappingProxyType({}), MappingProxyType({}))
"""The metadata before the first response."""
