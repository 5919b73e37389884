"""ShareCoordinator: share shards on the coordinator runtime, and their queries.

The machines are imported when the first shard is loaded, as those of groups are. Leaders of share
partitions, the group coordinator and admin requests call it directly; all calls return at once.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from kafkalite.coordinator.loading import replay_log
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.share_state_records import written_version
from kafkalite.shares.snapshot_batches import snapshot_batches
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorResult
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.shares.shard import ShareShard
    from kafkalite.shares.state import ShareState, ShareSummary, StateChange


_PRUNE_INTERVAL = "share.coordinator.state.topic.prune.interval.ms"
_MIN_SUPERSEDED_RECORDS = 1_000
"""Minimum number of superseded records for pruning a partition."""
_MIN_SUPERSEDED_PER_STATE = 2
"""Minimum number of superseded records per state."""


class PrunableLog(Protocol):
    """A partition of the topic, for deleting its oldest records."""

    @property
    def start_offset(self) -> int:
        """The offset of the oldest record."""

    @property
    def end_offset(self) -> int:
        """One past the last record."""

    def delete_before(self, offset: int) -> None:
        """Make `offset` the start of the log; raises OSError when the disk fails."""


class ShareCoordinator(CoordinatorRuntime["ShareShard"]):
    """The share coordinator of all nodes of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataController,
        open_log: Callable[[int], CoordinatorLog],
        prunable_log: Callable[[int], PrunableLog],
        history: EventHistory | None = None,
    ) -> None:
        """Create a coordinator; `open_log` and `prunable_log` return a partition of its topic."""
        super().__init__(
            clock=clock,
            serde=CoordinatorSerde(written_version, "share"),
            partition_count=lambda: config.int("share.coordinator.state.topic.num.partitions"),
            open_log=open_log,
            make_machine=lambda leader_id: _new_shard(config.of_node(leader_id), self._image),
            history=history,
            # Each update must be replayed on the snapshot before it, so the topic is not compacted.
            replay_all=replay_log,
        )
        self._config = config
        self._metadata = metadata
        self._image = metadata.image
        self._prunable_log = prunable_log
        self._prune_timers: dict[int, Timer] = {}
        """Node → the timer of its next pruning."""

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a new metadata image: leaders of the shards, and deleted topics.

        Must be called after logs were opened or closed. The topic's first image loads the shards.
        Raises OSError when a log could not be read; the loaded shards get the new image even then.
        """
        self._image = image
        topic = image.topics.get(SHARE_STATE_TOPIC)
        try:
            self.set_leaders(
                () if topic is None else [partition.leader for partition in topic.partitions]
            )
        finally:
            self._schedule_pruning()
            for shard in self.shards():
                try:
                    shard.write(lambda machine, now_ms: machine.on_image(image, delta, now_ms))
                except KafkaError:
                    # If the log accepts no records now, the states of deleted topics remain. They
                    # cannot be read.
                    continue

    def ensure_topic(self, node_id: int | None = None) -> None:
        """Create the topic of the share state, if it does not exist.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE if that fails.
        """
        self._metadata.ensure_internal_topic(SHARE_STATE_TOPIC, node_id)

    def partition_for_share(self, group_id: str, topic_id: bytes, partition: int) -> int:
        """Return the partition of the log that stores a share partition's state."""
        return self.partition_for(ShareKey(group_id, topic_id, partition).text)

    # Pruning: the topic has neither compaction nor a retention time.

    def stop(self) -> None:
        """Unload every shard: timers stop, waiting requests are refused."""
        super().stop()
        for timer in self._prune_timers.values():
            timer.cancel()
        self._prune_timers.clear()

    def _schedule_pruning(self) -> None:
        for node_id in dict.fromkeys(shard.leader_id for shard in self._shards.values()):
            if node_id not in self._prune_timers:
                interval_ms = self._config.node_int(node_id, _PRUNE_INTERVAL)
                deadline_ms = self._clock.periodic_deadline_ms(self._clock.now_ms() + interval_ms)
                self._prune_timers[node_id] = self._clock.call_at(
                    deadline_ms, partial(self._prune, node_id)
                )

    def _prune(self, node_id: int) -> None:
        del self._prune_timers[node_id]
        for shard in self.shards_led_by(node_id):
            # If the disk fails, the next round tries again.
            with suppress(KafkaError, OSError):
                self._prune_shard(shard)
        self._schedule_pruning()

    def _prune_shard(self, shard: ActiveShard[ShareShard]) -> None:
        """Write snapshots of all states and delete older records, if there are enough of them.

        Kafka deletes up to the oldest snapshot in use. Writing new snapshots avoids tracking the
        offset of each one, and an inactive share partition does not prevent deletion.
        """
        log = self._prunable_log(shard.partition)
        states = shard.machine.states()
        superseded = log.end_offset - log.start_offset - len(states)
        if superseded < max(_MIN_SUPERSEDED_RECORDS, _MIN_SUPERSEDED_PER_STATE * len(states)):
            return
        end_offset = log.end_offset
        for keys in snapshot_batches(states.items()):
            shard.write(partial(_snapshot, keys))
        log.delete_before(end_offset)

    # Queries and changes; they raise KafkaError NOT_COORDINATOR if there is no log for the state.

    def initialize_state(
        self, group_id: str, topic_id: bytes, partition: int, *, state_epoch: int, start_offset: int
    ) -> None:
        """Create or reset a state; raises the errors of ShareShard.initialize."""
        key = ShareKey(group_id, topic_id, partition)
        self.write(
            self.partition_for(key.text),
            lambda machine, now_ms: machine.initialize(key, state_epoch, start_offset, now_ms),
        )

    def read_state(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the initial state of a leader; raises the errors of ShareShard.read."""
        return cast(
            "ShareState",
            self.write(
                self.partition_for(key.text),
                lambda machine, now_ms: machine.read(key, leader_epoch, now_ms),
            ),
        )

    def write_state(self, key: ShareKey, change: StateChange) -> None:
        """Store a change that the leader decided; raises the errors of ShareShard.write."""
        self.write(
            self.partition_for(key.text),
            lambda machine, now_ms: machine.write(key, change, now_ms),
        )

    def delete_state(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Delete a state; raises the errors of ShareShard.delete."""
        key = ShareKey(group_id, topic_id, partition)
        self.write(self.partition_for(key.text), lambda machine, _: machine.delete(key))

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareSummary:
        """Return the state without batches; raises the errors of ShareShard.summary."""
        key = ShareKey(group_id, topic_id, partition)
        return self.read(self.partition_for(key.text), lambda machine, _: machine.summary(key))


def _snapshot(
    keys: Sequence[ShareKey], machine: ShareShard, now_ms: int
) -> CoordinatorResult[None]:
    return machine.snapshot(keys, now_ms)


def _new_shard(config: BrokerConfig, image: MetadataImage) -> ShareShard:
    from kafkalite.shares.shard import ShareShard  # noqa: PLC0415 - see this module's docstring

    return ShareShard(config=config, image=image)
