"""MetadataController: the interface of the metadata state machine.

`_write` makes every change: it takes a decision, appends and replays its records, makes an image
and calls the listeners. All this is synchronous: when a call returns, the change is in the log and
all listeners have received it, unless a listener made the call. A change of a leader is synced
before: records of its epoch, and the truncation of a log by the new leader, must not survive a loss
of power without it. Every call raises KafkaError KAFKA_STORAGE_ERROR when a disk fails. If the log
could not be written, nothing was changed. If it could not be synced, or a listener raised the
error, the change is already in the log.

The exception are requests that create many partitions: they pause between the log and the image, so
that others need not wait for both. A decision that is made meanwhile knows the change, as in Kafka,
where the metadata of the brokers follows the controller. It publishes the change with its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from kafkalite.coordinator.contract import (
    CoordinatorRecord,
    ParkedRequest,
    UnreadableLogError,
)
from kafkalite.coordinator.loading import replay_log
from kafkalite.metadata.brokers import no_directories
from kafkalite.metadata.image import MetadataDelta, MetadataImage, ResourceType
from kafkalite.metadata.internal_topics import auto_created_topic
from kafkalite.metadata.partition_change import UNCHANGED_LEADER
from kafkalite.metadata.shard import MetadataShard
from kafkalite.ports.turns import pause
from kafkalite.protocol._generated.records.broker_registration_change import (
    BrokerRegistrationChangeRecord,
)
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol.codec import (
    PARSE_ERRORS,
    decode_metadata_record,
    encode_metadata_record,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorResult
    from kafkalite.metadata.client_quotas import QuotaAlteration
    from kafkalite.metadata.configs import ConfigChange
    from kafkalite.metadata.creation import Charge, NewTopic, TopicCreation
    from kafkalite.metadata.delegation_tokens import TokenRequest
    from kafkalite.metadata.features import FeatureUpdate
    from kafkalite.metadata.image import AddedNode, ConfigResource
    from kafkalite.metadata.leadership import ElectionType
    from kafkalite.metadata.partition_creation import NewPartitions
    from kafkalite.metadata.reassignment import RequestedReassignment
    from kafkalite.metadata.scram_credentials import ScramDeletion, ScramUpsertion
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.security.acls import Acl
    from kafkalite.security.delegation_tokens import DelegationToken
    from kafkalite.security.quotas import QuotaEntity

    Listener = Callable[[MetadataImage, MetadataDelta], None]


R = TypeVar("R")


class MetadataController:
    """Decides about the cluster's metadata, and holds the current image."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        config: BrokerConfig,
        clock: Clock,
        entropy: Entropy,
        directories_of: Callable[[int], tuple[bytes, ...]] = no_directories,
        ignores_case: bool = False,
    ) -> None:
        """Create a controller that has not read its log yet.

        `directories_of` returns the ids of the log directories of a node. `ignores_case` says
        that the file system of the logs has no names that differ in case.
        """
        self._log = log
        self._config = config
        self._clock = clock
        self._machine = MetadataShard(config, entropy, directories_of, ignores_case=ignores_case)
        self._is_read = True
        """Whether the state machine has the state of the log."""
        self._serde = MetadataSerde()
        self._listeners: list[Listener] = []
        self._deferred: deque[Callable[[], None]] = deque()
        self._is_publishing = False
        self._is_making_deferred = False
        self._unpublished: deque[tuple[MetadataImage, MetadataDelta]] = deque()
        """Images that the listeners have not received yet."""
        self._must_flush = False
        """Whether a leader was changed since the log was flushed."""
        self._end_offset = 0
        self._image = MetadataImage()

    @property
    def image(self) -> MetadataImage:
        """The current metadata."""
        return self._image

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(image, delta)` after each change, in order of subscription.

        If a listener raises OSError, the remaining listeners are called, and then the caller of the
        change gets the error. A change that a listener makes is received after the present one, in
        the same order by all listeners, and only the present call waits for that.
        """
        self._listeners.append(listener)

    def defer(self, change: Callable[[], None]) -> None:
        """Make a change of the metadata now, or after the one that is being published.

        For listeners: then the change is decided when all of them know the present one.
        """
        self._deferred.append(change)
        if not self._is_publishing:
            self._make_deferred_changes()

    def _make_deferred_changes(self) -> None:
        """Make all deferred changes; the one that publishes another change leaves it to its caller.

        Otherwise many deferred changes would be made by calls in each other.
        """
        if self._is_making_deferred:
            return
        self._is_making_deferred = True
        try:
            while self._deferred:
                self._deferred.popleft()()
        finally:
            self._is_making_deferred = False

    def start(self, racks: Mapping[int, str | None]) -> None:
        """Read the log, then make the cluster consist of the nodes in `racks`: node id → rack.

        Nodes that were added while the cluster ran are members, too; nodes that were removed are
        not. Afterwards every partition has a registered node as leader, even if the previous start
        had other nodes. Listeners are called once for all these changes. Raises OSError when the
        log cannot be read or written, NoNodesError if all nodes were removed, and
        UnsupportedLevelError if the release does not support a feature level.
        """
        self._end_offset = replay_log(self._log, self._serde, self._shard)
        self._image = MetadataImage(version=self._end_offset)
        # In this order: nodes must be registered before they can be elected.
        self._append(self._shard.on_loaded(self._clock.now_ms()))
        self._append(self._shard.register(racks))
        self._append(self._shard.elect_missing_leaders())
        self._publish()

    def resume(self, image: MetadataImage) -> None:
        """Continue from the log of another controller, whose last image is known.

        Nothing is written, and no listener is called. The log is read when the next change needs
        it.
        """
        self._image = image
        self._end_offset = image.version
        self._is_read = False
        self._publish_config(image)

    def close(self) -> None:
        """Call no listener any more: the state was replaced."""
        self._listeners.clear()

    @property
    def _shard(self) -> MetadataShard:
        """The state machine, after reading the log if that was postponed."""
        if not self._is_read:
            self._is_read = True
            replay_log(self._log, self._serde, self._machine)
            # The changes that led to the present image are published already.
            self._machine.next_image(MetadataImage(), self._end_offset)
        return self._machine

    def create_topics(
        self,
        requested: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
        may_pause: bool = False,
    ) -> list[TopicCreation]:
        """Create topics; each succeeds or fails on its own.

        `charge` counts the partitions against a quota. With `may_pause`, other requests may be
        served before the topics are published. Raises KafkaError if the request is too large.
        """
        return self._write(
            self._shard.create_topics(requested, validate_only=validate_only, charge=charge),
            may_pause=may_pause,
        )

    def ensure_internal_topic(self, name: str, node_id: int | None = None) -> None:
        """Create an internal topic, if it does not exist, by the settings of a node.

        Without `node_id`, it has the settings of all nodes. Raises KafkaError
        COORDINATOR_NOT_AVAILABLE if the creation fails.
        """
        if name in self.image.topics:
            return
        config = self._config if node_id is None else self._config.of_node(node_id)
        try:
            (creation,) = self.create_topics([auto_created_topic(name, config)])
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if creation.error is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, creation.error.message)

    def delete_topics(
        self, topic_ids: Sequence[bytes], charge: Charge | None = None
    ) -> dict[bytes, KafkaError | None]:
        """Delete topics; each succeeds or fails on its own.

        `charge` counts the partitions against a quota.
        """
        return self._write(self._shard.delete_topics(topic_ids, charge))

    def create_partitions(
        self,
        new_partitions: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
        may_pause: bool = False,
    ) -> list[KafkaError | None]:
        """Add partitions to topics; return an error or None for each element.

        `charge` and `may_pause` are those of `create_topics`.
        """
        return self._write(
            self._shard.create_partitions(
                new_partitions, validate_only=validate_only, charge=charge
            ),
            may_pause=may_pause,
        )

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]], kind: ElectionType
    ) -> list[KafkaError | None]:
        """Elect leaders of (topic, index); return an error or None for each element."""
        return self._write(self._shard.elect_leaders(partitions, kind))

    def fence(self, node_id: int) -> None:
        """Take a node out of all ISRs and leaderships, because it has stopped."""
        self._write(self._shard.fence(node_id))

    def begin_shutdown(self, node_id: int) -> None:
        """Let other nodes lead the partitions of a node that is going to stop; then fence it."""
        self._write(self._shard.begin_shutdown(node_id))

    def unfence(self, node_id: int) -> None:
        """Let a node lead again, and elect it where no other node could lead."""
        self._write(self._shard.unfence(node_id))

    def register_broker(
        self,
        node_id: int,
        rack: str | None,
        *,
        added: AddedNode | None = None,
        has_crashed: bool = False,
    ) -> None:
        """Register a node that starts, with a new broker epoch; it is fenced until `unfence`.

        `added` is given for a node that was added while the cluster ran. A node that `has_crashed`,
        so stopped without a shutdown, is no eligible leader replica.
        """
        self._write(
            self._shard.register_broker(node_id, rack, added=added, has_crashed=has_crashed)
        )

    def remove_broker(self, node_id: int) -> None:
        """Unregister a node; it is no member in later starts either."""
        self._write(self._shard.remove_broker(node_id))

    def unregister_broker(self, node_id: int) -> None:
        """Take a node out of the cluster; raises KafkaError BROKER_ID_NOT_REGISTERED.

        Its replicas remain assigned to it, but it leads no partition and is in no ISR.
        """
        self._write(self._shard.unregister_broker(node_id))

    def alter_reassignments(
        self,
        requested: Sequence[RequestedReassignment],
        *,
        may_change_replication_factor: bool = True,
    ) -> list[KafkaError | None]:
        """Begin, change or cancel reassignments; returns one outcome each, in order.

        See `plan_reassignment` for the errors.
        """
        return self._write(
            self._shard.alter_reassignments(
                requested, may_change_replication_factor=may_change_replication_factor
            )
        )

    def elect_preferred_leaders(self, limit: int) -> bool:
        """Elect at most `limit` preferred leaders; returns whether there may be more."""
        return self._write(self._shard.elect_preferred_leaders(limit))

    def elect_unclean_leaders(self, limit: int) -> bool:
        """Elect leaders of partitions without one, where topics allow unclean elections."""
        return self._write(self._shard.elect_unclean_leaders(limit))

    def alter_isr(self, changes: Iterable[tuple[bytes, int, tuple[int, ...]]]) -> None:
        """Set the ISR of partitions: (topic id, index, ISR), as requested by their leaders."""
        self._write(self._shard.alter_isr(changes))

    def assign_directories(
        self, node_id: int, directories: Mapping[tuple[bytes, int], bytes]
    ) -> None:
        """Record the directories of a node's replicas: (topic id, index) → directory id.

        Those of partitions that the node has no replica of are ignored (KIP-858,
        AssignReplicasToDirs).
        """
        self._write(self._shard.assign_directories(node_id, directories))

    def cordon(self, node_id: int, directories: Sequence[bytes]) -> None:
        """Have exactly these directories of a registered node cordoned (KIP-1066)."""
        self._write(self._shard.cordon(node_id, directories))

    def move_leader(self, topic: str, index: int, leader: int, *, is_unclean: bool = False) -> None:
        """Make a replica the leader; raises the KafkaErrors of `Leadership.move`."""
        self._write(self._shard.move_leader(topic, index, leader, is_unclean=is_unclean))

    def truncate_at(self, truncation_offset: Callable[[bytes, int, int], int]) -> None:
        """Let elections use this function; see `Leadership`."""
        self._machine.leadership.truncation_offset = truncation_offset

    def alter_configs(
        self,
        altered: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
        is_forwarded: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change some keys of some resources; each resource succeeds or fails on its own.

        `is_forwarded` is false for a request that a client sends to the controller itself.
        """
        return self._write(
            self._shard.alter_configs(
                altered, validate_only=validate_only, is_forwarded=is_forwarded
            )
        )

    def replace_configs(
        self,
        requested: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
        is_forwarded: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace all keys of some resources, as `alter_configs` changes some."""
        return self._write(
            self._shard.replace_configs(
                requested, validate_only=validate_only, is_forwarded=is_forwarded
            )
        )

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> Mapping[str, KafkaError]:
        """Change the levels of features; return the errors of those that do not change.

        Since Kafka 4.0, all levels change or none: one that is not allowed raises KafkaError
        INVALID_UPDATE_VERSION.
        """
        return self._write(self._shard.update_features(updates, validate_only=validate_only))

    def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, KafkaError | None]:
        """Set and remove SCRAM credentials; return an error or None for each user.

        Raises KafkaError if there are too many.
        """
        return self._write(self._shard.alter_scram_credentials(deletions, upsertions))

    def create_acls(self, requested: Sequence[Acl]) -> list[KafkaError | None]:
        """Create ACLs, except those that exist; return an error or None for each.

        Raises KafkaError if there are too many.
        """
        return self._write(self._shard.create_acls(requested))

    def delete_acls(self, ids: Collection[bytes]) -> set[bytes]:
        """Delete the ACLs with these ids; return the ids of those that existed.

        Raises KafkaError if there are too many.
        """
        return self._write(self._shard.delete_acls(ids))

    def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set or remove quotas of entities; return an error or None for each entity.

        Raises KafkaError if there are too many.
        """
        return self._write(
            self._shard.alter_client_quotas(alterations, validate_only=validate_only)
        )

    def create_delegation_token(self, request: TokenRequest) -> DelegationToken:
        """Create and return a delegation token.

        Raises KafkaError if there is no secret key, and if there are too many renewers.
        """
        return self._write(self._shard.create_delegation_token(request, self._clock.now_ms()))

    def renew_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Let a token expire later; return the time at which it expires.

        Raises KafkaError if the token is unknown or has expired, and if the principal may not renew
        it.
        """
        return self._write(
            self._shard.renew_delegation_token(hmac, principal, period_ms, self._clock.now_ms())
        )

    def expire_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Let a token expire after `period_ms`; return the time at which it expires.

        A negative `period_ms` removes the token. Raises KafkaError as `renew_delegation_token`.
        """
        return self._write(
            self._shard.expire_delegation_token(hmac, principal, period_ms, self._clock.now_ms())
        )

    def remove_expired_delegation_tokens(self, limit: int) -> bool:
        """Remove at most `limit` expired tokens; returns whether there may be more."""
        return self._write(
            self._shard.remove_expired_delegation_tokens(limit, self._clock.now_ms())
        )

    def remove_all_delegation_tokens(self, limit: int) -> bool:
        """Remove at most `limit` tokens; returns whether there may be more."""
        from kafkalite.metadata.delegation_tokens import MAX_TIME_MS  # noqa: PLC0415 - a fast start

        return self._write(self._shard.remove_expired_delegation_tokens(limit, MAX_TIME_MS))

    def allocate_producer_ids(self, node_id: int) -> tuple[int, int]:
        """Allocate a block of producer ids to a node: its first id and size."""
        return self._write(self._shard.producer_ids.allocate(node_id))

    def _write(self, result: CoordinatorResult[R], *, may_pause: bool = False) -> R:
        if isinstance(result.response, ParkedRequest | KafkaError):
            raise TypeError("a metadata decision returned a parked request or an error")
        if result.records:
            try:
                self._append(result)
                try:
                    if may_pause:
                        pause()
                finally:  # also if the client has disconnected meanwhile
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
            if isinstance(record.value, PartitionChangeRecord):
                self._must_flush |= record.value.leader != UNCHANGED_LEADER
            self._shard.replay(record)
        self._end_offset = end_offset

    def _publish(self) -> None:
        image, delta = self._shard.next_image(self._image, self._end_offset)
        self._image = image
        if delta.configs:
            self._publish_config(image)
        failure = self._flush()
        self._unpublished.append((image, delta))
        if not self._is_publishing:
            failure = self._call_listeners() or failure
            self._make_deferred_changes()
        if failure is not None:
            raise failure

    def _call_listeners(self) -> OSError | None:
        """Publish all images that are not published yet; return the last failure of a listener."""
        failure = None
        self._is_publishing = True
        try:
            while self._unpublished:
                image, delta = self._unpublished.popleft()
                for listener in self._listeners:
                    try:
                        listener(image, delta)
                    except OSError as error:
                        # The change is in the log, so all listeners are called before this is
                        # raised.
                        failure = error
        finally:
            self._is_publishing = False
        return failure

    def _flush(self) -> OSError | None:
        """Sync changes of leaders; return a failure, after which the log accepts no changes.

        The change takes effect all the same, because it does so after the next start.
        """
        must_flush, self._must_flush = self._must_flush, False
        if must_flush:
            try:
                self._log.flush()
            except OSError as error:
                return error
        return None

    def _publish_config(self, image: MetadataImage) -> None:
        # What the nodes share, such as coordinators, has the settings of the first node, also while
        # that node is fenced.
        cluster_configs = image.config_of(ResourceType.BROKER, "")
        node_configs = {
            node_id: image.config_of(ResourceType.BROKER, str(node_id))
            for node_id in sorted(image.brokers)
        }
        group_configs = {
            resource.name: values
            for resource, values in image.configs.items()
            if resource.type is ResourceType.GROUP
        }
        self._config.publish(cluster_configs, group_configs, node_configs)


_VERSIONS: Mapping[type, int] = {
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
}
"""Record types that are not in this table have version 0, except in `_version_of`."""

_SHUTDOWN_VERSION, _CORDONED_VERSION = 1, 3
"""Versions of a BrokerRegistrationChangeRecord that begins a controlled shutdown, and of one that
cordons directories."""

_REGISTRATION_VERSION, _CORDONING_VERSION = 3, 4
"""Versions of a RegisterBrokerRecord without and with cordoned directories."""


def _version_of(value: object) -> int:
    version = _VERSIONS.get(value.__class__)
    if version is not None:
        return version
    if isinstance(value, BrokerRegistrationChangeRecord):
        if value.cordoned_log_dirs is not None:
            return _CORDONED_VERSION
        return _SHUTDOWN_VERSION if value.in_controlled_shutdown else 0
    if isinstance(value, RegisterBrokerRecord):
        can_cordon = value.cordoned_log_dirs is not None
        return _CORDONING_VERSION if can_cordon else _REGISTRATION_VERSION
    return 0


def images_at(
    log: CoordinatorLog, config: BrokerConfig, entropy: Entropy, versions: Collection[int]
) -> Mapping[int, MetadataImage]:
    """Return the metadata at these end offsets of a log; offsets after its end are missing.

    Raises OSError when the log cannot be read, and UnreadableLogError if it is damaged.
    """
    machine, serde = MetadataShard(config, entropy), MetadataSerde()
    image = MetadataImage()
    images: dict[int, MetadataImage] = {}
    for version, (key, value) in enumerate(log.read_all(), 1):
        try:
            record = serde.decode(key, value)
        except PARSE_ERRORS as error:
            raise UnreadableLogError(f"entry {version - 1} is not a record", log.name) from error
        if record is not None:
            machine.replay(record)
        if version in versions:
            image = images[version] = machine.next_image(image, version)[0]
    return images


class MetadataSerde:
    """The RecordSerde of the metadata log: there are no keys, and values contain their type."""

    __slots__ = ()

    def encode(
        self, record: CoordinatorRecord[object, object]
    ) -> tuple[bytes | None, bytes | None]:
        """Return a null key and the value's bytes."""
        value = record.value
        return None, encode_metadata_record(value, _version_of(value))

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> CoordinatorRecord[object, object] | None:
        """Return the record, or None if its type is unknown."""
        if key is not None or value is None:
            return None
        record = decode_metadata_record(value)
        return None if record is None else CoordinatorRecord(None, record)
