"""Rules about share groups: what they delivered, and what their members acknowledged (KIP-932)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.effective_commits import GroupPartition
from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import Acknowledgement, Delivery, Outcome, Range, merged, without
from kafkalite.lab.checker.packed_rows import grouped
from kafkalite.lab.checker.range_map import RangeMap
from kafkalite.lab.checker.share_rows import ALL_GROUPS
from kafkalite.lab.checker.transaction_outcomes import TransactionOutcomes
from kafkalite.shares.acknowledgement import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.history import (
        Client,
        History,
        LogProof,
        Partition,
        Proof,
        ShareReset,
        ShareSessionUse,
    )

DELIVERED_AFTER_END: Final = "delivered after its acknowledgement"
TOO_MANY_DELIVERIES: Final = "delivered too often"
STALE_ACKNOWLEDGEMENT: Final = "late acknowledgement"
NEVER_DELIVERED: Final = "skipped by a share group"
NOT_PROCESSED: Final = "not processed"
REDELIVERED: Final = "delivered again by a share group"

ACCEPTED: Final = "accepted before"
REJECTED: Final = "rejected"
OVER_LIMIT: Final = "delivery limit exceeded"
OVER_DEFAULT: Final = "default delivery limit exceeded"
OTHER_HOLDER: Final = "another member has the records"
OLD_SESSION: Final = "older session epoch"
NOT_ACQUIRED: Final = "never acquired"
AT_LIMIT: Final = "delivery limit"
RELEASED: Final = "released"
LOCK_ENDED: Final = "acquisition lock ended"

DEFAULT_LIMIT: Final = 5
"""Default of `group.share.delivery.count.limit`."""

_FINAL_TYPES: Final = frozenset((AcknowledgeType.ACCEPT, AcknowledgeType.REJECT))
_Step = Delivery | Acknowledgement


@dataclass(slots=True)
class _Records:
    """What is known about the records of a partition in a share group."""

    held: RangeMap[Delivery] = field(default_factory=RangeMap)
    """The latest delivery of each record."""
    ended: RangeMap[Acknowledgement] = field(default_factory=RangeMap)
    """The acknowledgement that accepted or rejected each record."""
    released: RangeMap[bool] = field(default_factory=RangeMap)
    """Whether the latest acknowledgement since the delivery released the record."""


def share_deliveries(history: History) -> Iterator[Finding]:
    """Yield records that were delivered after their end, and those that were delivered again.

    A record that was accepted or rejected is not available any more. A fetch that was sent before
    the acknowledgement was answered decides it only if the delivery count has grown.
    """
    for key, steps in _timelines(history).items():
        records = _Records()
        for step in steps:
            if isinstance(step, Delivery):
                yield from _delivery(key, records, step)
            elif step.outcome is Outcome.ACCEPTED:
                _acknowledge(records, step)


def _timelines(history: History) -> dict[GroupPartition, list[_Step]]:
    """Return deliveries and acknowledgements of share groups in the order of their answers.

    A ShareFetch request with acknowledgements acquires records after them. An administrator who
    resets a group begins another timeline, so that only the steps after the reset are returned.
    """
    resets: dict[tuple[str, str], int] = {}
    for reset in history.share_resets:
        resets[reset.group, reset.topic] = _reset_ns(reset)
    found: dict[GroupPartition, list[_Step]] = defaultdict(list)
    shared = (each for each in history.deliveries if each.is_shared)
    rows: Iterator[_Step] = chain(history.acknowledgements, shared)
    for row in rows:
        since_ns = resets.get((row.group or "", row.partition.topic), -1)
        if row.event.answered_ns is not None and row.event.sent_ns > since_ns:
            found[GroupPartition(row.group or "", row.partition)].append(row)
    for steps in found.values():
        steps.sort(key=_answered_ns)
    return found


def _reset_ns(reset: ShareReset) -> int:
    return reset.event.answered_ns or reset.event.sent_ns


def _answered_ns(step: _Step) -> int:
    return step.event.answered_ns or 0


def _acknowledge(records: _Records, step: Acknowledgement) -> None:
    whole = Range(step.first_offset, step.last_offset)
    if step.type in _FINAL_TYPES:
        records.ended[whole] = step
    elif step.type == AcknowledgeType.RELEASE:
        records.released[whole] = True


def _delivery(key: GroupPartition, records: _Records, row: Delivery) -> Iterator[Finding]:
    whole = Range(row.first_offset, row.last_offset)
    for part, end in records.ended.overlapping(whole):
        before = next((each for _, each in records.held.overlapping(part)), None)
        has_grown = before is not None and row.delivery_count > before.delivery_count
        if row.event.sent_ns > _answered_ns(end) or has_grown:
            yield _after_end(key, part, end, row)
    for part, before in records.held.overlapping(whole):
        if [*records.ended.overlapping(part)]:
            continue
        is_released = any(value for _, value in records.released.overlapping(part))
        yield _again(key, part, before, row, is_released=is_released)
    records.held[whole] = row
    records.released[whole] = False


def _after_end(key: GroupPartition, part: Range, end: Acknowledgement, row: Delivery) -> Finding:
    is_accepted = end.type == AcknowledgeType.ACCEPT
    verb = "accepted" if is_accepted else "rejected"
    return _finding(
        DELIVERED_AFTER_END,
        Severity.VIOLATION,
        ACCEPTED if is_accepted else REJECTED,
        key,
        part,
        row.event.client,
        f"{row.event.client} got {_named(key, part)}, although {end.event.client} had {verb} the "
        "records",
        (end.event.proof, row.event.proof),
    )


def _again(
    key: GroupPartition, part: Range, before: Delivery, row: Delivery, *, is_released: bool
) -> Finding:
    reason = "the records were released" if is_released else "the acquisition lock ended"
    return _finding(
        REDELIVERED,
        Severity.NOTE,
        RELEASED if is_released else LOCK_ENDED,
        key,
        part,
        row.event.client,
        f"{row.event.client} got {_named(key, part)} after {before.event.client}, because {reason}",
        (before.event.proof, row.event.proof),
    )


def share_delivery_counts(history: History) -> Iterator[Finding]:
    """Yield deliveries whose count is over the limit of the share group.

    Without a request that names the limit, the default is assumed, which decides less.
    """
    for row in history.deliveries:
        group = row.group or ""
        known = _known_limit(history, group)
        limit = DEFAULT_LIMIT if known is None else known
        if row.delivery_count <= limit:
            continue
        key, part = GroupPartition(group, row.partition), Range(row.first_offset, row.last_offset)
        name = "the default" if known is None else "its limit"
        yield _finding(
            TOO_MANY_DELIVERIES,
            Severity.WARNING if known is None else Severity.VIOLATION,
            OVER_DEFAULT if known is None else OVER_LIMIT,
            key,
            part,
            row.event.client,
            f"{row.event.client} got {_named(key, part)} as delivery number {row.delivery_count}, "
            f"but {name} is {limit} deliveries",
            (row.event.proof,),
        )


def _known_limit(history: History, group: str) -> int | None:
    return history.delivery_limits.get(group, history.delivery_limits.get(ALL_GROUPS))


def late_acknowledgements(history: History) -> Iterator[Finding]:
    """Yield accepted acknowledgements of records that another member had got in the meantime.

    The acquisition lock of the first member has ended then, and the broker has to refuse them.
    """
    for key, steps in _timelines(history).items():
        held: RangeMap[Delivery] = RangeMap()
        for step in steps:
            whole = Range(step.first_offset, step.last_offset)
            if isinstance(step, Delivery):
                held[whole] = step
                continue
            if step.outcome is not Outcome.ACCEPTED or step.type == AcknowledgeType.GAP:
                continue
            for part, latest in held.overlapping(whole):
                if latest.member != step.member and _answered_ns(latest) < step.event.sent_ns:
                    yield _late(key, part, latest, step)


def _late(key: GroupPartition, part: Range, latest: Delivery, step: Acknowledgement) -> Finding:
    return _finding(
        STALE_ACKNOWLEDGEMENT,
        Severity.VIOLATION,
        OTHER_HOLDER,
        key,
        part,
        step.event.client,
        f"{step.event.client} acknowledged {_named(key, part)}, after {latest.event.client} had "
        "got the records",
        (latest.event.proof, step.event.proof),
    )


def stale_share_sessions(history: History) -> Iterator[Finding]:
    """Yield accepted requests of share sessions with an older epoch than one before.

    The epoch of a session grows with each request, and a broker refuses every other one.
    """
    latest: dict[tuple[str, str, str], ShareSessionUse] = {}
    for use in history.share_session_uses:
        if use.outcome is not Outcome.ACCEPTED:
            continue
        key = use.group, use.member, use.event.broker
        before = latest.get(key)
        if (
            before is not None
            and 0 < use.session_epoch <= before.session_epoch
            and (before.event.answered_ns or 0) < use.event.sent_ns
        ):
            yield Finding(
                rule=STALE_ACKNOWLEDGEMENT,
                severity=Severity.VIOLATION,
                text=f"a request of {use.event.client} with epoch {use.session_epoch} of its share "
                f"session in group {use.group} was accepted after one with epoch "
                f"{before.session_epoch}",
                cause=OLD_SESSION,
                group=use.group,
                client=use.event.client,
                proofs=(before.event.proof, use.event.proof),
            )
            continue
        latest[key] = use


def skipped_by_share_groups(history: History) -> Iterator[Finding]:
    """Yield acknowledged records between delivered ones that a share group never delivered.

    A share group delivers a partition in order (KIP-932), so the records before the last delivered
    one were delivered, or are those of aborted transactions or compacted topics, or were deleted.
    An answer that the history does not have decides nothing, because it may have the records.
    """
    outcomes, acknowledged = TransactionOutcomes(history), history.acknowledged()
    lossy = {each.group for each in history.share_session_uses if each.outcome is Outcome.UNKNOWN}
    reset = {(each.group, each.topic) for each in history.share_resets}
    starts = _log_starts(history)
    rows_by_key = grouped(
        history.deliveries,
        lambda row: (
            GroupPartition(row.group, row.partition)
            if row.is_shared and row.group is not None
            else None
        ),
    )
    for key, rows in rows_by_key.items():
        topic = key.partition.topic
        if key.group in lossy or (key.group, topic) in reset or topic in history.compacted_topics:
            continue
        covered = merged(Range(row.first_offset, row.last_offset) for row in rows)
        known = merged([*covered, Range(0, starts[key.partition] - 1)])
        for write in acknowledged.get(key.partition, ()):
            batch = write.batch
            whole = Range(
                max(write.first_offset, covered[0].first), min(write.last_offset, covered[-1].last)
            )
            if whole.first > whole.last or (
                batch.is_transactional
                and not outcomes.is_committed(
                    write.partition, batch, write.last_offset, write.event
                )
            ):
                continue
            for part in without(whole, known):
                later = next(row for row in rows if row.first_offset > part.last)
                yield _finding(
                    NEVER_DELIVERED,
                    Severity.VIOLATION,
                    NOT_ACQUIRED,
                    key,
                    part,
                    later.event.client,
                    f"no member got {_named(key, part)}, acknowledged to {write.event.client}, "
                    f"although {later.event.client} got later records",
                    (write.event.proof, later.event.proof),
                )


def _log_starts(history: History) -> dict[Partition, int]:
    """Return the offsets before which administrators deleted all records."""
    found: dict[Partition, int] = defaultdict(int)
    for each in history.record_deletions:
        found[each.partition] = max(found[each.partition], each.start_offset)
    return found


def not_processed(history: History) -> Iterator[Finding]:
    """Yield records that a share group gave up: rejected ones, and those at the delivery limit."""
    for key, steps in _timelines(history).items():
        records = _Records()
        for step in steps:
            if isinstance(step, Delivery):
                whole = Range(step.first_offset, step.last_offset)
                records.held[whole] = step
                records.released[whole] = False
            elif step.outcome is Outcome.ACCEPTED:
                _acknowledge(records, step)
        yield from _rejected(key, records)
        yield from _at_limit(history, key, records)


def _rejected(key: GroupPartition, records: _Records) -> Iterator[Finding]:
    for part, end in records.ended.items():
        if end.type == AcknowledgeType.REJECT:
            text = f"{end.event.client} rejected {_named(key, part)}"
            proofs = (end.event.proof,)
            yield _finding(
                NOT_PROCESSED, Severity.NOTE, REJECTED, key, part, end.event.client, text, proofs
            )


def _at_limit(history: History, key: GroupPartition, records: _Records) -> Iterator[Finding]:
    known = _known_limit(history, key.group)
    limit = DEFAULT_LIMIT if known is None else known
    for part, is_released in records.released.items():
        for own, row in records.held.overlapping(part):
            is_ended = bool([*records.ended.overlapping(own)])
            if not is_released or is_ended or row.delivery_count < limit:
                continue
            yield _finding(
                NOT_PROCESSED,
                Severity.NOTE if known is None else Severity.WARNING,
                AT_LIMIT,
                key,
                own,
                row.event.client,
                f"{row.event.client} released {_named(key, own)} after {row.delivery_count} "
                "deliveries, so the group gave up the records",
                (row.event.proof,),
            )


def _named(key: GroupPartition, part: Range) -> str:
    return f"{part} of {key.partition} in share group {key.group}"


def _finding(  # noqa: PLR0917 - private
    rule: str,
    severity: Severity,
    cause: str,
    key: GroupPartition,
    part: Range,
    client: Client,
    text: str,
    proofs: tuple[Proof | LogProof, ...],
) -> Finding:
    partition: Partition = key.partition
    return Finding(
        rule=rule,
        severity=severity,
        text=text,
        cause=cause,
        partition=partition,
        offsets=part,
        group=key.group,
        client=client,
        records=part.last - part.first + 1,
        proofs=proofs,
    )
