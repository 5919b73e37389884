"""The nodes of the cluster. Each start registers its nodes and unregisters all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import BrokerImage
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol._generated.records.unregister_broker import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.changes import Changes
    from kafkalite.ports.entropy import Entropy

UNKNOWN_EPOCH = -1


class Brokers:
    """Registered nodes by id."""

    __slots__ = ("_changes", "_entropy", "registered")

    def __init__(self, entropy: Entropy, changes: Changes) -> None:
        self._entropy = entropy
        self._changes = changes
        self.registered: dict[int, BrokerImage] = {}

    def epoch_of(self, node_id: int) -> int:
        """Return a node's broker epoch, -1 if it is not registered."""
        broker = self.registered.get(node_id)
        return UNKNOWN_EPOCH if broker is None else broker.broker_epoch

    def registration_records(
        self, racks: Mapping[int, str | None]
    ) -> list[RegisterBrokerRecord | UnregisterBrokerRecord]:
        """Return records that make the cluster consist of the nodes in `racks`, id → rack."""
        epoch = max((broker.broker_epoch for broker in self.registered.values()), default=0)
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
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=self._entropy.uuid(),
                broker_epoch=next_epoch,
                rack=racks[node_id],
                fenced=False,
            )
            for next_epoch, node_id in enumerate(to_register, epoch + 1)
        ]
        return [*unregistrations, *registrations]

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        """Apply one RegisterBrokerRecord."""
        self.registered[record.broker_id] = BrokerImage(
            node_id=record.broker_id, broker_epoch=record.broker_epoch, rack=record.rack
        )
        self._changes.brokers_changed = True

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Apply one UnregisterBrokerRecord."""
        self.registered.pop(record.broker_id, None)
        self._changes.brokers_changed = True
