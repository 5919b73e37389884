"""Rules about deliveries: lost records, records delivered twice, aborted and unread records."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kafkalite.lab.checker.effective_commits import (
    GroupPartition,
    at_ns,
    effective_commits,
    is_any_between,
    removal_times,
)
from kafkalite.lab.checker.findings import OTHER_COMMIT, Finding, Severity
from kafkalite.lab.checker.history import HasEvent, Range, intersection, merged, sent_ns, without
from kafkalite.lab.checker.packed_rows import grouped
from kafkalite.lab.checker.range_map import RangeMap
from kafkalite.lab.checker.transaction_outcomes import TransactionOutcomes
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.lab.checker.effective_commits import EffectiveCommit
    from kafkalite.lab.checker.history import (
        Client,
        Commit,
        Coverage,
        Delivery,
        History,
        Partition,
        RecordDeletion,
        Write,
    )
    from kafkalite.lab.checker.packed_rows import View

T = TypeVar("T", bound=HasEvent)

LOST: Final = "lost"
DELIVERED_TWICE: Final = "delivered twice"
ABORTED_READ: Final = "aborted but read"
UNREAD: Final = "unread"

SKIPPED_BY_COMMIT: Final = "skipped by a commit"
SKIPPED_BY_ADMINISTRATOR: Final = "skipped by an administrator's commit"
DELETED: Final = "deleted by an administrator"
OFFSET_RESET: Final = "offset reset"
POSITION_MOVED: Final = "position moved forward"
MISSING_IN_LOG: Final = "missing in the log"
RECREATED_TOPIC: Final = "recreated topic"
REBALANCE: Final = "rebalance"
EXPIRED_OFFSET: Final = "expired offset"
POSITION_MOVED_BACK: Final = "position moved back"
UNCLEAR_MEMBER: Final = "unclear member"
READ_UNCOMMITTED: Final = "read_uncommitted"
NOT_LISTED: Final = "not listed as aborted"


class _Skip(NamedTuple):
    """Why a group did not get some records."""

    cause: str
    text: str
    severity: Severity
    event: Commit | Coverage | RecordDeletion | None


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
    deletions = grouped(history.record_deletions, lambda row: row.partition)
    of_unknown_groups = {row.partition for row in history.coverages if row.group is None}
    for key, rows in coverages.items():
        partition = key.partition
        if partition in of_unknown_groups or partition.topic in history.compacted_topics:
            continue
        covered = merged(Range(row.first_offset, row.last_offset) for row in rows)
        commits = [each.commit for each in effective.get(key, ())]
        after = _After(
            _Earliest(rows, _first_offset),
            _Earliest(commits, _offset),
            lookups,
            starts,
            _Earliest(deletions.get(partition, ()), _start_offset),
        )
        passed = max([covered[-1].last + 1, *(commit.offset for commit in commits)])
        delivered = in_answers[partition]
        carried = _carried_over(coverages, key, rows)
        begin = covered[0].first if carried is None else 0
        for write in _between(acknowledged.get(partition, []), begin, passed):
            whole = Range(max(write.first_offset, begin), write.last_offset)
            if whole.first > whole.last or _is_aborted(outcomes, write):
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


def _between(writes: Sequence[Write], begin: int, end: int) -> Iterator[Write]:
    """Yield the batches with offsets from `begin` to before `end`, and perhaps one before them."""
    first = bisect_right(writes, begin, key=_first_offset)
    for number in range(max(first - 1, 0), bisect_left(writes, end, key=_first_offset)):
        yield writes[number]


def _carried_over(
    coverages: dict[GroupPartition, View[Coverage]], key: GroupPartition, rows: View[Coverage]
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
    found = grouped(history.deliveries, lambda row: row.partition)
    return defaultdict(
        list,
        {
            each: merged(Range(row.base_offset, row.last_offset) for row in rows)
            for each, rows in found.items()
        },
    )


_MISSING: Final = _Skip(
    MISSING_IN_LOG, "the broker returned later records instead", Severity.VIOLATION, None
)


def _missing_in_log(whole: Range, covered: list[Range], delivered: list[Range]) -> list[Range]:
    """Return the offsets from which the group fetched, but which no answer has."""
    missing = without(whole, delivered)
    return [part for each in missing for part in intersection(each, covered)]


def _coverages(history: History) -> dict[GroupPartition, View[Coverage]]:
    return grouped(
        history.coverages,
        lambda row: None if row.group is None else GroupPartition(row.group, row.partition),
    )


def _is_aborted(outcomes: TransactionOutcomes, write: Write) -> bool:
    batch = write.batch
    return batch.is_transactional and not outcomes.is_committed(
        write.partition, batch, write.last_offset, write.event
    )


class _Earliest(Generic[T]):
    """Finds the row that was sent first of those whose offset is above another one."""

    def __init__(self, rows: Sequence[T], offset: Callable[[T], int]) -> None:
        self._rows = rows
        self._offsets = array("q")
        """Offsets with the opposite sign, in order."""
        self._earliest = array("i")
        """Number of the row that was sent first up to this one."""
        positions, sent = array("q", map(offset, rows)), array("q", map(sent_ns, rows))
        earliest = -1
        for number in sorted(range(len(rows)), key=positions.__getitem__, reverse=True):
            if earliest < 0 or (sent[number], number) < (sent[earliest], earliest):
                earliest = number
            self._offsets.append(-positions[number])
            self._earliest.append(earliest)

    def above(self, offset: int) -> T | None:
        """Return the row, or None."""
        count = bisect_left(self._offsets, -offset)
        return self._rows[self._earliest[count - 1]] if count else None


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
    deletions: _Earliest[RecordDeletion]


def _skip(key: GroupPartition, part: Range, after: _After) -> _Skip:
    """Return why a group did not fetch a range that it passed."""
    first_later = after.coverages.above(part.last)
    first_commit = after.commits.above(part.last)
    if first_later is not None and (
        first_commit is None or first_later.event.sent_ns < first_commit.event.sent_ns
    ):
        deletion = after.deletions.above(part.last)
        if deletion is not None and deletion.event.sent_ns < first_later.event.sent_ns:
            text = f"{deletion.event.client} deleted what is before offset {deletion.start_offset}"
            return _Skip(DELETED, text, Severity.NOTE, deletion)
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
        text=f"group {key.group} never got {part} of {key.partition}, acknowledged to "
        f"{write.event.client}: {skip.text}",
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
    positions = _Positions(history)
    for key, rows in grouped(history.deliveries, group_partition).items():
        ordered = rows.sorted_by(lambda each: each.event.answered_ns or 0)
        latest: RangeMap[int] = RangeMap()
        """The number of the latest delivery of each record."""
        for number, row in enumerate(ordered):
            whole = Range(row.first_offset, row.last_offset)
            for part, earlier in latest.overlapping(whole):
                yield _delivered_twice(positions, key, part, ordered[earlier], row)
            latest[whole] = number


def group_partition(row: Delivery) -> GroupPartition | None:
    """Return the partition that a group reads; None for share groups and for no group."""
    if row.group is None or row.is_shared:
        return None
    return GroupPartition(row.group, row.partition)


class _Positions:
    """Why groups were at their positions: commits, and the offsets that clients looked up."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._commits = effective_commits(history)

    def latest_commit(self, key: GroupPartition, before_ns: int) -> EffectiveCommit | None:
        """Return the commit of a group that was in effect at a time."""
        commits = self._commits.get(key, [])
        count = bisect_left(commits, before_ns, key=at_ns)
        return commits[count - 1] if count else None

    def was_removed(self, key: GroupPartition, commit: EffectiveCommit, before_ns: int) -> bool:
        """Return whether an answer to OffsetFetch between two times had no offset."""
        return is_any_between(self._removals.get(key, []), commit.at_ns, before_ns)

    def looked_up(self, key: GroupPartition, row: Delivery) -> int | None:
        """Return the offset that a client had looked up and from which it fetched up to a batch."""
        if key not in self._looked_up:
            self._looked_up[key] = self._looked_up_by(self._coverages.get(key, ()))
        return self._looked_up[key].get((row.event.connection, row.event.sent_ns))

    def _looked_up_by(self, coverages: Iterable[Coverage]) -> dict[tuple[int, int], int]:
        """Return connection and time of a Fetch request → the offset at which its client began."""
        found: dict[tuple[int, int], int] = {}
        runs: dict[Client, tuple[Coverage, int | None]] = {}
        for row in coverages:
            event = row.event
            latest, position = runs.get(event.client, (None, None))
            if latest is not None and sent_ns(latest) == event.sent_ns:
                continue  # the same request, which also begins at an offset that was looked up
            if latest is None or row.first_offset != latest.last_offset + 1:
                times = self._lookups.get((row.partition, row.first_offset, event.client), ())
                since_ns = -1 if latest is None else latest.event.sent_ns
                is_looked_up = any(since_ns < each < event.sent_ns for each in times)
                position = row.first_offset if is_looked_up else None
            runs[event.client] = row, position
            if position is not None:
                found[event.connection, event.sent_ns] = position
        return found

    @cached_property
    def _looked_up(self) -> dict[GroupPartition, dict[tuple[int, int], int]]:
        return {}

    @cached_property
    def _coverages(self) -> dict[GroupPartition, View[Coverage]]:
        return _coverages(self._history)

    @cached_property
    def _lookups(self) -> dict[tuple[Partition, int, Client], list[int]]:
        found: dict[tuple[Partition, int, Client], list[int]] = defaultdict(list)
        for each in self._history.lookups:
            found[each.partition, each.offset, each.event.client].append(each.event.sent_ns)
        return found

    @cached_property
    def _removals(self) -> dict[GroupPartition, list[int]]:
        return removal_times(self._history)


