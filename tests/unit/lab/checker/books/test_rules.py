"""Rules about the books alone, beyond the planted anomalies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkalite.lab.checker.books import rules
from kafkalite.lab.checker.books.model import LoggedShareState
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.commit_rules import REGRESSION
from kafkalite.lab.checker.findings import Finding, Severity
from kafkalite.lab.checker.history import History
from kafkalite.lab.checker.share_rules import NOT_PROCESSED
from kafkalite.shares.state import DeliveryState, ShareKey, StateBatch
from kafkalite.transactions.state import TransactionState
from tests.unit.lab.checker.books.planted_books import KEY
from tests.unit.lab.checker.books.simulated_books import TOPIC_ID, add_state, books_of, proof
from tests.unit.lab.checker.expected import PARTITION
from tests.unit.lab.checker.simulation import SimulatedCluster


@pytest.mark.parametrize(
    ("state", "severity", "cause"),
    [
        (TransactionState.ONGOING, Severity.NOTE, rules.ONGOING),
        (TransactionState.COMPLETE_ABORT, Severity.VIOLATION, rules.HANGING),
        (None, Severity.WARNING, rules.NO_COORDINATOR),
    ],
)
def test_an_open_transaction_must_be_known(
    state: TransactionState | None, severity: Severity, cause: str
) -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"), "payments")
    cluster.produce(producer, PARTITION, 3)
    books = books_of(cluster)
    if state is not None:
        add_state(books, producer, (PARTITION,), state)
    (finding,) = check(History.empty(), books).findings
    assert (finding.severity, finding.cause, finding.records) == (severity, cause, 3)


def test_a_position_before_the_start_of_the_log_is_a_warning() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    for _ in range(4):
        cluster.produce(producer, PARTITION)
    cluster.commit(cluster.peer("reader", "r-1"), "shop", PARTITION, 1)
    books = books_of(cluster)
    log = books.logs[KEY]
    log.start_offset, log.batches = 3, log.batches[3:]
    (finding,) = check(History.empty(), books).findings
    assert (finding.severity, finding.cause, finding.records) == (
        Severity.WARNING, rules.BEFORE_START, 2,
    )  # fmt: skip


def test_a_committed_offset_that_went_back_is_a_note() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, 9)
    for offset in (9, 4):
        cluster.commit(cluster.peer("reader", "r-1"), "shop", PARTITION, offset)
    (finding,) = check(History.empty(), books_of(cluster)).findings
    assert (finding.rule, finding.severity, finding.records) == (REGRESSION, Severity.NOTE, 5)


def share_findings(*batches: StateBatch) -> list[Finding]:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, 3)
    books = books_of(cluster)
    key = ShareKey("sharers", TOPIC_ID, PARTITION)
    books.shares[key] = LoggedShareState(key, 0, batches, proof(0))
    return [*check(History.empty(), books).findings]


def test_archived_records_were_not_processed() -> None:
    (finding,) = share_findings(StateBatch(0, 1, DeliveryState.ARCHIVED, 5))
    assert (finding.rule, finding.records) == (NOT_PROCESSED, 2)


def test_a_state_of_records_past_the_end_of_the_log_is_a_violation() -> None:
    (finding,) = share_findings(StateBatch(0, 4, DeliveryState.ACKNOWLEDGED, 1))
    assert (finding.rule, finding.cause, finding.records) == (rules.POSITION, rules.PAST_END, 2)


def test_an_incomplete_end_is_a_warning() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION)
    books = books_of(cluster)
    books.logs[KEY] = replace(books.logs[KEY], damage=proof(1))
    (finding,) = check(History.empty(), books).findings
    assert (finding.severity, finding.cause) == (Severity.WARNING, rules.AT_END)
