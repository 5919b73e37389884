"""Rules about deliveries: lost records, records delivered twice, aborted and unread records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kafkalite.lab.checker.effective_commits import GroupPartition, at_ns, effective_commits
from kafkalite.lab.checker.findings import OTHER_COMMIT, Finding, Severity
from kafkalite.lab.checker.history import HasEvent, Range, intersection, merged, sent_ns, without
from kafkalite.lab.checker.range_map import RangeMap
from kafkalite.lab.checker.transaction_outcomes import TransactionOutcomes
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.lab.checker.effective_commits import EffectiveCommit
    from kafkalite.lab.checker.history import (
        Client,
        Commit,
        Coverage,
        Delivery,
        History,
        Partition,
        Write,
    )

T = TypeVar("T", bound=HasEvent)

LOST: Final = "lost"
DELIVERED_TWICE: Final = "delivered twice"
ABORTED_READ: Final = "aborted but read"
UNREAD: Final = "unread"

SKIPPED_BY_COMMIT: Final = "skipped by a commit"
SKIPPED_BY_ADMINISTRATOR: Final = "skipped by an administrator's commit"
OFFSET_RESET: Final = "offset reset"
POSITION_MOVED: Final = "position moved forward"
MISSING_IN_LOG: Final = "missing in the log"
RECREATED_TOPIC: Final = "recreated topic"
REBALANCE: Final = "rebalance"
POSITION_MOVED_BACK: Final = "position moved back"
READ_UNCOMMITTED: Final = "read_uncommitted"
NOT_LISTED: Final = "not listed as aborted"


class _Skip(NamedTuple):
    """Why a group did not get some records."""

    cause: str
    text: str
    severity: Severity
    event: Commit | Coverage | None


def lost(history: History) -> Iterator[Finding]:
    """Yield acknowledged records that a group passed without getting them.

    A group passes what is before its committed offset or before a position from which it fetched.
    Its first position and what was fetched by a client of an unknown group are no loss, but a
    position that a client has from a deleted topic of the same name is. Records of aborted
    transactions and of compacted topics may be missing. A position that OffsetFetch returned, but
    no commit of the history has, shows a member that the history lacks.
    """
    outcomes = TransactionOutcomes(history)
    acknowledged = history.acknowledged()
    coverages, effective = _coverages(history), effective_commits(history)
    in_answers, lookups, starts = _delivered(history), _first_lookups(history), _starts(history)
    of_unknown_groups = {row.partition for row in history.coverages if row.group is None}
    for key, rows in coverages.items():
        partition = key.partition
        if partition in of_unknown_groups or partition.topic in history.compacted_topics:
            continue
        covered = merged(Range(row.first_offset, row.last_offset) for row in rows)
        commits = [each.commit for each in effective.get(key, ())]
        after = _After(_Earliest(rows, _first_offset), _Earliest(commits, _offset), lookups, starts)
        passed = max([covered[-1].last + 1, *(commit.offset for commit in commits)])
        delivered = in_answers[partition]
        carried = _carried_over(coverages, key, rows)
        begin = covered[0].first if carried is None else 0
        for write in acknowledged.get(partition, ()):
            whole = Range(max(write.first_offset, begin), write.last_offset)
            if whole.first > whole.last or whole.first >= passed or _is_aborted(outcomes, write):
                continue
            whole = Range(whole.first, min(whole.last, passed - 1))
            for part in without(whole, covered):
                is_before = carried is not None and part.last < carried.first_offset
                skip = (
                    _carried_skip(carried)
                    if carried is not None and is_before
                    else _skip(key, part, after)
                )
                yield _lost(key, write, part, skip)
            for part in _missing_in_log(whole, covered, delivered):
                yield _lost(key, write, part, _MISSING)


def _carried_over(
    coverages: dict[GroupPartition, list[Coverage]], key: GroupPartition, rows: list[Coverage]
) -> Coverage | None:
    """Return a group's first fetch from a topic if its position is that from the deleted one."""
    partition, first = key.partition, rows[0]
    if not partition.incarnation or not first.first_offset:
        return None
    deleted = partition._replace(incarnation=partition.incarnation - 1)
    before = coverages.get(GroupPartition(key.group, deleted))
    if not before or before[-1].event.client != first.event.client:
        return None
    return first if before[-1].last_offset + 1 == first.first_offset else None


def _carried_skip(carried: Coverage) -> _Skip:
    text = (
        f"{carried.event.client} continued at offset {carried.first_offset}, its position in the "
        "topic that was deleted"
    )
    return _Skip(RECREATED_TOPIC, text, Severity.VIOLATION, carried)


def _delivered(history: History) -> dict[Partition, list[Range]]:
    """Return the offsets of the batches in all answers, by partition."""
    found: dict[Partition, list[Range]] = defaultdict(list)
    for row in history.deliveries:
        found[row.partition].append(Range(row.base_offset, row.last_offset))
    return defaultdict(list, {each: merged(ranges) for each, ranges in found.items()})


