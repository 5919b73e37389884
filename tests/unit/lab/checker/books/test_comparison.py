"""Every planted anomaly of books is found, and books that lost nothing have none."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.checker.books import comparison
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Severity
from kafkalite.storage.batch import LOG_APPEND_TIME
from kafkalite.transactions.state import TransactionState
from tests.unit.lab.checker.books.planted_books import KEY, PLANTED_BOOKS
from tests.unit.lab.checker.books.simulated_books import (
    add_state,
    books_of,
    with_other_checksum,
)
from tests.unit.lab.checker.expected import PARTITION, Expected
from tests.unit.lab.checker.regular_traffic import run_regular_traffic
from tests.unit.lab.checker.simulation import SimulatedCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.checker.books.model import Books
    from kafkalite.lab.checker.findings import CheckResult
    from tests.unit.lab.checker.books.planted_books import Planted

HISTORIES = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 40


def found_in(cluster: SimulatedCluster, books: Books) -> list[Expected]:
    """Return the findings above a note."""
    return [
        Expected(each.rule, each.cause, each.records)
        for each in check(cluster.history(), books).findings
        if each.severity is not Severity.NOTE
    ]


def undecided_of(result: CheckResult) -> dict[str, int]:
    return {each.reason: each.count for each in result.undecided}


@pytest.mark.parametrize("plant", PLANTED_BOOKS, ids=[each.__name__ for each in PLANTED_BOOKS])
def test_a_planted_anomaly_is_found(
    plant: Callable[[SimulatedCluster, Random], Planted],
) -> None:
    cluster = SimulatedCluster()
    books, expected = plant(cluster, Random(7))  # noqa: S311 - repeatable
    assert sorted(found_in(cluster, books)) == sorted(expected)


def test_anomalies_are_found_among_regular_traffic_and_no_others() -> None:
    """Two of three histories have an anomaly after regular traffic."""
    for seed in range(HISTORIES):
        random, cluster = Random(seed), SimulatedCluster()  # noqa: S311 - repeatable
        run_regular_traffic(cluster, random, steps=4)
        if seed % 3:
            books, expected = PLANTED_BOOKS[seed % len(PLANTED_BOOKS)](cluster, random)
        else:
            books, expected = books_of(cluster), []
        found = [each for each in found_in(cluster, books) if "coordinator" not in each.cause]
        assert sorted(found) == sorted(expected), f"seed {seed}"


def test_a_log_may_have_other_timestamps_than_the_request() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION)
    books = books_of(cluster)
    (own,) = books.logs[KEY].batches
    header = replace(own.batch, attributes=LOG_APPEND_TIME)
    books.logs[KEY].batches = [with_other_checksum(replace(own, batch=header))]
    assert check(cluster.history(), books).violations == ()


def test_what_other_directories_have_is_undecided() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION)
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, "shop", PARTITION, 1)
    books = books_of(cluster)
    books.groups.clear()
    assert undecided_of(check(cluster.history(), books)) == {comparison.UNKNOWN_GROUPS: 1}
    del books.logs[KEY]
    result = check(cluster.history(), books)
    assert result.violations == ()
    assert undecided_of(result) == {comparison.OTHER_DIRECTORIES: 2}


def test_records_that_retention_deleted_are_undecided() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    for _ in range(2):
        cluster.produce(producer, PARTITION)
    books = books_of(cluster)
    books.logs[KEY].start_offset = 1
    del books.logs[KEY].batches[0]
    result = check(cluster.history(), books)
    assert result.violations == ()
    assert undecided_of(result) == {comparison.DELETED_RECORDS: 1}


def test_a_later_commit_of_the_books_confirms_an_earlier_one() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, 9)
    cluster.commit(cluster.peer("reader", "r-1"), "shop", PARTITION, 5)
    books = books_of(cluster)
    (own,) = books.commits
    books.commits[:] = [replace(own, offset=7, at_ms=10_000_000)]
    assert check(cluster.history(), books).violations == ()


def test_a_finding_names_the_answer_and_the_place_in_the_log() -> None:
    cluster = SimulatedCluster()
    books, _ = PLANTED_BOOKS[3](cluster, Random(1))  # noqa: S311 - repeatable
    (finding,) = check(cluster.history(), books).violations
    assert [str(each) for each in finding.proofs] == [
        "orders.pcapng:0 (writer > node, request 1)",
        f"data/orders-{PARTITION}/00000000000000000000.log:0 (offset 0)",
    ]
    assert finding.as_json()["proofs"][1] == {
        "file": f"data/orders-{PARTITION}/00000000000000000000.log",
        "position": 0,
        "log_offset": 0,
    }


def test_a_broker_may_stop_before_it_has_written_the_markers_of_a_transaction() -> None:
    """Kafka answers EndTxn when the decision is written; after a restart it writes the markers."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"), "bookish")
    cluster.produce(producer, PARTITION)
    cluster.commit(cluster.peer("reader", "r-1"), "shop", PARTITION, 1, producer=producer)
    cluster.end(producer, is_commit=True)
    books = books_of(cluster)
    books.groups.add("shop")
    books.commits.clear()
    add_state(books, producer, (PARTITION,), TransactionState.PREPARE_COMMIT)
    assert found_in(cluster, books) == []
