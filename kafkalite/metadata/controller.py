"""MetadataController: the one door to the metadata machine.

Every change goes through `_write`: decide, append, replay, new image, tell the listeners. Nothing
waits, so when a call returns, the change is in the log and everybody knows of it. Each raises
KafkaError KAFKA_STORAGE_ERROR when a disk refuses: the log's, and nothing was changed, or that of
one of the listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkalite.coordinator.contract import Parked
from kafkalite.coordinator.loading import replay_log
from kafkalite.metadata.image import MetadataDelta, MetadataImage, ResourceType
from kafkalite.metadata.internal_topics import topic_as_wanted
from kafkalite.metadata.serde import MetadataSerde
from kafkalite.metadata.shard import MetadataShard
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorResult
    from kafkalite.metadata.configs import ConfigChange
    from kafkalite.metadata.creation import NewTopic, TopicCreation
    from kafkalite.metadata.elections import ElectionType
    from kafkalite.metadata.growth import Growth
    from kafkalite.metadata.image import ConfigResource
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy

    Listener = Callable[[MetadataImage, MetadataDelta], None]

R = TypeVar("R")


class MetadataController:
    """Decides on the cluster's metadata, and keeps its image."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        config: BrokerConfig,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._log = log
        self._config = config
        self._clock = clock
        self._shard = MetadataShard(config, entropy)
        self._serde = MetadataSerde()
        self._listeners: list[Listener] = []
        self._image = MetadataImage()

    @property
    def image(self) -> MetadataImage:
        """The cluster as it is now."""
        return self._image

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(image, delta)` after each change, in order of subscription.

        An OSError of a listener is told by what made the change, when all have heard of it.
        """
        self._listeners.append(listener)

    def start(self, racks: Mapping[int, str | None]) -> None:
        """Read the log, then make the cluster consist of these nodes, id → rack.

        Every partition has a live leader afterwards, whatever nodes earlier starts had. Listeners
        subscribed before hear of everything as one change. OSError when the log cannot be read.
        """
        end_offset = replay_log(self._log, self._serde, self._shard)
        self._image = MetadataImage(version=end_offset)
        # One after the other: nodes must be known before leaders are chosen among them.
        self._append(self._shard.on_loaded(self._clock.now_ms()))
        self._append(self._shard.register(racks))
        self._append(self._shard.settle_leadership())
        self._publish()

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreation]:
        """Make topics; each succeeds or fails alone.  KafkaError when the request is too large."""
        return self._write(self._shard.create_topics(wanted, validate_only=validate_only))

    def have_internal_topic(self, name: str) -> None:
        """Make a topic that coordinators live on, unless it is there.

        KafkaError COORDINATOR_NOT_AVAILABLE when it cannot be made.
        """
        if name in self.image.topics:
            return
        try:
            (creation,) = self.create_topics([topic_as_wanted(name, self._config)])
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if creation.error is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, creation.error.message)

    def delete_topics(self, topic_ids: Sequence[bytes]) -> dict[bytes, KafkaError | None]:
        """Remove topics; each succeeds or fails alone."""
        return self._write(self._shard.delete_topics(topic_ids))

    def create_partitions(
        self, growths: Sequence[Growth], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Add partitions to topics; one outcome each, in order."""
        return self._write(self._shard.create_partitions(growths, validate_only=validate_only))

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]], kind: ElectionType
    ) -> list[KafkaError | None]:
        """Elect leaders of (topic, index); one outcome each, in order."""
        return self._write(self._shard.elect_leaders(partitions, kind))

    def alter_configs(
        self,
        altered: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change some keys of some resources; each resource succeeds or fails alone."""
        return self._write(self._shard.alter_configs(altered, validate_only=validate_only))

    def replace_configs(
        self,
        wanted: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Set all keys of some resources; each resource succeeds or fails alone."""
        return self._write(self._shard.replace_configs(wanted, validate_only=validate_only))

    def allocate_producer_ids(self, node_id: int) -> tuple[int, int]:
        """Give a node a block of producer ids: the first, and how many."""
        return self._write(self._shard.producer_ids.allocate(node_id))

    def _write(self, result: CoordinatorResult[R]) -> R:
        if isinstance(result.response, Parked):
            raise TypeError("the metadata machine parks nothing")
        if result.records:
            try:
                self._append(result)
                self._publish()
            except OSError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from error
        return result.response

    def _append(self, result: CoordinatorResult[R]) -> None:
        if not result.records:
            return
        encoded = [self._serde.encode(record) for record in result.records]
        end_offset = self._log.append(encoded, self._clock.now_ms())
        for record in result.records:
            self._shard.replay(record)
        self._image = self._image.at_version(end_offset)

    def _publish(self) -> None:
        image, delta = self._shard.next_image(self._image, self._image.version)
        self._image = image
        if delta.configs:
            self._publish_config(image)
        failure = None
        for listener in self._listeners:
            try:
                listener(image, delta)
            except OSError as error:
                # The change is in the log, so all others hear of it before somebody's disk matters.
                failure = error
        if failure is not None:
            raise failure

    def _publish_config(self, image: MetadataImage) -> None:
        # All nodes live in this process and share one configuration: where nodes are set apart,
        # the first node's word counts for what the process does.
        dynamic = dict(image.config_of(ResourceType.BROKER, ""))
        dynamic.update(image.config_of(ResourceType.BROKER, str(image.controller_id)))
        groups = {
            resource.name: own
            for resource, own in image.configs.items()
            if resource.type is ResourceType.GROUP
        }
        self._config.publish(dynamic, groups)