_MISSING: Final = _Skip(
    MISSING_IN_LOG, "the broker returned later records instead", Severity.VIOLATION, None
)


def _missing_in_log(whole: Range, covered: list[Range], delivered: list[Range]) -> list[Range]:
    """Return the offsets from which the group fetched, but which no answer has."""
    missing = without(whole, delivered)
    return [part for each in missing for part in intersection(each, covered)]


def _coverages(history: History) -> dict[GroupPartition, list[Coverage]]:
    found: dict[GroupPartition, list[Coverage]] = defaultdict(list)
    for row in history.coverages:
        if row.group is not None:
            found[GroupPartition(row.group, row.partition)].append(row)
    return found


def _is_aborted(outcomes: TransactionOutcomes, write: Write) -> bool:
    batch = write.batch
    return batch.is_transactional and not outcomes.is_committed(
        write.partition, batch.producer_id, write.last_offset, write.event
    )


class _Earliest(Generic[T]):
    """Finds the row that was sent first of those whose offset is above another one."""

    def __init__(self, rows: Iterable[T], offset: Callable[[T], int]) -> None:
        self._offsets: list[int] = []
        self._rows: list[T] = []
        numbered = sorted(
            ((offset(row), index, row) for index, row in enumerate(rows)), key=itemgetter(0)
        )
        earliest: tuple[int, int, T] | None = None
        for position, index, row in reversed(numbered):
            if earliest is None or (sent_ns(row), index) < earliest[:2]:
                earliest = sent_ns(row), index, row
            self._offsets.append(-position)
            self._rows.append(earliest[2])

    def above(self, offset: int) -> T | None:
        """Return the row, or None."""
        count = bisect_left(self._offsets, -offset)
        return self._rows[count - 1] if count else None


_LookedUp = dict[tuple["Partition", int, "Client"], int]


def _first_lookups(history: History) -> _LookedUp:
    """Return partition, offset and client → when the client first looked the offset up."""
    found: _LookedUp = {}
    for each in history.lookups:
        found.setdefault((each.partition, each.offset, each.event.client), each.event.sent_ns)
    return found


_Starts = dict[tuple[GroupPartition, int, "Client"], int]


def _starts(history: History) -> _Starts:
    """Return partition, offset and client → when OffsetFetch first returned it to the client."""
    found: _Starts = {}
    for each in history.committed_offsets:
        key = GroupPartition(each.group, each.partition), each.offset, each.event.client
        found.setdefault(key, each.event.sent_ns)
    return found


class _After(NamedTuple):
    """What a group requested after some records."""

    coverages: _Earliest[Coverage]
    commits: _Earliest[Commit]
    lookups: _LookedUp
    starts: _Starts


def _skip(key: GroupPartition, part: Range, after: _After) -> _Skip:
    """Return why a group did not fetch a range that it passed."""
    first_later = after.coverages.above(part.last)
    first_commit = after.commits.above(part.last)
    if first_later is not None and (
        first_commit is None or first_later.event.sent_ns < first_commit.event.sent_ns
    ):
        looked_up_ns = after.lookups.get(
            (key.partition, first_later.first_offset, first_later.event.client)
        )
        is_reset = looked_up_ns is not None and looked_up_ns < first_later.event.sent_ns
        place = f"offset {first_later.first_offset}"
        if is_reset:
            text = f"{first_later.event.client} looked up {place} and fetched from there"
            return _Skip(OFFSET_RESET, text, Severity.VIOLATION, first_later)
        started_ns = after.starts.get((key, first_later.first_offset, first_later.event.client))
        if started_ns is not None and started_ns < first_later.event.sent_ns:
            text = (
                f"{first_later.event.client} began at {place}, which no commit in the history has"
            )
            return _Skip(OTHER_COMMIT, text, Severity.NOTE, first_later)
        text = f"{first_later.event.client} fetched from {place}"
        return _Skip(POSITION_MOVED, text, Severity.WARNING, first_later)
    assert first_commit is not None, "the group passed the range"
    text = f"{first_commit.event.client} committed offset {first_commit.offset}"
    if first_commit.is_administrative:
        return _Skip(SKIPPED_BY_ADMINISTRATOR, text, Severity.NOTE, first_commit)
    return _Skip(SKIPPED_BY_COMMIT, text, Severity.VIOLATION, first_commit)


def _lost(key: GroupPartition, write: Write, part: Range, skip: _Skip) -> Finding:
    proofs = (write.event.proof,) if skip.event is None else (
        write.event.proof, skip.event.event.proof,
    )  # fmt: skip
    return Finding(
        rule=LOST,
        severity=skip.severity,
        text=f"group {key.group} never got offsets {part.first} to {part.last} of "
        f"{key.partition}, which were acknowledged to {write.event.client}: {skip.text}",
        cause=skip.cause,
        partition=key.partition,
        offsets=part,
        group=key.group,
        client=None if skip.event is None else skip.event.event.client,
        records=part.last - part.first + 1,
        proofs=proofs,
    )


