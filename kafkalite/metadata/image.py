"""MetadataImage: the immutable snapshot of the cluster that everybody else reads.

A change makes a new image; the old one stays true for whoever still holds it. What changed between
two is a `MetadataDelta`. These are tuples by name instead of dataclasses, because defining a frozen
dataclass takes six times as long, and every start pays for it.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_LEADER = -1

INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state"),
)
"""Topics that are the broker's own; clients may read them, and are told what they are."""


class ResourceType(IntEnum):
    """What a configuration belongs to, numbered as on the wire and in ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something that has a configuration; a broker's name is its id, empty for all brokers."""

    type: ResourceType
    name: str


class PartitionImage(NamedTuple):
    """One partition: who leads it, at which epoch, and who has copies."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicImage(NamedTuple):
    """One topic, its partitions in order of their index."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        """Whether the topic is one of the broker's own."""
        return self.name in INTERNAL_TOPICS


class BrokerImage(NamedTuple):
    """One registered node; where it listens is known to the server, not to the metadata."""

    node_id: int
    broker_epoch: int
    rack: str | None = None


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class MetadataImage(NamedTuple):
    """The cluster after some record of the metadata log; `version` is that log's end offset."""

    version: int = 0
    topics: Mapping[str, TopicImage] = _NOTHING
    topics_by_id: Mapping[bytes, TopicImage] = _NOTHING
    brokers: Mapping[int, BrokerImage] = _NOTHING
    configs: Mapping[ConfigResource, Mapping[str, str]] = _NOTHING
    features: Mapping[str, int] = _NOTHING

    def config_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """Return what was set on a resource, as text; empty when nothing was."""
        return self.configs.get(ConfigResource(kind, name), _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return what was set on a topic itself."""
        return self.config_of(ResourceType.TOPIC, name)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return what was set on a group itself."""
        return self.config_of(ResourceType.GROUP, group_id)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """Return a partition by its topic's name, or None."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def at_version(self, version: int) -> MetadataImage:
        """Return this image as of a later end of the log."""
        return self._replace(version=version)

    @property
    def controller_id(self) -> int:
        """The node that answers for the controller: the live one with the least id."""
        return min(self.brokers, default=NO_LEADER)


class MetadataDelta(NamedTuple):
    """What one change to the metadata touched.

    `created` and `deleted` hold whole topics; a topic deleted and created again under its name in
    one change stands in both. `changed` holds topics, as they are now, that gained partitions or
    whose partitions changed leader, epoch, replicas or ISR; `reconfigured` those whose own
    configuration changed.
    """

    created: tuple[TopicImage, ...] = ()
    deleted: tuple[TopicImage, ...] = ()
    changed: tuple[TopicImage, ...] = ()
    reconfigured: tuple[TopicImage, ...] = ()
    configs: frozenset[ConfigResource] = frozenset()
    brokers_changed: bool = False
