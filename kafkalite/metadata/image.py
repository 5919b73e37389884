"""MetadataImage: an immutable snapshot of the cluster's metadata.

Each change makes a new image; old images remain valid. The difference between two is a
`MetadataDelta`. Both are NamedTuples, because defining a frozen dataclass takes six times as long,
and every start would pay for that.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.security.acls import Acl
    from kafkalite.security.delegation_tokens import DelegationToken
    from kafkalite.security.quotas import QuotaEntity
    from kafkalite.security.sasl.scram_credentials import ScramCredential

    ScramKey = tuple[int, str]
    """The number of a SCRAM mechanism, and a user."""

NO_LEADER = -1
NO_INCARNATION_EPOCH = -1

INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state"),
)
"""Topics of the broker itself; clients may read them. Metadata responses mark them as internal."""


class ResourceType(IntEnum):
    """Type of a configured resource, numbered as in the protocol and in ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with settings; a broker's name is its id, or empty for all brokers."""

    type: ResourceType
    name: str


class PartitionImage(NamedTuple):
    """One partition: leader, epochs, replicas and in-sync replicas.

    `elr` are the eligible leader replicas (KIP-966). `adding` and `removing` are the replicas of a
    reassignment in progress. `epoch_start_offset` is where the log was last truncated by a new
    leader, and `truncation_epoch` is the epoch of that leader; both are -1 without a truncation.
    `incarnation_epoch` is the partition epoch of KIP-232: no other partition of the cluster has or
    had it. It is -1 if it is unknown.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_recovering: bool = False
    """Whether the leader was elected uncleanly and has not yet replicated its log."""
    epoch_start_offset: int = -1
    truncation_epoch: int = -1
    incarnation_epoch: int = NO_INCARNATION_EPOCH
    directories: tuple[bytes, ...] = ()
    """The id of the log directory of each replica, in the order of the replicas (KIP-858); empty at
    levels of metadata.version without directories."""

    def directory_of(self, node_id: int) -> bytes | None:
        """Return the id of the log directory of a node's replica; None if it is not recorded."""
        if node_id not in self.replicas:
            return None
        place = self.replicas.index(node_id)
        return self.directories[place] if place < len(self.directories) else None


class TopicImage(NamedTuple):
    """One topic, its partitions in order of their index."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        """Whether the topic is internal."""
        return self.name in INTERNAL_TOPICS


RELAYED: Final = -2
"""The port offset of a listener whose clients connect to another process, which relays them."""


class RegisteredListener(NamedTuple):
    """The address of a node for clients of one listener, as in its registration."""

    name: str
    host: str
    port: int
    security_protocol: int
    """Kafka's number of the security protocol."""
    port_offset: int
    """Distance of the port from the port that the listener has at the first node; RELAYED if
    another process listens."""


class AddedNode(NamedTuple):
    """The part of a node that was added while the cluster ran which later starts need."""

    settings: Mapping[str, str]
    """Values of keys that can differ between nodes."""
    listeners: tuple[RegisteredListener, ...] = ()

    @property
    def is_relayed(self) -> bool:
        """Whether the clients of the node connect to another process."""
        return any(each.port_offset == RELAYED for each in self.listeners)

    def port_offset(self, listener: str) -> int | None:
        """Return the port offset of a listener, None if it is unknown."""
        return next((each.port_offset for each in self.listeners if each.name == listener), None)


class BrokerImage(NamedTuple):
    """One registered node; the addresses of nodes that were not added are known to the server."""

    node_id: int
    broker_epoch: int
    rack: str | None = None
    is_fenced: bool = False
    """Whether the node leads no partition, because the controller considers it dead."""
    is_shutting_down: bool = False
    """Whether the node is in a controlled shutdown: it leads no partition and is in no ISR."""
    incarnation_id: bytes = bytes(16)
    """The id of the node's process: it changes when the node is started again."""
    added: AddedNode | None = None
    """None for a node that was not added while the cluster ran."""
    directories: tuple[bytes, ...] = ()
    """The ids of the node's log directories."""
    cordoned_directories: tuple[bytes, ...] = ()
    """The ids of the log directories that receive no new replicas (KIP-1066)."""

    @property
    def is_cordoned(self) -> bool:
        """Whether the node receives no new replicas, because all its directories are cordoned."""
        return bool(self.directories) and set(self.directories) <= {*self.cordoned_directories}

    @property
    def is_active(self) -> bool:
        """Whether the node may lead partitions and be in sync."""
        return not (self.is_fenced or self.is_shutting_down)


_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class MetadataImage(NamedTuple):
    """The state after a record of the metadata log; `version` is the end offset of the log.

    `max_incarnation_epoch` counts the partitions that were created and the topics that were deleted
    (KIP-232).
    """

    version: int = 0
    topics: Mapping[str, TopicImage] = _EMPTY
    topics_by_id: Mapping[bytes, TopicImage] = _EMPTY
    brokers: Mapping[int, BrokerImage] = _EMPTY
    configs: Mapping[ConfigResource, Mapping[str, str]] = _EMPTY
    features: Mapping[str, int] = _EMPTY
    max_incarnation_epoch: int = 0
    scram_credentials: Mapping[ScramKey, ScramCredential] = _EMPTY
    acls: Mapping[bytes, Acl] = _EMPTY
    """ACLs by id; images share the mapping until an ACL changes."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = _EMPTY
    """Quotas by entity and key; images share the mapping until a quota changes."""
    delegation_tokens: Mapping[str, DelegationToken] = _EMPTY
    """Delegation tokens by id; images share the mapping until a token changes."""

    def config_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """Return the settings of a resource, as text; empty if there are none."""
        return self.configs.get(ConfigResource(kind, name), _EMPTY)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the topic's own settings."""
        return self.config_of(ResourceType.TOPIC, name)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return the group's own settings."""
        return self.config_of(ResourceType.GROUP, group_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with an id, or None."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """Return a partition by its topic's name and index, or None."""
        topic_image = self.topics.get(topic)
        if topic_image is None or not 0 <= index < len(topic_image.partitions):
            return None
        return topic_image.partitions[index]

    @property
    def active_brokers(self) -> list[int]:
        """The ids of the nodes that are not fenced, in order."""
        return sorted(node_id for node_id, broker in self.brokers.items() if not broker.is_fenced)

    @property
    def controller_id(self) -> int:
        """The node that acts as controller: the active one with the lowest id."""
        return min(self.active_brokers, default=NO_LEADER)


class MetadataDelta(NamedTuple):
    """The difference between two images.

    `created` and `deleted` contain topics; a topic that was deleted and created again in one
    change is in both. `changed` contains the new state of topics with new partitions or with a
    changed leader, epoch, replica set or ISR. `reconfigured` contains the
    topics whose own settings changed.
    """

    created: tuple[TopicImage, ...] = ()
    deleted: tuple[TopicImage, ...] = ()
    changed: tuple[TopicImage, ...] = ()
    reconfigured: tuple[TopicImage, ...] = ()
    configs: frozenset[ConfigResource] = frozenset()
    brokers_changed: bool = False