def delivered_twice(history: History) -> Iterator[Finding]:
    """Yield records that a group got more than once.

    A consumer prefetches, so a record that was delivered twice was perhaps processed once.
    """
    by_partition: dict[GroupPartition, list[Delivery]] = defaultdict(list)
    for row in history.deliveries:
        if row.group is not None and not row.is_shared:
            by_partition[GroupPartition(row.group, row.partition)].append(row)
    effective = effective_commits(history)
    for key, rows in by_partition.items():
        commits = effective.get(key, [])
        latest: RangeMap[Delivery] = RangeMap()
        for row in sorted(rows, key=lambda each: each.event.answered_ns or 0):
            whole = Range(row.first_offset, row.last_offset)
            for part, earlier in latest.overlapping(whole):
                yield _delivered_twice(key, part, earlier, row, commits)
            latest[whole] = row


def _delivered_twice(
    key: GroupPartition,
    part: Range,
    earlier: Delivery,
    row: Delivery,
    commits: list[EffectiveCommit],
) -> Finding:
    count = bisect_left(commits, row.event.sent_ns, key=at_ns)
    was_committed = count > 0 and commits[count - 1].commit.offset > part.first
    is_other = earlier.member != row.member or earlier.event.client != row.event.client
    cause = REBALANCE if is_other else POSITION_MOVED_BACK
    detail = f"{earlier.event.client} and {row.event.client}" if is_other else str(row.event.client)
    suffix = ", although the first ones were committed" if was_committed else ""
    return Finding(
        rule=DELIVERED_TWICE,
        severity=Severity.WARNING if was_committed else Severity.NOTE,
        text=f"offsets {part.first} to {part.last} of {key.partition} were delivered to {detail} "
        f"of group {key.group} again{suffix}",
        cause=cause,
        partition=key.partition,
        offsets=part,
        group=key.group,
        client=row.event.client,
        records=part.last - part.first + 1,
        proofs=(earlier.event.proof, row.event.proof),
    )


def aborted_reads(history: History) -> Iterator[Finding]:
    """Yield records of aborted transactions that consumers got (G1a).

    With read_committed, an answer lists the aborted transactions, and the consumer discards their
    records (KIP-98).
    """
    outcomes = TransactionOutcomes(history)
    for row in history.deliveries:
        if not row.batch.is_transactional or row.is_aborted:
            continue
        is_committed = outcomes.is_committed(
            row.partition, row.batch.producer_id, row.last_offset, None
        )
        if is_committed is not False:
            continue
        marker = outcomes.marker_after(row.partition, row.batch.producer_id, row.last_offset)
        assert marker is not None, "it says that the transaction was aborted"
        reader = f"{row.event.client}" + ("" if row.group is None else f" of group {row.group}")
        mode = "read_committed" if row.is_read_committed else "read_uncommitted"
        yield Finding(
            rule=ABORTED_READ,
            severity=Severity.VIOLATION if row.is_read_committed else Severity.WARNING,
            text=f"{reader} got offsets {row.first_offset} to {row.last_offset} of {row.partition} "
            f"with {mode}, although their transaction was aborted",
            cause=NOT_LISTED if row.is_read_committed else READ_UNCOMMITTED,
            partition=row.partition,
            offsets=Range(row.first_offset, row.last_offset),
            group=row.group,
            client=row.event.client,
            records=row.last_offset - row.first_offset + 1,
            proofs=(row.event.proof, marker.event.proof),
        )


def unread(history: History) -> Iterator[Finding]:
    """Yield acknowledged records that no consumer of the history got."""
    outcomes = TransactionOutcomes(history)
    covered: dict[Partition, list[Range]] = defaultdict(list)
    for row in history.coverages:
        covered[row.partition].append(Range(row.first_offset, row.last_offset))
    for each in history.deliveries:
        if each.is_shared:
            covered[each.partition].append(Range(each.first_offset, each.last_offset))
    for partition, writes in history.acknowledged().items():
        ranges = merged(covered.get(partition, ()))
        rest = [
            part
            for write in writes
            if not _is_aborted(outcomes, write)
            for part in without(Range(write.first_offset, write.last_offset), ranges)
        ]
        for part in merged(rest):
            count = bisect_right(writes, part.last, key=_first_offset)
            yield Finding(
                rule=UNREAD,
                severity=Severity.NOTE,
                text=f"no consumer got offsets {part.first} to {part.last} of {partition}",
                cause="not fetched",
                partition=partition,
                offsets=part,
                records=part.last - part.first + 1,
                proofs=(writes[count - 1].event.proof,),
            )


def _first_offset(row: Write | Coverage) -> int:
    return row.first_offset


def _offset(commit: Commit) -> int:
    return commit.offset
