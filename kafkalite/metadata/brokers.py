"""Which nodes the cluster has: registered at each start, forgotten when a start leaves them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import BrokerImage
from kafkalite.protocol.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol.records.unregister_broker import UnregisterBrokerRecord

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
        """Return a node's broker epoch, -1 for one that is not registered."""
        broker = self.registered.get(node_id)
        return UNKNOWN_EPOCH if broker is None else broker.broker_epoch

    def registration_records(
        self, racks: Mapping[int, str | None]
    ) -> list[RegisterBrokerRecord | UnregisterBrokerRecord]:
        """Return records that make the cluster consist of the nodes in `racks`, id → rack."""
        epoch = max((broker.broker_epoch for broker in self.registered.values()), default=0)
        gone = [
            UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.broker_epoch)
            for node_id, broker in self.registered.items()
            if node_id not in racks
        ]
        unknown = [
            node_id
            for node_id in sorted(racks)
            if node_id not in self.registered or self.registered[node_id].rack != racks[node_id]
        ]
        new = [
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=self._entropy.uuid(),
                broker_epoch=next_epoch,
                rack=racks[node_id],
                fenced=False,
            )
            for next_epoch, node_id in enumerate(unknown, epoch + 1)
        ]
        return [*gone, *new]

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        """Make one RegisterBrokerRecord true."""
        self.registered[record.broker_id] = BrokerImage(
            node_id=record.broker_id, broker_epoch=record.broker_epoch, rack=record.rack
        )
        self._changes.brokers = True

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Make one UnregisterBrokerRecord true."""
        self.registered.pop(record.broker_id, None)
        self._changes.brokers = True
