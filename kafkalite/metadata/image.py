"""MetadataImage: the immutable snapshot of the cluster that everybody else reads.

A change makes a new image; the old one stays true for whoever still holds it. What changed between
two is a `MetadataDelta`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """Something that has a configuration; a broker's name is its id, empty for all brokers."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition: who leads it, at which epoch, and who has copies."""

    index: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic, its partitions in order of their index."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        """Whether the topic is one of the broker's own."""
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One registered node; where it listens is known to the server, not to the metadata."""

    node_id: int
    broker_epoch: int
    rack: str | None = None


_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The cluster after some record of the metadata log; `version` is that log's end offset."""

    version: int = 0
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)

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
        return replace(self, version=version)

    @property
    def controller_id(self) -> int:
        """The node that answers for the controller: the live one with the least id."""
        return min(self.brokers, default=NO_LEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
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

    @property
    def changed_topic_ids(self) -> frozenset[bytes]:
        """Ids of topics that are there now and were touched: new, changed or reconfigured."""
        touched = (*self.created, *self.changed, *self.reconfigured)
        return frozenset(topic.topic_id for topic in touched)

    @property
    def deleted_topic_ids(self) -> frozenset[bytes]:
        """Ids of topics that are gone."""
        return frozenset(topic.topic_id for topic in self.deleted)
