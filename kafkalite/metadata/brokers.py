"""The nodes of the cluster: registered at each start, unregistered when a start omits them.

A node that stops while the cluster runs is fenced. A start unfences all nodes. A node that an
administrator has unregistered is registered again when it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import BrokerImage
from kafkalite.protocol._generated.records.broker_registration_change import (
    BrokerRegistrationChangeRecord,
)
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol._generated.records.unregister_broker import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.changes import Changes
    from kafkalite.ports.entropy import Entropy

UNKNOWN_EPOCH = -1
_FENCE, _UNFENCE = 1, -1
"""Values of a BrokerRegistrationChangeRecord's change of the fencing state."""


class Brokers:
    """Registered nodes by id."""

    __slots__ = ("_changes", "_entropy", "_latest_epoch", "registered")

    def __init__(self, entropy: Entropy, changes: Changes) -> None:
        self._entropy = entropy
        self._changes = changes
        self.registered: dict[int, BrokerImage] = {}
        self._latest_epoch = 0
        """The largest broker epoch of all registrations, including those that ended."""

    def epoch_of(self, node_id: int) -> int:
        """Return a node's broker epoch, -1 if it is not registered."""
        broker = self.registered.get(node_id)
        return UNKNOWN_EPOCH if broker is None else broker.broker_epoch

    def is_active(self, node_id: int) -> bool:
        """Return whether a node is registered and not fenced."""
        broker = self.registered.get(node_id)
        return broker is not None and not broker.is_fenced

    @property
    def active(self) -> dict[int, BrokerImage]:
        """The nodes that are not fenced, by id."""
        return {
            node_id: broker for node_id, broker in self.registered.items() if not broker.is_fenced
        }

    def fencing_record(self, node_id: int, *, is_fenced: bool) -> BrokerRegistrationChangeRecord:
        """Return the record that fences or unfences a registered node."""
        return BrokerRegistrationChangeRecord(
            broker_id=node_id,
            broker_epoch=self.epoch_of(node_id),
            fenced=_FENCE if is_fenced else _UNFENCE,
        )

    def registration_record(
        self, node_id: int, rack: str | None, *, is_fenced: bool, offset: int = 1
    ) -> RegisterBrokerRecord:
        """Return the record that registers a node; `offset` is its number among new ones, from 1.

        As in Kafka, a broker epoch is larger than all earlier ones.
        """
        return RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=self._entropy.uuid(),
            broker_epoch=self._latest_epoch + offset,
            rack=rack,
            fenced=is_fenced,
        )

    def registration_records(
        self, racks: Mapping[int, str | None]
    ) -> list[RegisterBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord]:
        """Return records that make the cluster consist of the nodes in `racks`, id → rack."""
        unregistrations = [
            UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.broker_epoch)
            for node_id, broker in self.registered.items()
            if node_id not in racks
        ]
        to_register = [
            node_id
            for node_id in sorted(racks)
            if node_id not in self.registered or self.registered[node_id].rack != racks[node_id]
        ]
        registrations = [
            self.registration_record(node_id, racks[node_id], is_fenced=False, offset=offset)
            for offset, node_id in enumerate(to_register, 1)
        ]
        unfencings = [
            self.fencing_record(node_id, is_fenced=False)
            for node_id in sorted(racks)
            if node_id not in to_register and self.registered[node_id].is_fenced
        ]
        return [*unregistrations, *registrations, *unfencings]

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        """Apply one RegisterBrokerRecord."""
        self.registered[record.broker_id] = BrokerImage(
            node_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            rack=record.rack,
            is_fenced=record.fenced,
        )
        self._latest_epoch = max(self._latest_epoch, record.broker_epoch)
        self._changes.brokers_changed = True

    def replay_broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Apply one BrokerRegistrationChangeRecord."""
        broker = self.registered.get(record.broker_id)
        if broker is None or not record.fenced:
            return
        self.registered[record.broker_id] = broker._replace(is_fenced=record.fenced == _FENCE)
        self._changes.brokers_changed = True

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Apply one UnregisterBrokerRecord."""
        self.registered.pop(record.broker_id, None)
        self._changes.brokers_changed = True
