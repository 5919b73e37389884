"""Rules about retries, beyond the planted anomalies: retries that have a reason."""

from __future__ import annotations

from kafkalite.lab.checker import retry_rules
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Severity
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.lab.checker.expected import PARTITION
from tests.unit.lab.checker.simulation import SimulatedCluster


def test_a_batch_whose_answer_was_perhaps_lost_is_a_note() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    batch = cluster.batch(producer, PARTITION, 2)
    offset = cluster.append(PARTITION, batch)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, offset)
    (finding,) = check(cluster.history()).of_rule(retry_rules.USELESS_RETRY)
    assert (finding.severity, finding.cause) == (Severity.NOTE, retry_rules.SUCCEEDED)
    assert finding.text == (
        f"writer at 10.0.0.1 sent 2 records of orders-{PARTITION} again after they had been "
        "acknowledged"
    )


def test_a_retry_after_a_retriable_error_has_a_reason() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    batch = cluster.batch(producer, PARTITION, 2)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert check(cluster.history()).of_rule(retry_rules.USELESS_RETRY) == ()


def test_a_retry_that_gets_another_error_was_not_useless() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    batch = cluster.batch(producer, PARTITION, 2)
    for error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
        cluster.send(producer, PARTITION, batch, None, error=error)
    assert check(cluster.history()).of_rule(retry_rules.USELESS_RETRY) == ()
