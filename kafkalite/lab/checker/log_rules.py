"""Rules about the logs of partitions: duplicates, overwritten and reordered batches, zombies."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import Delivery, Outcome, Range, Write, sent_ns
from kafkalite.lab.checker.packed_rows import View, grouped
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.lab.checker.history import History, Partition, ProducerStart

R = TypeVar("R", Write, Delivery)

DUPLICATE: Final = "duplicate in the log"
OVERWRITTEN: Final = "overwritten"
REORDERED: Final = "reordered"
ZOMBIE_WRITE: Final = "zombie write"
OTHER_INCARNATION: Final = "write across incarnations"

RETRY_WITHOUT_IDEMPOTENCE: Final = "retry without idempotence"
REPEATED_SEQUENCE: Final = "repeated sequence number"
TRUNCATION: Final = "truncated log"
FENCED_PRODUCER: Final = "fenced producer"
RECREATED_TOPIC: Final = "recreated topic"

_Content = tuple["Partition", tuple[int, int, int, int, int]]


def _content(row: Write | Delivery) -> _Content:
    return row.partition, row.batch.content


def repeated_attempts(history: History) -> dict[_Content, View[Write]]:
    """Return the requests that sent a batch more than once, in the order in which they were sent.

    Nearly all batches are sent once, so a set of hash codes sorts them out first.
    """
    codes = (hash(_content(write)) for write in history.writes)
    repeated = _repeated(codes)
    return {
        content: writes
        for content, writes in _of_codes(history.writes, repeated).items()
        if len(writes) > 1
    }


def _repeated(codes: Iterable[int]) -> set[int]:
    known: set[int] = set()
    found: set[int] = set()
    for code in codes:
        (found if code in known else known).add(code)
    return found


def _of_codes(rows: Sequence[R], codes: set[int]) -> dict[_Content, View[R]]:
    """Return the rows with batches of some hash codes by batch."""

    def key(row: R) -> _Content | None:
        content = _content(row)
        return content if hash(content) in codes else None

    return grouped(rows, key) if codes else {}


def duplicates(history: History) -> Iterator[Finding]:
    """Yield batches that are in the log more than once.

    A batch of an idempotent producer has a sequence number, with which a broker recognises a retry
    (KIP-98). Another batch is the same if its checksum is, and if the request before it was not
    acknowledged, so that the producer sent it again. A producer with acks=0 gets no answers, so it
    does not send a batch again.
    """
    codes = _codes_with_several_offsets(history)
    delivered = _of_codes(history.deliveries, codes)
    for key, writes in _of_codes(history.writes, codes).items():
        is_idempotent = key[1][0] >= 0
        if not is_idempotent and (writes[0].is_acknowledged or not writes[0].is_answerable):
            continue  # equal batches after it were sent on purpose
        found: dict[int, int] = {}
        for delivery in delivered.get(key, ()):
            found.setdefault(delivery.base_offset, delivery.batch.records)
        for write in writes:
            if write.is_acknowledged:
                found.setdefault(write.first_offset, write.batch.records)
        if len(found) > 1 and (is_idempotent or len(writes) > 1):
            yield _duplicate(key[0], found, [*writes], is_idempotent=is_idempotent)


def _codes_with_several_offsets(history: History) -> set[int]:
    """Return the hash codes of batches that have several offsets."""
    offsets: dict[int, int] = {}
    found: set[int] = set()
    written = ((each, each.first_offset) for each in history.writes if each.is_acknowledged)
    delivered = ((each, each.base_offset) for each in history.deliveries)
    rows: Iterator[tuple[Write | Delivery, int]] = chain(written, delivered)
    for row, offset in rows:
        code = hash(_content(row))
        if offsets.setdefault(code, offset) != offset:
            found.add(code)
    return found


def _duplicate(
    partition: Partition, found: dict[int, int], writes: list[Write], *, is_idempotent: bool
) -> Finding:
    first, *others = sorted(found)
    records = found[first]
    client = writes[0].event.client
    places = ", ".join(str(offset) for offset in others)
    reason = (
        "although both have the same sequence number"
        if is_idempotent
        else "because the producer sent it again without idempotence"
    )
    return Finding(
        rule=DUPLICATE,
        severity=Severity.VIOLATION,
        text=f"the log of {partition} has a batch of {count_text(records, 'record')} from {client} "
        f"at offset {first} and again at offset {places}, {reason}",
        cause=REPEATED_SEQUENCE if is_idempotent else RETRY_WITHOUT_IDEMPOTENCE,
        partition=partition,
        offsets=Range(others[0], others[-1] + records - 1),
        client=client,
        records=records * len(others),
        proofs=tuple(write.event.proof for write in writes),
    )


def overwritten(history: History) -> Iterator[Finding]:
    """Yield acknowledged batches whose offsets were acknowledged again for other batches.

    The log was truncated in between, for example by an unclean election of a leader (KIP-101).
    """
    for partition, writes in history.acknowledged().items():
        latest = writes[0]
        for write in writes[1:]:
            if write.first_offset > latest.last_offset:
                latest = write
                continue
            if write.batch.content != latest.batch.content:
                earlier, later = sorted((latest, write), key=_answered_ns)
                yield _overwritten(partition, earlier, later)
            if write.last_offset > latest.last_offset:
                latest = write


def _overwritten(partition: Partition, earlier: Write, later: Write) -> Finding:
    lost = Range(earlier.first_offset, earlier.last_offset)
    return Finding(
        rule=OVERWRITTEN,
        severity=Severity.VIOLATION,
        text=f"the broker acknowledged {lost} of {partition} to {earlier.event.client} and then "
        f"again to {later.event.client}, so the log was truncated in between and the first records "
        "are lost",
        cause=TRUNCATION,
        partition=partition,
        offsets=lost,
        client=earlier.event.client,
        records=earlier.batch.records,
        proofs=(earlier.event.proof, later.event.proof),
    )


def reordered(history: History) -> Iterator[Finding]:
    """Yield batches that a later batch of the same connection overtook in the log.

    This happens when a producer without idempotence has several requests in flight and sends one of
    them again.
    """
    rows = history.writes
    attempts = _attempts(history)
    for (partition, _), (first, placed) in _placed(history, attempts).items():
        smallest: Write | None = None
        for number, write in zip(reversed(first), reversed(placed), strict=True):
            if smallest is not None and smallest.first_offset < write.first_offset:
                writes = [rows[each] for each in attempts.get(number, (number,))]
                yield _reordered(partition, writes, write, smallest)
            if smallest is None or write.first_offset < smallest.first_offset:
                smallest = write


def _attempts(history: History) -> dict[int, Sequence[int]]:
    """Return the numbers of writes that are attempts to send a batch of which there are several.

    The key of attempts to send the same batch is the first one. The other ones have no attempts.
    """
    found: dict[int, Sequence[int]] = {}
    for (_, content), writes in repeated_attempts(history).items():
        for number in writes.numbers:
            found[number] = ()
        for own in _sent_as_one(writes) if content[0] < 0 else (writes.numbers,):
            found[own[0]] = own
    return found


def _sent_as_one(writes: View[Write]) -> Iterator[Sequence[int]]:
    """Yield the attempts to send a batch; an equal one after an answer is another batch."""
    begin = 0
    for index, write in enumerate(writes, 1):
        if write.is_acknowledged or index == len(writes):
            yield writes.numbers[begin:index]
            begin = index


def _placed(
    history: History, attempts: dict[int, Sequence[int]]
) -> dict[tuple[Partition, int], tuple[array[int], View[Write]]]:
    """Return partition and connection → the batches that were sent there first and acknowledged.

    The array has the numbers of the first requests; the view has the last acknowledged ones.
    """
    rows = history.writes
    found: dict[tuple[Partition, int], tuple[array[int], array[int]]] = defaultdict(
        lambda: (array("i"), array("i"))
    )
    for number, write in enumerate(rows):
        own = attempts.get(number)
        if own is None:
            acknowledged = [number] if write.is_acknowledged else []
        else:
            acknowledged = [each for each in own if rows[each].is_acknowledged]
        if acknowledged:
            first, placed = found[write.partition, write.event.connection]
            first.append(number)
            placed.append(acknowledged[-1])
    return {key: (first, View(rows, placed)) for key, (first, placed) in found.items()}


def _reordered(
    partition: Partition, requests: list[Write], write: Write, overtaking: Write
) -> Finding:
    return Finding(
        rule=REORDERED,
        severity=Severity.VIOLATION,
        text=f"a batch of {count_text(write.batch.records, 'record')} of {write.event.client} in "
        f"{partition} has offset {write.first_offset}, although one that was sent after it has "
        f"offset {overtaking.first_offset}",
        cause="retry with several requests in flight",
        partition=partition,
        offsets=Range(write.first_offset, write.last_offset),
        client=write.event.client,
        records=write.batch.records,
        proofs=(*(each.event.proof for each in requests), overtaking.event.proof),
    )


def zombie_writes(history: History) -> Iterator[Finding]:
    """Yield batches of a producer that were accepted although a newer instance had its id.

    InitProducerId gives the newer instance a higher epoch or another producer id (KIP-98).
    """
    starts: dict[str, list[ProducerStart]] = defaultdict(list)
    for start in history.producer_starts:
        if start.transactional_id:
            starts[start.transactional_id].append(start)
    for write in history.writes:
        if write.outcome is not Outcome.ACCEPTED or not write.transactional_id:
            continue
        known = starts.get(write.transactional_id, [])
        index = bisect_left(known, write.event.sent_ns, key=sent_ns) - 1
        while index >= 0 and not _is_answered_before(known[index], write):
            index -= 1
        if index >= 0 and _is_older(write, index, known):
            yield _zombie_write(write, known[index])


def _is_answered_before(start: ProducerStart, write: Write) -> bool:
    answered_ns = start.event.answered_ns
    return answered_ns is not None and answered_ns < write.event.sent_ns


def _is_older(write: Write, index: int, starts: list[ProducerStart]) -> bool:
    """Return whether a batch is of an earlier instance than the one at an index."""
    newest = starts[index]
    if write.batch.producer_id == newest.producer_id:
        return write.batch.producer_epoch < newest.producer_epoch
    return any(each.producer_id == write.batch.producer_id for each in starts[:index])


def _zombie_write(write: Write, newer: ProducerStart) -> Finding:
    return Finding(
        rule=ZOMBIE_WRITE,
        severity=Severity.VIOLATION,
        text=f"{write.event.client} wrote {count_text(write.batch.records, 'record')} to "
        f"{write.partition} with epoch {write.batch.producer_epoch} of transactional id "
        f"{write.transactional_id}, after {newer.event.client} had got epoch "
        f"{newer.producer_epoch}",
        cause=FENCED_PRODUCER,
        partition=write.partition,
        offsets=Range(write.first_offset, write.last_offset) if write.is_acknowledged else None,
        transactional_id=write.transactional_id,
        client=write.event.client,
        records=write.batch.records,
        proofs=(newer.event.proof, write.event.proof),
    )


def writes_across_incarnations(history: History) -> Iterator[Finding]:
    """Yield batches that continue in a new topic what their producer began in a deleted one.

    A broker accepts any first sequence number of a producer that it does not know. Requests with
    names of topics reach the new topic (versions of Produce before 13).
    """
    latest: dict[tuple[str, int, int, int], Write] = {}
    for write in history.writes:
        batch, partition = write.batch, write.partition
        if write.outcome is not Outcome.ACCEPTED or batch.producer_id < 0:
            continue
        key = partition.topic, partition.number, batch.producer_id, batch.producer_epoch
        before = latest.get(key)
        latest[key] = write
        if before is None or before.partition == partition or batch.base_sequence <= 0:
            continue
        yield Finding(
            rule=OTHER_INCARNATION,
            severity=Severity.WARNING,
            text=f"{write.event.client} wrote {count_text(batch.records, 'record')} to {partition} "
            f"with sequence number {batch.base_sequence}, which follows those in the topic that "
            "was deleted",
            cause=RECREATED_TOPIC,
            partition=partition,
            offsets=Range(write.first_offset, write.last_offset) if write.is_acknowledged else None,
            client=write.event.client,
            records=batch.records,
            proofs=(before.event.proof, write.event.proof),
        )


def _answered_ns(write: Write) -> int:
    return write.event.answered_ns or 0
