"""PositionCheck: finds positions that the metadata contradicts, and those of re-created topics.

Metadata that is older than a position is usually outdated, and a newer response will follow. If the
topic was created again and brokers do not report partition epochs, none will follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.cluster_metadata import RequiredMetadata
from kafkalite.client.errors import InvalidPartitionEpochError, OutdatedMetadataError
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.cluster_metadata import ClusterMetadata
    from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
    from kafkalite.client.metadata import Metadata
    from kafkalite.client.retries import Retries
    from kafkalite.ports.clock import Clock

    Requirements = Mapping[TopicPartition, RequiredMetadata]


class PositionCheck:
    """The topic ids of positions, and since when the metadata contradicts them."""

    def __init__(self, metadata: Metadata, clock: Clock, timeout_ms: int) -> None:
        """Create a check; `timeout_ms` limits the time in which metadata may be outdated."""
        self._metadata = metadata
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._topic_ids: dict[TopicPartition, bytes] = {}
        """Partition → the id of the topic from which its position was fetched."""
        self._since_ms: dict[TopicPartition, int] = {}
        """Partition → the first time at which no metadata matched its position.

        Only a fetch ends this time, because the metadata of two brokers can alternate.
        """

    def set_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Set the id of the topic from which a partition was fetched."""
        self._topic_ids[partition] = topic_id
        self._since_ms.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition: its position was replaced, or it is not assigned any more."""
        self._topic_ids.pop(partition, None)
        self._since_ms.pop(partition, None)

    def required(
        self, positions: Mapping[TopicPartition, OffsetAndEpochs | None]
    ) -> dict[TopicPartition, RequiredMetadata]:
        """Return the epochs and the topic ids of positions."""
        return {
            partition: RequiredMetadata(position.epochs, self._topic_ids.get(partition, ZERO_UUID))
            for partition, position in positions.items()
            if position is not None
        }

    async def unusable(self, required: Requirements, retries: Retries) -> frozenset[TopicPartition]:
        """Return the partitions whose metadata is older than required, or is of another topic.

        Raises InvalidPartitionEpochError if a topic was created again, and OutdatedMetadataError
        if metadata has been outdated for the timeout.
        """
        known = self._metadata.current
        others = known.partitions_of_other_topics(required)
        unusable = others | known.partitions_older_than(required)
        # A refresh does not store metadata that is older than required.
        missing = required.keys() - known.partitions.keys()
        expired = self._expired(unusable | missing, retries.start_ms)
        if not others and not expired:
            return unusable
        # A single broker may know only the former topic.
        answers = await self._metadata.ask_all(retries.request_deadline_ms)
        newest = self._metadata.current
        if answers:
            _raise_if_recreated(others, expired, required, answers)
            outdated = expired & newest.partitions_older_than(required)
            if outdated:
                raise OutdatedMetadataError({each: required[each].epochs for each in outdated})
        return newest.partitions_older_than(required) | newest.partitions_of_other_topics(required)

    def _expired(
        self, unusable: Iterable[TopicPartition], start_ms: int
    ) -> frozenset[TopicPartition]:
        """Return the partitions that have been unusable for the timeout."""
        latest_ms = self._clock.now_ms() - self._timeout_ms
        return frozenset(
            each for each in unusable if self._since_ms.setdefault(each, start_ms) <= latest_ms
        )


def _raise_if_recreated(
    others: frozenset[TopicPartition],
    expired: frozenset[TopicPartition],
    required: Requirements,
    answers: Iterable[ClusterMetadata],
) -> None:
    """Raise InvalidPartitionEpochError for topics whose ids no broker knows any more.

    A broker that never learns of the deletion must not hide it: after the timeout, it is ignored.
    """
    reported = {
        (partition, known.topic_id)
        for answer in answers
        for partition in others
        if (known := answer.partitions.get(partition)) is not None
    }
    recreated = [
        each
        for each in others
        if each in expired or (each, required[each].topic_id) not in reported
    ]
    if recreated:
        raise InvalidPartitionEpochError(
            {each: required[each].epochs.partition_epoch for each in recreated}
        )
