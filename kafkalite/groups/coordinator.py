"""GroupCoordinator: group shards on the coordinator runtime, led as the metadata says.

The machines are imported when the first shard is led, which is when a cluster has the topic that
keeps them: before that nobody has a group, and a broker starts sooner without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.loading import replay_transactions
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.records import written_version
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorLog
    from kafkalite.coordinator.journal import Journal
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.storage.marker import TransactionMarker


class GroupCoordinator(CoordinatorRuntime["GroupShard"]):
    """The group coordinator of all nodes of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        entropy: Entropy,
        config: BrokerConfig,
        image: MetadataImage,
        open_log: Callable[[int], CoordinatorLog],
        journal: Journal | None = None,
        carry_out: Callable[[object], None] | None = None,
    ) -> None:
        super().__init__(
            clock=clock,
            serde=CoordinatorSerde(written_version),
            partition_count=lambda: config.int("offsets.topic.num.partitions"),
            open_log=open_log,
            make_machine=lambda: _new_shard(config, entropy, self._image),
            journal=journal,
            carry_out=carry_out,
            replay_all=replay_transactions,
        )
        self._image = image

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata: who leads which shard, and which topics are gone.

        To be called after the logs were opened or closed; a topic's first image loads its shards.
        OSError when a log could not be read; the shards that are there have heard all the same.
        """
        self._image = image
        topic = image.topics.get(OFFSETS_TOPIC)
        try:
            self.lead(() if topic is None else [partition.leader for partition in topic.partitions])
        finally:
            self._tell_shards(image, delta)

    def end_transaction(self, partition: int, marker: TransactionMarker) -> None:
        """End a producer's transaction on a partition of the groups' topic.

        KafkaError NOT_COORDINATOR while there is no such shard, and as ActiveShard.end_transaction.
        """
        self._active(partition).end_transaction(marker)

    def _tell_shards(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for shard in self.shards():
            try:
                shard.write(lambda machine, now_ms: machine.on_image(image, delta, now_ms))
            except KafkaError:
                # The metadata is what it is, whether or not this log takes records just now.
                shard.write(lambda machine, now_ms: machine.on_image_failed(delta, now_ms))


def _new_shard(config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> GroupShard:
    from kafkalite.groups.shard import GroupShard  # noqa: PLC0415 - see this module's docstring

    return GroupShard(config=config, entropy=entropy, image=image)
