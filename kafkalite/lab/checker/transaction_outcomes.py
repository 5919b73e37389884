"""Outcomes of transactions: whether the records of a transactional batch were committed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkalite.lab.checker.history import LogProof, Outcome, Range, merged, sent_ns, without
from kafkalite.lab.checker.packed_rows import grouped

if TYPE_CHECKING:
    from kafkalite.lab.checker.history import (
        Batch,
        Event,
        History,
        Marker,
        Partition,
        TransactionEnd,
    )


class TransactionOutcomes:
    """The markers in the logs, and the answers to EndTxn, by producer id."""

    def __init__(self, history: History) -> None:
        unique: dict[tuple[Partition, int], dict[int, Marker]] = defaultdict(dict)
        for marker in history.markers:
            unique[marker.partition, marker.producer_id].setdefault(marker.offset, marker)
        self._markers = {
            key: [found[offset] for offset in sorted(found)] for key, found in unique.items()
        }
        marked = {partition for partition, _ in unique}
        covered = grouped(
            history.coverages, lambda row: row.partition if row.partition in marked else None
        )
        self._covered = {
            partition: merged(Range(row.first_offset, row.last_offset) for row in rows)
            for partition, rows in covered.items()
        }
        self._ends: dict[tuple[int, int], list[TransactionEnd]] = defaultdict(list)
        for end in history.transaction_ends:  # in the order in which they were sent
            if end.outcome is Outcome.ACCEPTED:
                self._ends[end.producer_id, end.producer_epoch].append(end)

    def marker_after(self, partition: Partition, producer_id: int, offset: int) -> Marker | None:
        """Return the producer's first marker after an offset, which ends the transaction there."""
        markers = self._markers.get((partition, producer_id), [])
        index = bisect_right(markers, offset, key=_offset)
        return markers[index] if index < len(markers) else None

    def markers_between(
        self, partition: Partition, producer_id: int, first: int, last: int
    ) -> list[Marker]:
        """Return the producer's markers between two offsets."""
        markers = self._markers.get((partition, producer_id), [])
        return markers[
            bisect_left(markers, first, key=_offset) : bisect_right(markers, last, key=_offset)
        ]

    def ends_of(self, producer_id: int, producer_epoch: int) -> list[TransactionEnd]:
        """Return the accepted EndTxn requests of a producer, in the order of sending."""
        return self._ends.get((producer_id, producer_epoch), [])

    def end_after(
        self, producer_id: int, producer_epoch: int, event: Event
    ) -> TransactionEnd | None:
        """Return the producer's first accepted EndTxn request that was sent after another one.

        EndTxn has the epoch of the transaction that it ends. A transaction without one was aborted
        by the coordinator, which raises the epoch.
        """
        ends = self.ends_of(producer_id, producer_epoch)
        index = bisect_right(ends, event.sent_ns, key=sent_ns)
        return ends[index] if index < len(ends) else None

    def is_committed(
        self, partition: Partition, batch: Batch, offset: int, event: Event | None
    ) -> bool | None:
        """Return whether the transaction of a batch was committed; None if it is not known.

        Its marker in the log says so, or the answer to EndTxn after `event`, the Produce request. A
        marker is that of a later transaction if the history lacks offsets before it.
        """
        marker = self.marker_after(partition, batch.producer_id, offset)
        if marker is not None and self._is_next(marker, offset):
            return marker.is_commit
        if event is None:
            return None
        end = self.end_after(batch.producer_id, batch.producer_epoch, event)
        return None if end is None else end.is_commit

    def _is_next(self, marker: Marker, offset: int) -> bool:
        """Return whether no marker can be missing between an offset and a marker."""
        between = Range(offset + 1, marker.offset - 1)
        is_logged = isinstance(marker.event.proof, LogProof)  # the log has all markers
        return is_logged or not without(between, self._covered.get(marker.partition, ()))


def _offset(marker: Marker) -> int:
    return marker.offset
