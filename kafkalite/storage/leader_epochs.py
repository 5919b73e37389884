"""Leader epochs of a log, each with its first offset (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafkalite.storage.checkpoint import (
    CheckpointError,
    encode_rows,
    read_rows,
    replace_file,
    write_atomically,
)

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    """Epoch → first offset; both increase."""

    __slots__ = ("_epochs", "_has_file", "_starts", "is_saved", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries] if entries else []
        self._starts = [start for _, start in entries] if entries else []
        self._has_file = bool(entries)
        self.is_saved = True
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        """The newest epoch, or -1."""

    def copy(self) -> LeaderEpochs:
        """Return the same epochs, which change on their own."""
        copy = LeaderEpochs()
        copy._epochs, copy._starts = self._epochs[:], self._starts[:]
        copy._has_file, copy.is_saved = self._has_file, self.is_saved
        copy.latest = self.latest
        return copy

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The epochs with their first offsets, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`; entries that contradict it are removed."""
        if epoch < 0 or epoch == self.latest:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self.is_saved = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` and its end offset, or (-1, -1).

        As in OffsetForLeaderEpoch: the newest epoch ends at the end of the log; an epoch older than
        all known ones ends where the oldest starts.
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == 0:
            return epoch, self._starts[0]
        return self._epochs[slot - 1], self._starts[slot]

    def start_offset_for(self, epoch: int) -> int:
        """Return the first offset of an epoch, or -1 if it is unknown."""
        slot = bisect_right(self._epochs, epoch) - 1
        return self._starts[slot] if slot >= 0 and self._epochs[slot] == epoch else NO_OFFSET

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the record at `offset`, or -1."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at `end_offset` or later."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self.is_saved = False
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before `start_offset`; the next one starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot < 0 or self._starts[slot] == start_offset == self._starts[0]:
            return
        del self._epochs[:slot]
        del self._starts[:slot]
        self._starts[0] = start_offset
        self.is_saved = False

    def save(self, files: Files, path: str) -> bool:
        """Write leader-epoch-checkpoint, and return whether it is durable.

        The first checkpoint of a log is not synced: no batch was flushed before it, and batches
        contain their epochs. Later ones are synced, so that epochs of flushed batches are not lost.
        """
        content = encode_rows(self.entries)
        if self._has_file:
            write_atomically(files, path, content)
        else:
            replace_file(files, path, content)
        had_file, self._has_file = self._has_file, True
        self.is_saved = True
        return had_file

    @classmethod
    def load(cls, files: Files, path: str) -> LeaderEpochs:
        """Return the epochs in leader-epoch-checkpoint; none if it is absent.

        A damaged file is ignored, because the batches of the log contain their epochs.
        """
        try:
            return cls([(int(epoch), int(start)) for epoch, start in read_rows(files, path)])
        except (CheckpointError, ValueError):
            return cls()
