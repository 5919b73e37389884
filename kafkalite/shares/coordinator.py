"""ShareCoordinator: share shards on the coordinator runtime, and what others ask of them.

As with groups, the machines are imported when the first shard is led. Leaders of share partitions,
the group coordinator and administrators ask here in plain calls; all of them are answered at once.
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
from kafkalite.shares.portions import portions
from kafkalite.shares.records import written_version
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorResult
    from kafkalite.coordinator.journal import Journal
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.shares.shard import ShareShard
    from kafkalite.shares.state import ShareState, ShareSummary, StateChange


_LEAST_PRUNED = 1_000
"""Superseded records that are worth a round of pruning."""
_PRUNED_PER_STATE = 2


class PrunedLog(Protocol):
    """A partition of the topic, as one who deletes from its start needs it."""

    @property
    def start_offset(self) -> int:
        """The offset of the oldest record still kept."""

    @property
    def end_offset(self) -> int:
        """One past the last record."""

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`; OSError when the disk fails."""


class ShareCoordinator(CoordinatorRuntime["ShareShard"]):
    """The share coordinator of all nodes of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataController,
        open_log: Callable[[int], CoordinatorLog],
        log_of: Callable[[int], PrunedLog],
        journal: Journal | None = None,
    ) -> None:
        """Make a coordinator; `open_log` and `log_of` give a partition of its topic, by index."""
        super().__init__(
            clock=clock,
            serde=CoordinatorSerde(written_version, "share"),
            partition_count=lambda: config.int("share.coordinator.state.topic.num.partitions"),
            open_log=open_log,
            make_machine=lambda: _new_shard(config, self._image),
            journal=journal,
            # Updates add to the snapshot before them; the topic is not compacted either.
            replay_all=replay_log,
        )
        self._config = config
        self._metadata = metadata
        self._image = metadata.image
        self._log_of = log_of
        self._prune_timer: Timer | None = None

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata: who leads which shard, and which topics are gone.

        To be called after the logs were opened or closed; a topic's first image loads its shards.
        OSError when a log could not be read; the shards that are there have heard all the same.
        """
        self._image = image
        topic = image.topics.get(SHARE_STATE_TOPIC)
        try:
            self.lead(() if topic is None else [partition.leader for partition in topic.partitions])
        finally:
            self._prune_later()
            for shard in self.shards():
                try:
                    shard.write(lambda machine, now_ms: machine.on_image(image, delta, now_ms))
                except KafkaError:
                    # States of deleted topics stay in a log that takes no records just now; nobody
                    # can ask for them.
                    continue

    def have_topic(self) -> None:
        """Make the topic that states are kept on, unless it is there.

        KafkaError COORDINATOR_NOT_AVAILABLE when it cannot be made.
        """
        self._metadata.have_internal_topic(SHARE_STATE_TOPIC)

    def partition_for_share(self, group_id: str, topic_id: bytes, partition: int) -> int:
        """Return the partition of the log that keeps a share partition's state."""
        return self.partition_for(ShareKey(group_id, topic_id, partition).text)

    # What was written and superseded goes; the topic itself is neither compacted nor timed.

    def stop(self) -> None:
        """Let go of every shard: timers stop, whoever waits is sent away."""
        super().stop()
        if self._prune_timer is not None:
            self._prune_timer.cancel()
            self._prune_timer = None

    def _prune_later(self) -> None:
        if self._prune_timer is None and self._shards:
            interval_ms = self._config.int("share.coordinator.state.topic.prune.interval.ms")
            deadline_ms = self._clock.tick_ms(self._clock.now_ms() + interval_ms)
            self._prune_timer = self._clock.call_at(deadline_ms, self._prune)

    def _prune(self) -> None:
        self._prune_timer = None
        for shard in self.shards():
            # What cannot be done on this disk now is tried in the next round.
            with suppress(KafkaError, OSError):
                self._prune_shard(shard)
        self._prune_later()

    def _prune_shard(self, shard: ActiveShard[ShareShard]) -> None:
        """Write all states whole and delete what is before that, if that is worth it.

        Chosen, instead of Kafka's deleting up to the oldest snapshot that still counts: no record's
        place has to be remembered, and one quiet partition does not keep the rest.
        """
        log = self._log_of(shard.partition)
        states = shard.machine.states()
        superseded = log.end_offset - log.start_offset - len(states)
        if superseded < max(_LEAST_PRUNED, _PRUNED_PER_STATE * len(states)):
            return
        end_offset = log.end_offset
        for keys in portions(states.items()):
            shard.write(partial(_snapshot, keys))
        log.delete_before(end_offset)

    # What is asked of it; KafkaError NOT_COORDINATOR while there is no log to keep it on.

    def initialize_state(
        self, group_id: str, topic_id: bytes, partition: int, *, state_epoch: int, start_offset: int
    ) -> None:
        """Begin a state, or begin it anew; KafkaError as ShareShard.initialize."""
        key = ShareKey(group_id, topic_id, partition)
        self.write(
            self.partition_for(key.text),
            lambda machine, now_ms: machine.initialize(key, state_epoch, start_offset, now_ms),
        )

    def read_state(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state that a leader begins with; KafkaError as ShareShard.read."""
        return cast(
            "ShareState",
            self.write(
                self.partition_for(key.text),
                lambda machine, now_ms: machine.read(key, leader_epoch, now_ms),
            ),
        )

    def write_state(self, key: ShareKey, change: StateChange) -> None:
        """Add to a state what its leader decided; KafkaError as ShareShard.write."""
        self.write(
            self.partition_for(key.text),
            lambda machine, now_ms: machine.write(key, change, now_ms),
        )

    def delete_state(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Forget a state; KafkaError as ShareShard.delete."""
        key = ShareKey(group_id, topic_id, partition)
        self.write(self.partition_for(key.text), lambda machine, _: machine.delete(key))

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareSummary:
        """Say where a share partition stands; KafkaError as ShareShard.summary."""
        key = ShareKey(group_id, topic_id, partition)
        return self.read(self.partition_for(key.text), lambda machine, _: machine.summary(key))


def _snapshot(
    keys: Sequence[ShareKey], machine: ShareShard, now_ms: int
) -> CoordinatorResult[None]:
    return machine.snapshot(keys, now_ms)


def _new_shard(config: BrokerConfig, image: MetadataImage) -> ShareShard:
    from kafkalite.shares.shard import ShareShard  # noqa: PLC0415 - see this module's docstring

    return ShareShard(config=config, image=image)
