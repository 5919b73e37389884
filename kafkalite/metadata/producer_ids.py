"""Producer ids: allocation of blocks to nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
from kafkalite.protocol._generated.records.producer_ids import ProducerIdsRecord

if TYPE_CHECKING:
    from kafkalite.metadata.brokers import Brokers

PRODUCER_ID_BLOCK_SIZE = 1000


class ProducerIds:
    """The next unused producer id."""

    __slots__ = ("_brokers", "_next_producer_id")

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._next_producer_id = 0

    def allocate(self, node_id: int) -> CoordinatorResult[tuple[int, int]]:
        """Allocate a block to a node; the response is its first id and size."""
        first = self._next_producer_id
        record = ProducerIdsRecord(
            broker_id=node_id,
            broker_epoch=self._brokers.epoch_of(node_id),
            next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
        )
        return CoordinatorResult(
            response=(first, PRODUCER_ID_BLOCK_SIZE), records=(CoordinatorRecord(None, record),)
        )

    def replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        """Apply one ProducerIdsRecord."""
        self._next_producer_id = record.next_producer_id
