"""Rules about the books alone: damage, gaps, duplicates, open and torn transactions, positions."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.books.model import LogKey
from kafkalite.lab.checker.commit_rules import REGRESSION
from kafkalite.lab.checker.delivery_rules import LOST, MISSING_IN_LOG
from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import Range
from kafkalite.lab.checker.log_rules import DUPLICATE, REPEATED_SEQUENCE
from kafkalite.lab.checker.share_rules import NOT_PROCESSED
from kafkalite.lab.checker.transaction_rules import DIFFERENT_MARKERS, TORN
from kafkalite.ports.texts import count_text
from kafkalite.shares.state import DeliveryState
from kafkalite.transactions.state import PREPARED_STATES, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.books.model import (
        Books,
        LoggedBatch,
        LoggedCommit,
        LoggedTransaction,
        PartitionLog,
    )

DAMAGED: Final = "damaged log"
OPEN_TRANSACTION: Final = "open transaction"
POSITION: Final = "position outside the log"

WITHIN: Final = "within the log"
AT_END: Final = "incomplete end"
HANGING: Final = "hanging transaction"
ONGOING: Final = "ongoing"
NO_COORDINATOR: Final = "coordinator unknown"
MISSING_MARKER: Final = "missing marker"
PAST_END: Final = "past the end"
BEFORE_START: Final = "before the start"
COMMITTED_LOWER: Final = "lower offset committed"
ARCHIVED: Final = "archived"

_COMMITTED: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT))
_COMPLETE: Final = frozenset((TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))


def damaged(books: Books) -> Iterator[Finding]:
    """Yield logs with a batch that is incomplete or has a wrong checksum."""
    for log in (*books.logs.values(), *books.internal_logs.values()):
        if log.damage is None:
            continue
        place = "and later batches follow" if log.is_damaged_within else "at its end"
        yield Finding(
            rule=DAMAGED,
            severity=Severity.VIOLATION if log.is_damaged_within else Severity.WARNING,
            text=f"the log of {log.partition} has a damaged batch at offset {log.end_offset}, "
            f"{place}",
            cause=WITHIN if log.is_damaged_within else AT_END,
            partition=log.partition,
            offsets=Range(log.damage.offset, log.damage.offset),
            proofs=(log.damage,),
        )


def gaps(books: Books) -> Iterator[Finding]:
    """Yield offsets that no batch has in a log without compaction.

    Kafka assigns consecutive offsets, and deletes only from the start.
    """
    for log in books.logs.values():
        if log.partition.topic in books.compacted_topics:
            continue
        for earlier, later in pairwise(log.batches):
            missing = Range(earlier.last_offset + 1, later.base_offset - 1)
            if missing.last >= missing.first:
                yield Finding(
                    rule=LOST,
                    severity=Severity.VIOLATION,
                    text=f"the log lacks {missing} of {log.partition}",
                    cause=MISSING_IN_LOG,
                    partition=log.partition,
                    offsets=missing,
                    records=missing.last - missing.first + 1,
                    proofs=(earlier.proof, later.proof),
                )


def repeated_sequences(books: Books) -> Iterator[Finding]:
    """Yield batches with the sequence number of an earlier one of the same producer (KIP-98)."""
    for log in books.logs.values():
        known: dict[tuple[int, ...], LoggedBatch] = {}
        for each in log.batches:
            if each.is_control or each.batch.producer_id < 0 or each.batch.base_sequence < 0:
                continue
            first = known.setdefault((*each.batch.content, each.batch.records), each)
            if first is not each:
                yield Finding(
                    rule=DUPLICATE,
                    severity=Severity.VIOLATION,
                    text=f"a batch of {count_text(each.batch.records, 'record')} of producer "
                    f"{each.batch.producer_id} at offset {first.base_offset} of {log.partition} is "
                    f"in the log again at offset {each.base_offset}, with the same sequence number",
                    cause=REPEATED_SEQUENCE,
                    partition=log.partition,
                    offsets=Range(each.base_offset, each.last_offset),
                    records=each.batch.records,
                    proofs=(first.proof, each.proof),
                )


def open_batches(log: PartitionLog) -> dict[int, LoggedBatch]:
    """Return the first batch of each producer's transaction that has no marker."""
    found: dict[int, LoggedBatch] = {}
    for each in log.batches:
        if each.is_commit is not None:
            found.pop(each.batch.producer_id, None)
        elif each.batch.is_transactional and not each.is_control:
            found.setdefault(each.batch.producer_id, each)
    return found


