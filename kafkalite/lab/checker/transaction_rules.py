"""Rules about transactions: torn ones, and delayed requests to end them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.lab.checker.findings import DELAYED_REQUEST, Finding, Severity
from kafkalite.lab.checker.history import HasEvent, Outcome, Range, sent_ns
from kafkalite.lab.checker.packed_rows import grouped
from kafkalite.lab.checker.transaction_outcomes import TransactionOutcomes
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.lab.checker.history import (
        History,
        Marker,
        Partition,
        TransactionAddition,
        TransactionEnd,
        Write,
    )

T = TypeVar("T", bound=HasEvent)

TORN: Final = "torn transaction"
DELAYED_END: Final = "delayed end of a transaction"
DELAYED_ADDITION: Final = "delayed addition to a transaction"

DIFFERENT_MARKERS: Final = "different markers"
OTHER_OUTCOME: Final = "other outcome than answered"
SPLIT: Final = "marker within the transaction"


class _Activity:
    """What producers did in transactions, by producer id, in the order of sending."""

    def __init__(self, history: History) -> None:
        self.ends: dict[int, list[TransactionEnd]] = defaultdict(list)
        """Accepted EndTxn requests that were not delayed."""
        self.additions: dict[int, list[TransactionAddition]] = defaultdict(list)
        self.writes = grouped(history.writes, _writer)
        for end in history.transaction_ends:
            if end.outcome is Outcome.ACCEPTED and not _is_delayed(history, end):
                self.ends[end.producer_id].append(end)
        for addition in history.transaction_additions:
            if addition.outcome is not Outcome.REFUSED:
                self.additions[addition.producer_id].append(addition)

    def latest_end_ns(self, row: TransactionEnd | TransactionAddition) -> int:
        """Return when a producer ended a transaction before another request, or -1."""
        ends = self.ends[row.producer_id]
        count = bisect_left(ends, row.event.sent_ns, key=sent_ns)
        return sent_ns(ends[count - 1]) if count else -1

    def since_end(
        self, rows: Sequence[T], row: TransactionEnd | TransactionAddition
    ) -> Sequence[T]:
        """Return the rows of a producer between the end before a request and the request."""
        begin = bisect_right(rows, self.latest_end_ns(row), key=sent_ns)
        return rows[begin : bisect_left(rows, row.event.sent_ns, lo=begin, key=sent_ns)]

    def has_begun(self, end: TransactionEnd) -> bool | None:
        """Return whether a producer had used a transaction since the end before.

        Clients without KIP-890 add partitions before they write. None if the history has neither.
        """
        additions = self.additions[end.producer_id]
        writes = self.writes.get(end.producer_id, ())
        if additions:
            return bool(self.since_end(additions, end))
        return bool(self.since_end(writes, end)) if writes else None

    def written_before(self, end: TransactionEnd) -> list[Write]:
        """Return what a producer had written to its open transaction when an EndTxn arrived."""
        return [
            each
            for each in self.since_end(self.writes.get(end.producer_id, ()), end)
            if each.batch.producer_epoch == end.producer_epoch
            and each.is_acknowledged
            and (each.event.answered_ns or each.event.sent_ns) <= end.event.sent_ns
        ]


def _writer(write: Write) -> int | None:
    is_used = write.batch.is_transactional and write.outcome is not Outcome.REFUSED
    return write.batch.producer_id if is_used else None


def _is_delayed(history: History, row: TransactionEnd | TransactionAddition) -> bool:
    return history.was_given_up(row.event, row.transactional_id)


def delayed_ends(history: History) -> Iterator[Finding]:
    """Yield EndTxn requests that arrived after their client had opened another connection.

    The broker accepts such a request if a new transaction has begun with the same epoch, and ends
    the new transaction (KIP-890). It has no effect if no transaction has begun since the last end.
    """
    activity = _Activity(history)
    for end in history.transaction_ends:
        if end.outcome is Outcome.REFUSED or not _is_delayed(history, end):
            continue
        has_effect = activity.has_begun(end)
        if has_effect is None:
            continue
        effect = "took effect" if has_effect else "was accepted, without effect,"
        outcome, done = ("commit", "committed") if end.is_commit else ("abort", "aborted")
        early = activity.written_before(end) if has_effect else []
        records = sum(each.batch.records for each in early)
        result = f": it {done} {count_text(records, 'record')} of the next one" if records else ""
        yield Finding(
            rule=DELAYED_END,
            severity=Severity.VIOLATION if has_effect else Severity.WARNING,
            text=f"the request of {end.event.client} to {outcome} a transaction of "
            f"{end.transactional_id} {effect} after the client had opened another connection"
            f"{result}",
            cause=DELAYED_REQUEST,
            transactional_id=end.transactional_id,
            client=end.event.client,
            records=records,
            proofs=(end.event.proof, *(each.event.proof for each in early[:1] + early[1:][-1:])),
        )


def delayed_additions(history: History) -> Iterator[Finding]:
    """Yield AddPartitionsToTxn and AddOffsetsToTxn that their clients had given up (KIP-890).

    Such a request begins a transaction that no client ends, or adds partitions to the wrong one. It
    has no effect if the client had added the same partitions to the open transaction.
    """
    activity = _Activity(history)
    for addition in history.transaction_additions:
        if addition.outcome is not Outcome.ACCEPTED or not _is_delayed(history, addition):
            continue
        known = {
            target
            for each in activity.since_end(activity.additions[addition.producer_id], addition)
            if each.outcome is Outcome.ACCEPTED and not _is_delayed(history, each)
            for target in each.targets
        }
        if addition.targets <= known:
            continue
        targets = ", ".join(sorted(addition.targets))
        yield Finding(
            rule=DELAYED_ADDITION,
            severity=Severity.VIOLATION,
            text=f"the request of {addition.event.client} to add {targets} to a transaction of "
            f"{addition.transactional_id} took effect after the client had opened another "
            "connection",
            cause=DELAYED_REQUEST,
            transactional_id=addition.transactional_id,
            client=addition.event.client,
            proofs=(addition.event.proof,),
        )


class Transaction:
    """The acknowledged batches of a transaction, and its end."""

    def __init__(self, writes: list[Write], end: TransactionEnd | None) -> None:
        self.writes = writes
        self.end = end


def transactions_of(
    history: History, outcomes: TransactionOutcomes | None = None
) -> Iterator[Transaction]:
    """Yield the transactions of all producers, by the EndTxn requests that end them."""
    outcomes = TransactionOutcomes(history) if outcomes is None else outcomes
    by_producer = grouped(history.writes, _transactional_producer)
    for (producer_id, epoch), writes in by_producer.items():
        begin = 0
        for end in outcomes.ends_of(producer_id, epoch):
            if history.was_given_up(end.event, end.transactional_id):
                continue
            stop = bisect_left(writes, end.event.sent_ns, lo=begin, key=sent_ns)
            if stop > begin:
                yield Transaction(writes[begin:stop], end)
            begin = stop
        if begin < len(writes):
            yield Transaction(writes[begin:], None)


def _transactional_producer(write: Write) -> tuple[int, int] | None:
    if not write.is_acknowledged or not write.batch.is_transactional:
        return None
    return write.batch.producer_id, write.batch.producer_epoch


def torn(history: History) -> Iterator[Finding]:
    """Yield transactions that are not committed or aborted as a whole.

    The markers in the logs must be the same in all partitions, must be as the answer to EndTxn
    says, and must come after all records of the transaction.
    """
    outcomes, offsets = TransactionOutcomes(history), _transactional_offsets(history)
    for transaction in transactions_of(history, outcomes):
        markers = _markers(outcomes, transaction.writes, offsets)
        kinds = {marker.is_commit for marker in markers.values()}
        if len(kinds) > 1:
            yield _different_markers(transaction, markers)
        elif transaction.end is not None and kinds == {not transaction.end.is_commit}:
            yield _other_outcome(transaction, transaction.end, markers)
        yield from _splits(outcomes, transaction)


_Offsets = dict[tuple["Partition", int], list[int]]


def _transactional_offsets(history: History) -> _Offsets:
    """Return the sorted first offsets of the transactional batches of each producer."""
    found: _Offsets = defaultdict(list)
    for write in history.writes:
        if write.is_acknowledged and write.batch.is_transactional:
            found[write.partition, write.batch.producer_id].append(write.first_offset)
    for offsets in found.values():
        offsets.sort()
    return found


def _markers(
    outcomes: TransactionOutcomes, writes: list[Write], offsets: _Offsets
) -> dict[Partition, Marker]:
    """Return the marker after the last batch of each partition, as far as there is one.

    A marker after a batch of the next transaction is the marker of that one. The partitions are
    sorted: the rows of one request have no order when several processes read it.
    """
    last = {write.partition: write for write in writes}
    found = {
        partition: outcomes.marker_after(partition, write.batch.producer_id, write.last_offset)
        for partition, write in sorted(last.items(), key=lambda each: each[0])
    }
    return {
        partition: marker
        for partition, marker in found.items()
        if marker is not None
        and not _has_offset(
            offsets[partition, marker.producer_id], last[partition].last_offset, marker.offset
        )
    }


def _has_offset(offsets: list[int], after: int, before: int) -> bool:
    index = bisect_right(offsets, after)
    return index < len(offsets) and offsets[index] < before


def _different_markers(transaction: Transaction, markers: dict[Partition, Marker]) -> Finding:
    write = transaction.writes[0]
    committed = ", ".join(str(each) for each, marker in markers.items() if marker.is_commit)
    aborted = ", ".join(str(each) for each, marker in markers.items() if not marker.is_commit)
    return Finding(
        rule=TORN,
        severity=Severity.VIOLATION,
        text=f"a transaction of {write.transactional_id} from {write.event.client} was committed "
        f"in {committed} and aborted in {aborted}",
        cause=DIFFERENT_MARKERS,
        transactional_id=write.transactional_id,
        client=write.event.client,
        records=sum(each.batch.records for each in transaction.writes),
        proofs=(
            write.event.proof,
            transaction.writes[-1].event.proof,
            *(marker.event.proof for marker in markers.values()),
        ),
    )


def _other_outcome(
    transaction: Transaction, end: TransactionEnd, markers: dict[Partition, Marker]
) -> Finding:
    answered, actual = ("committed", "aborted") if end.is_commit else ("aborted", "committed")
    marker = next(iter(markers.values()))
    return Finding(
        rule=TORN,
        severity=Severity.VIOLATION,
        text=f"the broker reported to {end.event.client} that a transaction of "
        f"{end.transactional_id} was {answered}, but by its marker at offset {marker.offset} of "
        f"{marker.partition} it was {actual}",
        cause=OTHER_OUTCOME,
        partition=marker.partition,
        offsets=Range(marker.offset, marker.offset),
        transactional_id=end.transactional_id,
        client=end.event.client,
        records=sum(each.batch.records for each in transaction.writes),
        proofs=(transaction.writes[0].event.proof, end.event.proof, marker.event.proof),
    )


def _splits(outcomes: TransactionOutcomes, transaction: Transaction) -> Iterator[Finding]:
    """Yield the markers between two batches of a transaction in one partition."""
    by_partition: dict[Partition, list[Write]] = defaultdict(list)
    for write in transaction.writes:
        by_partition[write.partition].append(write)
    for partition, writes in by_partition.items():
        writes.sort(key=lambda each: each.first_offset)
        for earlier, later in pairwise(writes):
            between = outcomes.markers_between(
                partition, earlier.batch.producer_id, earlier.last_offset + 1, later.first_offset
            )
            for marker in between:
                yield _split(earlier, later, marker)


def _split(earlier: Write, later: Write, marker: Marker) -> Finding:
    outcome = "committed" if marker.is_commit else "aborted"
    return Finding(
        rule=TORN,
        severity=Severity.VIOLATION,
        text=f"a transaction of {earlier.transactional_id} was {outcome} up to offset "
        f"{marker.offset} of {marker.partition}, although {later.event.client} wrote more of its "
        f"records after that, from offset {later.first_offset}",
        cause=SPLIT,
        partition=marker.partition,
        offsets=Range(earlier.first_offset, later.last_offset),
        transactional_id=earlier.transactional_id,
        client=earlier.event.client,
        records=earlier.batch.records + later.batch.records,
        proofs=(earlier.event.proof, marker.event.proof, later.event.proof),
    )
