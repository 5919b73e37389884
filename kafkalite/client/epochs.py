"""Epochs that identify a leader and a partition, and offsets with epochs (KIP-232).

A leader epoch grows with each election of a partition's leader. A partition epoch is unique in the
cluster: a topic that is created again has partitions with larger epochs.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

NO_EPOCH: Final = -1
"""The epoch of an offset or a partition whose epoch is unknown."""

_ENCODING_VERSION: Final = 0
_ENCODING: Final = Struct(">Bii")
"""Version, leader epoch, partition epoch."""


class TopicPartition(NamedTuple):
    """A topic and the index of one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Epochs(NamedTuple):
    """A leader epoch and a partition epoch, -1 if unknown."""

    leader_epoch: int = NO_EPOCH
    partition_epoch: int = NO_EPOCH

    def is_older_than(self, other: Epochs) -> bool:
        """Return whether the partition epoch is smaller, or is equal with a smaller leader epoch.

        Returns False if only one of both has a partition epoch: they are not comparable.
        """
        if self.partition_epoch == other.partition_epoch:
            return self.leader_epoch < other.leader_epoch
        if NO_EPOCH in (self.partition_epoch, other.partition_epoch):
            return False
        return self.partition_epoch < other.partition_epoch

    def encode(self) -> bytes:
        """Return the epochs as bytes that `decode` accepts."""
        return _ENCODING.pack(_ENCODING_VERSION, *self)

    @classmethod
    def decode(cls, data: bytes) -> Epochs:
        """Return the epochs that `encode` encoded; raises ValueError for other bytes."""
        if len(data) != _ENCODING.size:
            raise ValueError(f"an offset epoch has {_ENCODING.size} bytes, not {len(data)}")
        version, leader_epoch, partition_epoch = _ENCODING.unpack(data)
        if version != _ENCODING_VERSION:
            raise ValueError(f"an offset epoch of unknown version {version}")
        if leader_epoch < NO_EPOCH or partition_epoch < NO_EPOCH:
            raise ValueError("an offset epoch with a negative epoch")
        return cls(leader_epoch, partition_epoch)


class OffsetAndEpochs(NamedTuple):
    """An offset, with the epochs that say to which log it belongs; -1 if they are unknown."""

    offset: int
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = NO_EPOCH

    @property
    def epochs(self) -> Epochs:
        """The epochs without the offset."""
        return Epochs(self.leader_epoch, self.partition_epoch)

    @property
    def offset_epoch(self) -> bytes:
        """The epochs as bytes, to be stored with the offset and passed to `seek`."""
        return self.epochs.encode()
