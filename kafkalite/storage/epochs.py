"""Leader epochs of a log: from which offset on each leader wrote (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafkalite.storage.checkpoint import CheckpointError, read_rows, write_rows

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    """Epoch → first offset, both growing."""

    __slots__ = ("_epochs", "_starts", "is_saved")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.is_saved = True

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Each epoch and the offset it starts at, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Say that records from `start_offset` on are of `epoch`; what contradicts it goes."""
        if epoch < 0 or epoch == self.latest:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.is_saved = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch known up to `epoch` and its end offset, or (-1, -1).

        As OffsetForLeaderEpoch answers: the newest epoch ends where the log ends; an epoch older
        than all known ones ends where the oldest starts.
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == 0:
            return epoch, self._starts[0]
        return self._epochs[slot - 1], self._starts[slot]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that the record at `offset` was written in, or -1."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at `end_offset` or beyond."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self.is_saved = False

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before `start_offset`; the one it lies in starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot < 0 or self._starts[slot] == start_offset == self._starts[0]:
            return
        del self._epochs[:slot]
        del self._starts[:slot]
        self._starts[0] = start_offset
        self.is_saved = False

    def save(self, files: Files, path: str) -> None:
        """Write leader-epoch-checkpoint."""
        write_rows(files, path, self.entries)
        self.is_saved = True

    @classmethod
    def load(cls, files: Files, path: str) -> LeaderEpochs:
        """Return what leader-epoch-checkpoint says, nothing when it is absent.

        A damaged one counts as absent: the batches of the log carry their epochs.
        """
        try:
            return cls([(int(epoch), int(start)) for epoch, start in read_rows(files, path)])
        except (CheckpointError, ValueError):
            return cls()