def open_transactions(books: Books) -> Iterator[Finding]:
    """Yield transactions without a marker, which consumers with read_committed cannot pass.

    The coordinator must know it. Otherwise no client and no timeout ends it (KIP-664, KIP-890).
    """
    owners = {
        each.state.producer_id: (name, each.state)
        for name, states in books.transactions.items()
        for each in states[-1:]
    }
    for log in books.logs.values():
        for producer_id, batch in open_batches(log).items():
            name, state = owners.get(producer_id, (None, None))
            key = (log.partition.topic, log.partition.number)
            if state is None:
                cause, severity = NO_COORDINATOR, Severity.WARNING
                reason = "no record of a coordinator names this producer"
            elif key in state.partitions and state.state not in _COMPLETE:
                cause, severity = ONGOING, Severity.NOTE
                reason = f"it is {state.state.label} for {name}"
            else:
                cause, severity = HANGING, Severity.VIOLATION
                reason = f"but for the coordinator of {name} it is {state.state.label}"
            yield Finding(
                rule=OPEN_TRANSACTION,
                severity=severity,
                text=f"a transaction of producer {producer_id} is open in {log.partition} from "
                f"offset {batch.base_offset}: {reason}",
                cause=cause,
                partition=log.partition,
                offsets=Range(batch.base_offset, log.end_offset - 1),
                transactional_id=name,
                records=log.end_offset - batch.base_offset,
                proofs=(batch.proof,),
            )


def torn_transactions(books: Books) -> Iterator[Finding]:
    """Yield completed transactions whose markers are missing in a log, or are different.

    The coordinator's last decision names the partitions, and each needs the decision's marker.
    """
    markers = {key: log.markers() for key, log in books.logs.items()}
    for name, states in books.transactions.items():
        decision = _last_decision(states)
        if decision is None:
            continue
        is_commit = decision.state.state in _COMMITTED
        for topic, number in sorted(decision.state.partitions):
            key = LogKey(topic, number)
            log = books.logs.get(key)
            if log is None or not log.batches:
                continue
            marker = next(reversed(markers[key].get(decision.state.producer_id, [])), None)
            if marker is not None and marker.is_commit == is_commit:
                continue
            if marker is None and log.start_offset > 0:
                continue  # perhaps deleted
            yield _torn(name, decision, log, marker, is_commit=is_commit)


def _last_decision(states: list[LoggedTransaction]) -> LoggedTransaction | None:
    """Return the last decision whose markers are written; the record after it says so."""
    latest = [index for index, each in enumerate(states) if each.state.state in _COMPLETE]
    if not latest or states[-1].state.state in PREPARED_STATES:
        return None
    prepared = [each for each in states[: latest[-1]] if each.state.state in PREPARED_STATES]
    return prepared[-1] if prepared else None


def _torn(
    name: str,
    decision: LoggedTransaction,
    log: PartitionLog,
    marker: LoggedBatch | None,
    *,
    is_commit: bool,
) -> Finding:
    outcome = "commit" if is_commit else "abort"
    found = "no marker" if marker is None else f"another marker at offset {marker.base_offset}"
    return Finding(
        rule=TORN,
        severity=Severity.VIOLATION,
        text=f"the coordinator decided to {outcome} the last transaction of {name}, but "
        f"{log.partition} has {found}",
        cause=MISSING_MARKER if marker is None else DIFFERENT_MARKERS,
        partition=log.partition,
        transactional_id=name,
        proofs=(decision.proof,) if marker is None else (decision.proof, marker.proof),
    )