def _delivered_twice(
    positions: _Positions,
    key: GroupPartition,
    part: Range,
    earlier: Delivery,
    row: Delivery,
) -> Finding:
    is_other = earlier.member != row.member or earlier.event.client != row.event.client
    latest = positions.latest_commit(key, row.event.sent_ns)
    was_committed = latest is not None and latest.commit.offset > part.first
    client, position = row.event.client, positions.looked_up(key, row)
    if position is not None and (latest is not None or not is_other):
        cause, reason = OFFSET_RESET, f"{client} looked up offset {position} and fetched from there"
        if latest is not None and positions.was_removed(key, latest, row.event.sent_ns):
            gone = f"its committed offset {latest.commit.offset} was gone"
            cause, reason = EXPIRED_OFFSET, f"{gone}, so {reason}"
    elif _is_unclear(earlier, row):
        cause = UNCLEAR_MEMBER
        reason = f"one of the members that are {client} had fetched the same records before"
    elif is_other:
        # Without a commit, the next member begins at an offset that it looks up.
        cause, reason = REBALANCE, f"{client} fetched the same records after {earlier.event.client}"
    else:
        cause, reason = POSITION_MOVED_BACK, f"{client} had fetched the same records before"
    committed = (
        f", although the group had committed offset {latest.commit.offset}"
        if latest is not None and was_committed and cause != EXPIRED_OFFSET
        else ""
    )
    return Finding(
        rule=DELIVERED_TWICE,
        severity=Severity.WARNING if was_committed else Severity.NOTE,
        text=f"group {key.group} got {part} of {key.partition} again: {reason}{committed}",
        cause=cause,
        partition=key.partition,
        offsets=part,
        group=key.group,
        client=client,
        records=part.last - part.first + 1,
        proofs=(earlier.event.proof, row.event.proof),
    )


