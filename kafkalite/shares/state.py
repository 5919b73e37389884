"""Stored state of a share partition: its start offset, and the records after it."""

from __future__ import annotations

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.uuids import uuid_to_text

NO_START_OFFSET = -1
"""The partition's leader has not chosen the start offset yet."""
NOT_COUNTED = -1
"""The number of completed deliveries is unknown."""
NO_EPOCH = -1
"""An epoch that fences no request."""


class DeliveryState(IntEnum):
    """State of a record, numbered as in the log."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Acquired by a member; never stored."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Being written to the dead-letter topic; archived afterwards, also if that fails."""
    ARCHIVED = 4
    """Rejected, delivered too often, or deleted."""


FINAL_STATES = frozenset((DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED))


class ShareKey(NamedTuple):
    """One partition of one share group."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """The key by which the share coordinator is found."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """Consecutive records with equal state; `last_offset` is inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareState(NamedTuple):
    """The complete stored state of a share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp: int
    write_timestamp: int


class LeaderState(NamedTuple):
    """The state of a share partition, as its leader reads it."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateChange(NamedTuple):
    """A change by the leader; start offset -1 leaves the start unchanged."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareSummary(NamedTuple):
    """Start offset and epochs of a share partition, without its records."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_START_OFFSET
    delivery_complete_count: int = NOT_COUNTED
