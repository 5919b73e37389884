"""Rules about books and a history: what clients were answered, and what the logs have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.books.model import LogKey
from kafkalite.lab.checker.books.rules import latest_commits
from kafkalite.lab.checker.effective_commits import effective_commits
from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import (
    Event,
    Marker,
    Outcome,
    Range,
    Undecided,
    merged,
    without,
)
from kafkalite.lab.checker.transaction_rules import transactions_of
from kafkalite.ports.texts import count_text
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.shares.acknowledgement import AcknowledgeType
from kafkalite.shares.state import DeliveryState
from kafkalite.storage.batch import COMPRESSION_MASK, LOG_APPEND_TIME
from kafkalite.transactions.state import PREPARED_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.books.model import Books, LoggedBatch, LoggedCommit, PartitionLog
    from kafkalite.lab.checker.effective_commits import GroupPartition
    from kafkalite.lab.checker.history import (
        Acknowledgement,
        Commit,
        History,
        LogProof,
        Partition,
        Write,
    )

NOT_IN_BOOKS: Final = "answered, but not in the books"

RECORDS: Final = "records missing"
OTHER_RECORDS: Final = "other records"
ALTERED: Final = "altered records"
COMMIT: Final = "commit missing"
MARKER: Final = "marker missing"
ACKNOWLEDGEMENT: Final = "acknowledgement missing"

OTHER_DIRECTORIES: Final = "answers about partitions whose logs are in no data directory"
DELETED_RECORDS: Final = "acknowledged batches before the start of their logs"
UNKNOWN_GROUPS: Final = "commits of groups that the data directories do not have"
EARLIER_TOPICS: Final = "answers about topics that were deleted"

_CLOCK_TOLERANCE_MS: Final = 60_000
"""Maximum difference between the clocks of a broker and of the machine that recorded."""
_HEADER_CHANGES: Final = COMPRESSION_MASK | LOG_APPEND_TIME


class Comparison:
    """Compares a history with books; `undecided` has what they cannot decide."""

    def __init__(self, history: History, books: Books) -> None:
        self._history = history
        self._books = books
        self._undecided: Counter[str] = Counter()
        self._latest_incarnation: Counter[str] = Counter()
        for each in history.topic_events:
            if each.kind == "deleted":
                self._latest_incarnation[each.topic] += 1

    def findings(self) -> Iterator[Finding]:
        """Yield what clients were answered, although the books say something else."""
        yield from self._writes()
        yield from self._commits()
        yield from self._ends()
        yield from self._acknowledgements()

    @property
    def undecided(self) -> list[Undecided]:
        """What could not be decided by the findings so far."""
        return [Undecided(*each) for each in sorted(self._undecided.items())]

    def _log(self, partition: Partition) -> PartitionLog | None:
        """Return the log of a partition; None, with a count, if the books do not have it."""
        if partition.incarnation < self._latest_incarnation[partition.topic]:
            self._undecided[EARLIER_TOPICS] += 1
            return None
        log = self._books.logs.get(LogKey(partition.topic, partition.number))
        if log is None:
            self._undecided[OTHER_DIRECTORIES] += 1
        return log

    def _writes(self) -> Iterator[Finding]:
        placed: dict[Partition, dict[int, LoggedBatch]] = {}
        for write in self._history.writes:
            if not write.is_acknowledged:
                continue
            log = self._log(write.partition)
            if log is None or write.partition.topic in self._books.compacted_topics:
                continue
            if write.first_offset < log.start_offset:
                self._undecided[DELETED_RECORDS] += 1
                continue
            if write.partition not in placed:
                placed[write.partition] = {each.base_offset: each for each in log.batches}
            found = placed[write.partition].get(write.first_offset)
            yield from _compare_write(write, log, found)

    def _commits(self) -> Iterator[Finding]:
        logged = latest_commits(self._books)
        for key, commits in effective_commits(self._history).items():
            last = commits[-1].commit
            if self._log(key.partition) is None:
                continue
            if key.group not in self._books.groups:
                self._undecided[UNKNOWN_GROUPS] += 1
                continue
            if last.is_transactional and self._is_ending(last.transactional_id):
                continue
            rows = logged.get((key.group, LogKey(key.partition.topic, key.partition.number)), [])
            if not any(_confirms(row, last) for row in rows):
                yield _missing_commit(key, last, rows)

    def _ends(self) -> Iterator[Finding]:
        markers: dict[Partition, dict[int, list[LoggedBatch]]] = {}
        for transaction in transactions_of(self._history):
            end = transaction.end
            if end is None or self._is_ending(end.transactional_id):
                continue
            last: dict[Partition, Write] = {each.partition: each for each in transaction.writes}
            for partition, write in last.items():
                log = self._log(partition)
                if log is None or log.end_offset <= write.last_offset:
                    continue  # the writes are missing, which is a finding of its own
                if partition not in markers:
                    markers[partition] = log.markers()
                own = markers[partition].get(end.producer_id)
                if not own or own[-1].base_offset <= write.last_offset:
                    outcome = "committed" if end.is_commit else "aborted"
                    yield _finding(
                        MARKER,
                        f"the broker reported to {end.event.client} that a transaction of "
                        f"{end.transactional_id} was {outcome}, but {partition} has no marker of "
                        f"producer {end.producer_id} after offset {write.last_offset}",
                        end.event,
                        partition,
                        transactional_id=end.transactional_id,
                    )

    def _is_ending(self, transactional_id: str | None) -> bool:
        """Return whether the coordinator has decided, but perhaps not written all markers yet."""
        states = self._books.transactions.get(transactional_id or "", [])
        return bool(states) and states[-1].state.state in PREPARED_STATES

    def _acknowledgements(self) -> Iterator[Finding]:
        names = self._books.topic_names
        shares = {
            (key.group_id, names.get(key.topic_id), key.partition): share
            for key, share in self._books.shares.items()
        }
        settled: dict[tuple[str, Partition], list[Range]] = {}
        for row in self._history.acknowledgements:
            if row.outcome is not Outcome.ACCEPTED or row.type != AcknowledgeType.ACCEPT:
                continue
            if self._log(row.partition) is None:
                continue
            share = shares.get((row.group, row.partition.topic, row.partition.number))
            if share is None:
                self._undecided[UNKNOWN_GROUPS] += 1
                continue
            key = row.group, row.partition
            if key not in settled:
                settled[key] = merged(
                    Range(each.first_offset, each.last_offset)
                    for each in share.batches
                    if each.delivery_state == DeliveryState.ACKNOWLEDGED
                )
            whole = Range(max(row.first_offset, share.start_offset), row.last_offset)
            missing = without(whole, settled[key])
            if missing:
                yield _missing_acknowledgement(row, missing, share.proof)


def _compare_write(write: Write, log: PartitionLog, found: LoggedBatch | None) -> Iterator[Finding]:
    offsets = Range(write.first_offset, write.last_offset)
    named = f"the broker acknowledged {offsets} of {write.partition} to {write.event.client}, but"
    proofs: tuple[LogProof, ...] = () if found is None else (found.proof,)
    if found is None:
        place = (
            f"its log ends at {log.end_offset}"
            if write.first_offset >= log.end_offset
            else "no batch of its log begins there"
        )
        text, cause = f"{named} {place}", RECORDS
    elif found.batch.records != write.batch.records or not _is_of_producer(found, write):
        text, cause = f"{named} its log has other records there", OTHER_RECORDS
    elif _is_altered(found, write):
        text, cause = f"{named} its log has another checksum there", ALTERED
    else:
        return
    finding = _finding(
        cause, text, write.event, write.partition, transactional_id=write.transactional_id
    )
    yield replace(
        finding, offsets=offsets, records=write.batch.records, proofs=(*finding.proofs, *proofs)
    )


def _is_of_producer(found: LoggedBatch, write: Write) -> bool:
    logged, sent = found.batch, write.batch
    return (logged.producer_id, logged.producer_epoch, logged.base_sequence) == (
        sent.producer_id, sent.producer_epoch, sent.base_sequence,
    )  # fmt: skip


def _is_altered(found: LoggedBatch, write: Write) -> bool:
    """Return whether the checksum differs without a reason.

    A broker compresses batches again, or sets their timestamps, if the topic's settings say so.
    """
    changed = (found.batch.attributes ^ write.batch.attributes) & _HEADER_CHANGES
    return not changed and found.batch.crc != write.batch.crc and not _has_append_time(found)


def _has_append_time(found: LoggedBatch) -> bool:
    return bool(found.batch.attributes & LOG_APPEND_TIME)


def _confirms(row: LoggedCommit, commit: Commit) -> bool:
    """Return whether a record has an accepted commit, or a later commit or deletion."""
    if row.offset == commit.offset:
        return True
    answered_ms = (commit.event.answered_ns or 0) // NANOSECONDS_PER_MILLISECOND
    return row.at_ms > answered_ms + _CLOCK_TOLERANCE_MS


def _missing_commit(key: GroupPartition, last: Commit, rows: list[LoggedCommit]) -> Finding:
    latest = rows[-1] if rows else None
    found = "no offset" if latest is None or latest.offset is None else f"offset {latest.offset}"
    finding = _finding(
        COMMIT,
        f"{last.event.client} committed offset {last.offset} of {key.partition} for group "
        f"{key.group}, but the last record of the group has {found}",
        last.event,
        key.partition,
        transactional_id=last.transactional_id,
    )
    proofs = finding.proofs if latest is None else (*finding.proofs, latest.proof)
    return replace(finding, group=key.group, proofs=proofs)


def _missing_acknowledgement(
    row: Acknowledgement, missing: list[Range], proof: LogProof
) -> Finding:
    records = sum(each.last - each.first + 1 for each in missing)
    finding = _finding(
        ACKNOWLEDGEMENT,
        f"{row.event.client} accepted {count_text(records, 'record')} of {row.partition}, from "
        f"offset {missing[0].first}, in share group {row.group}, but the state of the group does "
        "not have it",
        row.event,
        row.partition,
    )
    return replace(
        finding,
        group=row.group,
        offsets=Range(missing[0].first, missing[-1].last),
        records=records,
        proofs=(*finding.proofs, proof),
    )


def _finding(
    cause: str,
    text: str,
    event: Event,
    partition: Partition,
    *,
    transactional_id: str | None = None,
) -> Finding:
    return Finding(
        rule=NOT_IN_BOOKS,
        severity=Severity.VIOLATION,
        text=text,
        cause=cause,
        partition=partition,
        transactional_id=transactional_id,
        client=event.client,
        proofs=(event.proof,),
    )


def _with_proof(event: Event, proof: LogProof) -> Event:
    """Return a request with another proof; `replace` cannot change a packed row."""
    return Event(
        event.client, event.connection, event.sent_ns, event.answered_ns, event.broker, proof
    )


def with_markers(history: History, books: Books) -> History:
    """Return a history with the markers of the logs, which consumers perhaps did not fetch."""
    events = {
        (write.partition, write.batch.producer_id): write.event
        for write in history.writes
        if write.batch.is_transactional
    }
    markers = [
        Marker(
            event=_with_proof(events[partition, each.batch.producer_id], each.proof),
            partition=partition,
            offset=each.base_offset,
            producer_id=each.batch.producer_id,
            producer_epoch=each.batch.producer_epoch,
            is_commit=each.is_commit,
        )
        for partition in {key[0] for key in events}
        if (log := books.logs.get(LogKey(partition.topic, partition.number))) is not None
        for each in log.batches
        if each.is_commit is not None and (partition, each.batch.producer_id) in events
    ]
    return replace(history, markers=[*history.markers, *markers])
