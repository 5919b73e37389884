"""The nodes of the cluster: registered at each start, unregistered when a start omits them.

A node that stops while the cluster runs is fenced. As in Kafka, a node that starts again is
registered again, as another incarnation with a new broker epoch. A start of the cluster registers
all nodes. A node that was added while the cluster ran is a member in later starts, and a node that
was removed is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.metadata.features import (
    FIRST_WITH_CORDONED_DIRECTORIES,
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
)
from kafkalite.metadata.image import RELAYED, AddedNode, BrokerImage, RegisteredListener
from kafkalite.protocol._generated.records.broker_registration_change import (
    BrokerRegistrationChangeRecord,
)
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol._generated.records.unregister_broker import UnregisterBrokerRecord
from kafkalite.protocol.uuids import ONE_UUID, ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.metadata.changes import Changes
    from kafkalite.metadata.features import Features
    from kafkalite.metadata.image import PartitionImage
    from kafkalite.ports.entropy import Entropy

UNKNOWN_EPOCH = -1
_FENCE, _UNFENCE = 1, -1
"""Values of a BrokerRegistrationChangeRecord's change of the fencing state."""
_SHUTTING_DOWN = 1
"""Value of a BrokerRegistrationChangeRecord that begins a controlled shutdown."""


class NoNodesError(ValueError):
    """A start without nodes, because all of them were removed; the text is one sentence."""


class UsedControllerIdError(ValueError):
    """A controller that has the id of an added node; the text is one sentence."""


UNASSIGNED_DIRECTORY: Final = ONE_UUID
"""The directory of a replica whose node has several directories and has not chosen one yet."""


def no_directories(node_id: int) -> tuple[bytes, ...]:
    """Return the ids of the directories of a node without data directories: none."""
    del node_id
    return ()