def _is_unclear(earlier: Delivery, row: Delivery) -> bool:
    """Return whether two deliveries to a client may be those of two members with its id."""
    return (
        earlier.event.client == row.event.client
        and earlier.event.connection != row.event.connection
        and (earlier.member is None or row.member is None)
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
        is_committed = outcomes.is_committed(row.partition, row.batch, row.last_offset, None)
        if is_committed is not False:
            continue
        marker = outcomes.marker_after(row.partition, row.batch.producer_id, row.last_offset)
        assert marker is not None, "it says that the transaction was aborted"
        reader = f"{row.event.client}" + ("" if row.group is None else f" of group {row.group}")
        mode = "read_committed" if row.is_read_committed else "read_uncommitted"
        offsets = Range(row.first_offset, row.last_offset)
        yield Finding(
            rule=ABORTED_READ,
            severity=Severity.VIOLATION if row.is_read_committed else Severity.WARNING,
            text=f"{reader} got {offsets} of {row.partition} with {mode}, although the transaction "
            f"was aborted",
            cause=NOT_LISTED if row.is_read_committed else READ_UNCOMMITTED,
            partition=row.partition,
            offsets=offsets,
            group=row.group,
            client=row.event.client,
            records=row.last_offset - row.first_offset + 1,
            proofs=(row.event.proof, marker.event.proof),
        )


def unread(history: History) -> Iterator[Finding]:
    """Yield acknowledged records that no consumer of the history got."""
    outcomes = TransactionOutcomes(history)
    fetched = grouped(history.coverages, lambda row: row.partition)
    shared = grouped(history.deliveries, lambda row: row.partition if row.is_shared else None)
    for partition, writes in history.acknowledged().items():
        rows: Iterator[Coverage | Delivery] = chain(
            fetched.get(partition, ()), shared.get(partition, ())
        )
        ranges = merged(Range(each.first_offset, each.last_offset) for each in rows)
        rest = (
            part
            for write in writes
            if not _is_aborted(outcomes, write)
            for part in without(Range(write.first_offset, write.last_offset), ranges)
        )
        for part in merged(rest):
            last = writes[bisect_right(writes, part.last, key=_first_offset) - 1]
            yield Finding(
                rule=UNREAD,
                severity=Severity.NOTE,
                text=f"no consumer got {part} of {partition}, acknowledged to {last.event.client}",
                cause="not fetched",
                partition=partition,
                offsets=part,
                records=part.last - part.first + 1,
                proofs=(last.event.proof,),
            )


def _first_offset(row: Write | Coverage) -> int:
    return row.first_offset


def _start_offset(deletion: RecordDeletion) -> int:
    return deletion.start_offset


def _offset(commit: Commit) -> int:
    return commit.offset