def latest_commits(books: Books) -> dict[tuple[str, LogKey], list[LoggedCommit]]:
    """Return the records of each group and partition, in the order in which they took effect."""
    found: dict[tuple[str, LogKey], list[LoggedCommit]] = defaultdict(list)
    for each in books.commits:
        found[each.group, LogKey(each.topic, each.number)].append(each)
    return found


def committed_positions(books: Books) -> Iterator[Finding]:
    """Yield committed offsets that are not in the log, and those that went back."""
    for (group, key), commits in latest_commits(books).items():
        for earlier, later in pairwise(commits):
            before, after = earlier.offset, later.offset
            if before is not None and after is not None and after < before:
                yield _went_back(group, key, earlier, later, before - after)
        last, log = commits[-1], books.logs.get(key)
        if last.offset is None or log is None:
            continue
        if last.offset > log.end_offset:
            text = f"is {last.offset}, but its log ends at {log.end_offset}"
            yield _position(group, log, last, PAST_END, Severity.VIOLATION, text)
        elif last.offset < log.start_offset:
            text = f"is {last.offset}, but its log begins at {log.start_offset}"
            yield _position(group, log, last, BEFORE_START, Severity.WARNING, text)


def _went_back(
    group: str, key: LogKey, earlier: LoggedCommit, later: LoggedCommit, records: int
) -> Finding:
    return Finding(
        rule=REGRESSION,
        severity=Severity.NOTE,
        text=f"the committed offset of group {group} for {key.topic}-{key.number} went back from "
        f"{earlier.offset} to {later.offset}",
        cause=COMMITTED_LOWER,
        group=group,
        records=records,
        proofs=(earlier.proof, later.proof),
    )


def _position(  # noqa: PLR0917 - private
    group: str, log: PartitionLog, last: LoggedCommit, cause: str, severity: Severity, text: str
) -> Finding:
    return Finding(
        rule=POSITION,
        severity=severity,
        text=f"the committed offset of group {group} for {log.partition} {text}",
        cause=cause,
        partition=log.partition,
        group=group,
        records=abs(
            (last.offset or 0) - (log.end_offset if cause == PAST_END else log.start_offset)
        ),
        proofs=(last.proof,),
    )


def share_positions(books: Books) -> Iterator[Finding]:
    """Yield states of share groups past the end of the log, and records that they gave up."""
    for key, share in books.shares.items():
        log = books.logs.get(LogKey(books.topic_names.get(key.topic_id, ""), key.partition))
        if log is None:
            continue
        last = max([share.start_offset, *(each.last_offset + 1 for each in share.batches)])
        if last > log.end_offset:
            yield Finding(
                rule=POSITION,
                severity=Severity.VIOLATION,
                text=f"the state of share group {key.group_id} for {log.partition} goes to offset "
                f"{last}, but its log ends at {log.end_offset}",
                cause=PAST_END,
                partition=log.partition,
                group=key.group_id,
                records=last - log.end_offset,
                proofs=(share.proof,),
            )
        for each in share.batches:
            if each.delivery_state == DeliveryState.ARCHIVED:
                given_up = Range(each.first_offset, each.last_offset)
                yield Finding(
                    rule=NOT_PROCESSED,
                    severity=Severity.NOTE,
                    text=f"share group {key.group_id} gave up {given_up} of {log.partition}",
                    cause=ARCHIVED,
                    partition=log.partition,
                    offsets=given_up,
                    group=key.group_id,
                    records=given_up.last - given_up.first + 1,
                    proofs=(share.proof,),
                )


RULES: Final = (
    damaged,
    gaps,
    repeated_sequences,
    torn_transactions,
    open_transactions,
    committed_positions,
    share_positions,
)
"""The rules in the order of a report."""
