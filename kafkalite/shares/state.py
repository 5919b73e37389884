"""What lasts of a share partition: where it starts, and what became of the records after that."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kafkalite.protocol.uuids import uuid_to_text

NO_START_OFFSET = -1
"""The partition's leader has yet to choose where to start."""
NOT_COUNTED = -1
"""How many deliveries are complete is not known."""
NO_EPOCH = -1
"""Fences nobody."""


class DeliveryState(IntEnum):
    """What became of a record, numbered as in the log."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Somebody has it for a while; never written down."""
    ACKNOWLEDGED = 2
    ARCHIVED = 4
    """Given up: rejected, delivered too often, or gone."""


FINAL_STATES = frozenset((DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED))


class ShareKey(NamedTuple):
    """One partition as one share group has it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """What finds its share coordinator."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """Records next to each other that fared alike; `last_offset` is the last of them."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareState(NamedTuple):
    """All that is kept of a share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp: int
    write_timestamp: int


class StateChange(NamedTuple):
    """What a leader wants added to what is kept; -1 leaves the start where it is."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareSummary(NamedTuple):
    """Where a share partition stands, without its single records."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_START_OFFSET
    delivery_complete_count: int = NOT_COUNTED
