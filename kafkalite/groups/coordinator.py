"""GroupCoordinator: the shards of `__consumer_offsets`, led by the leaders of its partitions.

`kafkalite.groups.shard` is imported when a node of the cluster first leads a shard. Before that
there are no groups, and a broker starts faster without the module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.loading import replay_transactions
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorLog, RecordSerde
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.coordinator.group_commit import CommitWindow
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.storage.transaction_marker import TransactionMarker


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
        history: EventHistory | None = None,
        carry_out: Callable[[object], None] | None = None,
        is_log_empty: Callable[[int], bool] | None = None,
        window: CommitWindow | None = None,
    ) -> None:
        super().__init__(
            clock=clock,
            serde=CoordinatorSerde(written_version),
            partition_count=lambda: config.int("offsets.topic.num.partitions"),
            open_log=open_log,
            make_machine=lambda leader_id: _new_shard(
                config.of_node(leader_id), entropy, self._image
            ),
            history=history,
            carry_out=carry_out,
            replay_all=_replay_all,
            is_log_empty=is_log_empty,
            window=window,
        )
        self._image = image

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply new metadata: the leaders of the shards, and created, changed and deleted topics.

        Call this after the logs were opened or closed. The first image with the topic loads its
        shards. Raises OSError if a log cannot be read; the loaded shards get the image anyway.
        """
        self._image = image
        topic = image.topics.get(OFFSETS_TOPIC)
        try:
            self.set_leaders(
                () if topic is None else [partition.leader for partition in topic.partitions]
            )
        finally:
            self._update_shards(image, delta)

    def end_transaction(self, partition: int, marker: TransactionMarker) -> int:
        """End a producer's transaction on a partition of `__consumer_offsets`.

        Returns the end offset of the log. Raises KafkaError(NOT_COORDINATOR) if the shard is not
        loaded, and the errors of `ActiveShard.end_transaction`.
        """
        return self._loaded_shard(partition).end_transaction(marker)

    def _update_shards(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for shard in self.shards():
            try:
                shard.write(lambda machine, now_ms: machine.on_image(image, delta, now_ms))
            except KafkaError:
                # The metadata has changed even if this log cannot be written now.
                shard.write(lambda machine, now_ms: machine.on_image_failed(delta, now_ms))


def _replay_all(log: CoordinatorLog, serde: RecordSerde, shard: GroupShard) -> None:
    replay_transactions(log, serde, shard, shard.offsets.loader.replay_encoded)


def _new_shard(config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> GroupShard:
    from kafkalite.groups.shard import GroupShard  # noqa: PLC0415 - see this module's docstring

    return GroupShard(config=config, entropy=entropy, image=image)