class Brokers:
    """Registered nodes by id."""

    __slots__ = (
        "_changes",
        "_directories_of",
        "_entropy",
        "_features",
        "_latest_epoch",
        "registered",
        "removed",
    )

    def __init__(
        self,
        entropy: Entropy,
        changes: Changes,
        features: Features,
        directories_of: Callable[[int], tuple[bytes, ...]] = no_directories,
    ) -> None:
        """`directories_of` returns the ids of the log directories of a node."""
        self._entropy = entropy
        self._changes = changes
        self._features = features
        self._directories_of = directories_of
        self.registered: dict[int, BrokerImage] = {}
        self.removed: set[int] = set()
        """Nodes that were removed, and that a start does not register again."""
        self._latest_epoch = 0
        """The largest broker epoch of all registrations, including those that ended."""

    def epoch_of(self, node_id: int) -> int:
        """Return a node's broker epoch, -1 if it is not registered."""
        broker = self.registered.get(node_id)
        return UNKNOWN_EPOCH if broker is None else broker.broker_epoch

    def is_active(self, node_id: int) -> bool:
        """Return whether a node is registered, not fenced and not shutting down."""
        broker = self.registered.get(node_id)
        return broker is not None and broker.is_active

    def is_unfenced(self, node_id: int) -> bool:
        """Return whether a node is registered and not fenced; it may be shutting down."""
        broker = self.registered.get(node_id)
        return broker is not None and not broker.is_fenced

    @property
    def active(self) -> dict[int, BrokerImage]:
        """The nodes that may lead partitions, by id."""
        return {node_id: broker for node_id, broker in self.registered.items() if broker.is_active}

    @property
    def usable(self) -> dict[int, BrokerImage]:
        """The nodes on which new replicas may be placed, by id.

        They are all but those shutting down, and those whose directories are all cordoned. As in
        Kafka, the shutdown of a node ends when the node is fenced: it counts again then.
        """
        return {
            node_id: broker
            for node_id, broker in self.registered.items()
            if (broker.is_fenced or not broker.is_shutting_down) and not broker.is_cordoned
        }

    def directories(
        self, replicas: Iterable[int], known: PartitionImage | None = None
    ) -> list[bytes] | None:
        """Return the id of the directory of each replica, in order.

        Replicas that `known` has remain where they are. A node with several directories chooses
        one of them later. Returns None at levels of metadata.version whose records have no
        directories.
        """
        if not self.has_directories:
            return None
        return [self._directory(node_id, known) for node_id in replicas]

    @property
    def has_directories(self) -> bool:
        """Whether the records have directories at the level of metadata.version."""
        return self._features.levels.get(METADATA_VERSION, 0) >= FIRST_WITH_DIRECTORIES

    def _directory(self, node_id: int, known: PartitionImage | None) -> bytes:
        of_node = self._directories_of(node_id)
        present = None if known is None else known.directory_of(node_id)
        if present is not None and present in of_node:
            return present
        if len(of_node) > 1:
            return UNASSIGNED_DIRECTORY
        return of_node[0] if of_node else ZERO_UUID

    def cordoning_record(
        self, node_id: int, directories: Sequence[bytes]
    ) -> BrokerRegistrationChangeRecord:
        """Return the record by which these directories of a registered node are cordoned."""
        return BrokerRegistrationChangeRecord(
            broker_id=node_id,
            broker_epoch=self.epoch_of(node_id),
            cordoned_log_dirs=list(directories),
        )

    def fencing_record(self, node_id: int, *, is_fenced: bool) -> BrokerRegistrationChangeRecord:
        """Return the record that fences or unfences a registered node."""
        return BrokerRegistrationChangeRecord(
            broker_id=node_id,
            broker_epoch=self.epoch_of(node_id),
            fenced=_FENCE if is_fenced else _UNFENCE,
        )

    def shutdown_record(self, node_id: int) -> BrokerRegistrationChangeRecord:
        """Return the record that begins the controlled shutdown of a registered node."""
        return BrokerRegistrationChangeRecord(
            broker_id=node_id,
            broker_epoch=self.epoch_of(node_id),
            in_controlled_shutdown=_SHUTTING_DOWN,
        )

    def registration_record(
        self,
        node_id: int,
        rack: str | None,
        *,
        is_fenced: bool,
        offset: int = 1,
        added: AddedNode | None = None,
    ) -> RegisterBrokerRecord:
        """Return the record that registers a node; `offset` is its number among new ones, from 1.

        As in Kafka, a broker epoch is larger than all earlier ones. `added` is given for a node
        that later starts must begin with.
        """
        level = self._features.levels.get(METADATA_VERSION, 0)
        directories = self._directories_of(node_id) if self.has_directories else ()
        return RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=self._entropy.uuid(),
            broker_epoch=self._latest_epoch + offset,
            rack=rack,
            fenced=is_fenced,
            end_points=[] if added is None else _end_points(added),
            features=[
                RegisterBrokerRecord.BrokerFeature(
                    name=name,
                    min_supported_version=feature.lowest,
                    max_supported_version=feature.highest,
                )
                for name, feature in self._features.supported.items()
            ],
            log_dirs=list(directories),
            cordoned_log_dirs=[] if level >= FIRST_WITH_CORDONED_DIRECTORIES else None,
            added_settings=None
            if added is None
            else [
                RegisterBrokerRecord.AddedSetting(key=key, value=value)
                for key, value in added.settings.items()
            ],
        )

    def registration_records(
        self, racks: Mapping[int, str | None]
    ) -> list[RegisterBrokerRecord | UnregisterBrokerRecord]:
        """Return records that make the cluster consist of its members, as active nodes.

        The members are the nodes in `racks`, id → rack, except removed ones, and all added nodes.
        Raises NoNodesError if there are none.
        """
        added = {
            node_id: broker
            for node_id, broker in self.registered.items()
            if broker.added is not None
        }
        members = {node_id: rack for node_id, rack in racks.items() if node_id not in self.removed}
        members |= {node_id: broker.rack for node_id, broker in added.items()}
        if not members:
            raise NoNodesError(
                f"all nodes ({', '.join(map(str, racks))}) were removed from the cluster: start "
                "more nodes"
            )
        unregistrations = [
            UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.broker_epoch)
            for node_id, broker in self.registered.items()
            if node_id not in members
        ]
        registrations = [
            self.registration_record(
                node_id,
                members[node_id],
                is_fenced=False,
                offset=offset,
                added=added[node_id].added if node_id in added else None,
            )
            for offset, node_id in enumerate(sorted(members), 1)
        ]
        return [*unregistrations, *registrations]

    def removal_records(self, node_id: int) -> list[RegisterBrokerRecord | UnregisterBrokerRecord]:
        """Return records by which no later start registers a node that is unregistered already.

        The node is registered first, because Kafka's replay requires that.
        """
        registration = self.registration_record(node_id, None, is_fenced=True)
        return [
            registration,
            UnregisterBrokerRecord(
                broker_id=node_id, broker_epoch=registration.broker_epoch, is_removed=True
            ),
        ]

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        """Apply one RegisterBrokerRecord."""
        self.registered[record.broker_id] = BrokerImage(
            node_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            rack=record.rack,
            is_fenced=record.fenced,
            is_shutting_down=record.in_controlled_shutdown,
            incarnation_id=record.incarnation_id,
            added=_added_node(record),
            directories=tuple(record.log_dirs),
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
        )
        self.removed.discard(record.broker_id)
        self._latest_epoch = max(self._latest_epoch, record.broker_epoch)
        self._changes.brokers_changed = True

    def replay_broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Apply one BrokerRegistrationChangeRecord."""
        broker = self.registered.get(record.broker_id)
        if broker is None:
            return
        if record.fenced:
            broker = broker._replace(is_fenced=record.fenced == _FENCE)
        if record.in_controlled_shutdown:
            broker = broker._replace(is_shutting_down=True)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self.registered[record.broker_id] = broker
        self._changes.brokers_changed = True

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Apply one UnregisterBrokerRecord."""
        self.registered.pop(record.broker_id, None)
        if record.is_removed:
            self.removed.add(record.broker_id)
        self._changes.brokers_changed = True


def _end_points(added: AddedNode) -> list[RegisterBrokerRecord.BrokerEndpoint]:
    return [
        RegisterBrokerRecord.BrokerEndpoint(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
            port_offset=listener.port_offset,
        )
        for listener in added.listeners
    ]


def _added_node(record: RegisterBrokerRecord) -> AddedNode | None:
    """Return the settings and listeners in the registration of an added node."""
    if record.added_settings is None:
        return None
    return AddedNode(
        {setting.key: setting.value for setting in record.added_settings},
        tuple(
            RegisteredListener(
                name=end_point.name,
                host=end_point.host,
                port=end_point.port,
                security_protocol=end_point.security_protocol,
                port_offset=end_point.port_offset,
            )
            for end_point in record.end_points
            if end_point.port_offset >= 0 or end_point.port_offset == RELAYED
        ),
    )
