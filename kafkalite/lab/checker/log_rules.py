"""Rules about the logs of partitions: duplicates, overwritten and reordered batches, zombies."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import Outcome, Range, sent_ns
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.history import History, Partition, ProducerStart, Write

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


def attempts(history: History) -> dict[_Content, list[Write]]:
    """Return all requests that sent a batch, in the order in which they were sent."""
    found: dict[_Content, list[Write]] = defaultdict(list)
    for write in history.writes:
        found[write.partition, write.batch.content].append(write)
    return found


def duplicates(history: History) -> Iterator[Finding]:
    """Yield batches that are in the log more than once.

    A batch of an idempotent producer has a sequence number, with which a broker recognises a retry
    (KIP-98). Another batch is the same if its checksum is, and if the request before it was not
    acknowledged, so that the producer sent it again. A producer with acks=0 gets no answers, so it
    does not send a batch again.
    """
    delivered = _delivered_offsets(history)
    for key, writes in attempts(history).items():
        is_idempotent = key[1][0] >= 0
        if not is_idempotent and (writes[0].is_acknowledged or not writes[0].is_answerable):
            continue  # equal batches after it were sent on purpose
        found = delivered[key]
        for write in writes:
            if write.is_acknowledged:
                found.setdefault(write.first_offset, write.batch.records)
        if len(found) > 1 and (is_idempotent or len(writes) > 1):
            yield _duplicate(key[0], found, writes, is_idempotent=is_idempotent)


def _delivered_offsets(history: History) -> dict[_Content, dict[int, int]]:
    found: dict[_Content, dict[int, int]] = defaultdict(dict)
    for delivery in history.deliveries:
        key = delivery.partition, delivery.batch.content
        found[key].setdefault(delivery.base_offset, delivery.batch.records)
    return found


def _duplicate(
    partition: Partition, found: dict[int, int], writes: list[Write], *, is_idempotent: bool
) -> Finding:
    first, *others = sorted(found)
    records = found[first]
    client = writes[0].event.client
    places = ", ".join(str(offset) for offset in others)
    reason = (
        "although they have the same sequence number"
        if is_idempotent
        else "because the producer sent it again without idempotence"
    )
    return Finding(
        rule=DUPLICATE,
        severity=Severity.VIOLATION,
        text=f"a batch of {count_text(records, 'record')} of {client} at offset {first} of "
        f"{partition} is in the log again at offset {places}, {reason}",
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
        text=f"offsets {lost.first} to {lost.last} of {partition} were acknowledged to "
        f"{earlier.event.client} and then again to {later.event.client}, so the log was truncated "
        "in between",
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
    by_connection: dict[tuple[Partition, int], list[list[Write]]] = defaultdict(list)
    for (partition, content), writes in attempts(history).items():
        for own in _sent_as_one(writes) if content[0] < 0 else (writes,):
            by_connection[partition, own[0].event.connection].append(own)
    for (partition, _), batches in by_connection.items():
        placed = [
            (writes, acknowledged[-1])
            for writes in sorted(batches, key=lambda each: each[0].event.sent_ns)
            if (acknowledged := [each for each in writes if each.is_acknowledged])
        ]
        smallest: Write | None = None
        for writes, write in reversed(placed):
            if smallest is not None and smallest.first_offset < write.first_offset:
                yield _reordered(partition, writes, write, smallest)
            if smallest is None or write.first_offset < smallest.first_offset:
                smallest = write


def _sent_as_one(writes: list[Write]) -> Iterator[list[Write]]:
    """Yield the attempts to send a batch; an equal one after an answer is another batch."""
    begin = 0
    for index, write in enumerate(writes, 1):
        if write.is_acknowledged or index == len(writes):
            yield writes[begin:index]
            begin = index


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
