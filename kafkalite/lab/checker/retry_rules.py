"""Rules about useless retries: requests that had succeeded before, or cannot succeed."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import Outcome, Range
from kafkalite.lab.checker.log_rules import repeated_attempts
from kafkalite.ports.texts import count_text
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.history import Commit, History, Write

USELESS_RETRY: Final = "useless retry"

SUCCEEDED: Final = "succeeded before"
IMPATIENT: Final = "sent again before the answer"
FATAL: Final = "refused for good"

_RETRIABLE: Final = frozenset(
    (
        *(int(each) for each in ErrorCode if each.retriable),
        int(ErrorCode.REBALANCE_IN_PROGRESS),
        int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    )
)
"""Errors after which the same request may succeed, as after a rebalance or an earlier batch."""


def useless_retries(history: History) -> Iterator[Finding]:
    """Yield retries of batches and commits that could not change anything.

    A batch of an idempotent producer is in the log after its first attempt succeeded; the broker
    only repeats the answer (KIP-98). A retry after an error that is not retriable, by Kafka's
    `Errors`, gets the same error.
    """
    for (_, content), writes in repeated_attempts(history).items():
        for earlier, later in pairwise(writes):
            is_same = content[0] >= 0 and earlier.first_offset == later.first_offset
            if earlier.is_acknowledged and later.is_acknowledged and is_same:
                yield _write(
                    earlier,
                    later,
                    _reason(earlier, later),
                    Range(later.first_offset, later.last_offset),
                )
            elif content[0] >= 0 and _is_fatal(earlier, later):
                yield _write(earlier, later, FATAL, None)
    for commits in _equal_commits(history):
        for earlier_commit, later_commit in pairwise(commits):
            if _is_fatal(earlier_commit, later_commit):
                yield _commit(earlier_commit, later_commit)


def _reason(earlier: Write, later: Write) -> str:
    is_impatient = (earlier.event.answered_ns or 0) > later.event.sent_ns
    return IMPATIENT if is_impatient else SUCCEEDED


def _is_fatal(earlier: Write | Commit, later: Write | Commit) -> bool:
    """Return whether a request was sent again after a final error, and got the same error."""
    error = earlier.error_code
    return (
        earlier.outcome is later.outcome is Outcome.REFUSED
        and error == later.error_code
        and error not in _RETRIABLE
        and (earlier.event.answered_ns or 0) < later.event.sent_ns
    )


def _equal_commits(history: History) -> Iterator[list[Commit]]:
    found: dict[tuple[object, ...], list[Commit]] = defaultdict(list)
    for each in history.commits:
        key = (
            each.group, each.member, each.generation, each.partition, each.offset,
            each.producer_id, each.event.client,
        )  # fmt: skip
        found[key].append(each)
    yield from found.values()


def _write(earlier: Write, later: Write, cause: str, offsets: Range | None) -> Finding:
    batch, client = later.batch, later.event.client
    reasons = {
        SUCCEEDED: "after they had been acknowledged",
        IMPATIENT: "before the answer that acknowledged them",
        FATAL: f"after the error {error_name(later.error_code)}, which is not retriable",
    }
    return Finding(
        rule=USELESS_RETRY,
        severity=Severity.NOTE if cause == SUCCEEDED else Severity.WARNING,
        text=f"{client} sent {count_text(batch.records, 'record')} of {later.partition} again "
        f"{reasons[cause]}",
        cause=cause,
        partition=later.partition,
        offsets=offsets,
        transactional_id=later.transactional_id,
        client=client,
        records=batch.records,
        proofs=(earlier.event.proof, later.event.proof),
    )


def _commit(earlier: Commit, later: Commit) -> Finding:
    return Finding(
        rule=USELESS_RETRY,
        severity=Severity.WARNING,
        text=f"{later.event.client} committed offset {later.offset} of {later.partition} for group "
        f"{later.group} again after the error {error_name(later.error_code)}, which is not "
        "retriable",
        cause=FATAL,
        partition=later.partition,
        group=later.group,
        transactional_id=later.transactional_id,
        client=later.event.client,
        proofs=(earlier.event.proof, later.event.proof),
    )
