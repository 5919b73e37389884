"""Planted anomalies of books: each function adds one, and returns the expected finding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker import delivery_rules, log_rules, transaction_rules
from kafkalite.lab.checker.books import comparison, rules
from kafkalite.lab.checker.books.model import LogKey
from kafkalite.shares.state import DeliveryState
from kafkalite.transactions.state import TransactionState
from tests.unit.lab.checker.books.simulated_books import (
    add_state,
    books_of,
    proof,
    with_other_checksum,
    without_batch,
)
from tests.unit.lab.checker.expected import PARTITION, Expected
from tests.unit.lab.checker.share_simulation import SimulatedShareGroup
from tests.unit.lab.checker.simulation import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kafkalite.lab.checker.books.model import Books
    from tests.unit.lab.checker.simulation import SimulatedCluster

KEY: Final = LogKey(TOPIC, PARTITION)
Planted = tuple["Books", list[Expected]]
_COMMIT: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def lost_end(cluster: SimulatedCluster, random: Random) -> Planted:
    # The log ends before an acknowledged batch.
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION)
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    books = books_of(cluster)
    without_batch(books, PARTITION, -1)
    return books, [Expected(comparison.NOT_IN_BOOKS, comparison.RECORDS, records)]


def lost_within(cluster: SimulatedCluster, random: Random) -> Planted:
    # An acknowledged batch within the log is missing, which the log alone shows, too.
    producer = cluster.producer(cluster.peer("writer"))
    records = random.randint(1, 5)
    for each in (1, records, 1):
        cluster.produce(producer, PARTITION, each)
    books = books_of(cluster)
    without_batch(books, PARTITION, 1)
    return books, [
        Expected(comparison.NOT_IN_BOOKS, comparison.RECORDS, records),
        Expected(delivery_rules.LOST, delivery_rules.MISSING_IN_LOG, records),
    ]


def replaced(cluster: SimulatedCluster, random: Random) -> Planted:
    # The log has records of another producer at the offset of an acknowledged batch.
    producer = cluster.producer(cluster.peer("writer"))
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    books = books_of(cluster)
    (own,) = books.logs[KEY].batches
    books.logs[KEY].batches = [replace(own, batch=replace(own.batch, producer_id=99))]
    return books, [Expected(comparison.NOT_IN_BOOKS, comparison.OTHER_RECORDS, records)]


def altered(cluster: SimulatedCluster, random: Random) -> Planted:
    # The log has other bytes in an acknowledged batch.
    producer = cluster.producer(cluster.peer("writer"))
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    books = books_of(cluster)
    (own,) = books.logs[KEY].batches
    books.logs[KEY].batches = [with_other_checksum(own)]
    return books, [Expected(comparison.NOT_IN_BOOKS, comparison.ALTERED, records)]


def lost_commit(cluster: SimulatedCluster, random: Random) -> Planted:
    # The last accepted commit is not in the log of offsets.
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, 9)
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, "bookish", PARTITION, 1)
    cluster.commit(reader, "bookish", PARTITION, random.randint(2, 9))
    books = books_of(cluster)
    books.commits.remove(next(each for each in reversed(books.commits) if each.group == "bookish"))
    return books, [Expected(comparison.NOT_IN_BOOKS, comparison.COMMIT, 0)]


def lost_marker(cluster: SimulatedCluster, _: Random) -> Planted:
    # A transaction was committed, but the log has no marker, and the coordinator completed it.
    producer = cluster.producer(cluster.peer("writer"), "bookish")
    cluster.produce(producer, PARTITION)
    cluster.end(producer, is_commit=True)
    books = books_of(cluster)
    add_state(books, producer, (PARTITION,), *_COMMIT)
    return books, [
        Expected(comparison.NOT_IN_BOOKS, comparison.MARKER, 0),
        Expected(transaction_rules.TORN, rules.MISSING_MARKER, 0),
        Expected(rules.OPEN_TRANSACTION, rules.HANGING, 1),
    ]


def aborted_in_one(cluster: SimulatedCluster, random: Random) -> Planted:
    # The markers of a transaction are different in two partitions.
    producer = cluster.producer(cluster.peer("writer"), "bookish")
    records = random.randint(1, 5)
    for partition in (PARTITION, PARTITION + 1):
        cluster.produce(producer, partition, records)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.mark(producer, PARTITION + 1, is_commit=False)
    books = books_of(cluster)
    add_state(books, producer, (PARTITION, PARTITION + 1), *_COMMIT)
    return books, [
        Expected(transaction_rules.TORN, transaction_rules.DIFFERENT_MARKERS, 2 * records),
        Expected(transaction_rules.TORN, transaction_rules.DIFFERENT_MARKERS, 0),
    ]


def lost_acceptance(cluster: SimulatedCluster, random: Random) -> Planted:
    # The state of a share group does not have an acceptance.
    records = random.randint(1, 5)
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, records)
    group, sharer = SimulatedShareGroup(cluster, "bookish", PARTITION), cluster.peer("sharer", "s")
    group.join(sharer)
    group.acknowledge(sharer, group.fetch(sharer))
    books = books_of(cluster)
    for key, share in books.shares.items():
        if key.group_id == "bookish":
            available = tuple(
                each._replace(delivery_state=DeliveryState.AVAILABLE) for each in share.batches
            )
            books.shares[key] = replace(share, batches=available)
    # Each record was acknowledged on its own.
    expected = Expected(comparison.NOT_IN_BOOKS, comparison.ACKNOWLEDGEMENT, 1)
    return books, [expected] * records


def repeated(cluster: SimulatedCluster, random: Random) -> Planted:
    # A batch is in the log twice.
    producer = cluster.producer(cluster.peer("writer"))
    records = random.randint(1, 5)
    batch = cluster.batch(producer, PARTITION, records)
    for _ in (0, 1):
        cluster.append(PARTITION, batch)
    return books_of(cluster), [Expected(log_rules.DUPLICATE, log_rules.REPEATED_SEQUENCE, records)]


def past_the_end(cluster: SimulatedCluster, random: Random) -> Planted:
    # A group has committed an offset that the log does not have.
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION)
    records = random.randint(1, 5)
    cluster.commit(cluster.peer("reader", "r-1"), "bookish", PARTITION, 1 + records)
    return books_of(cluster), [Expected(rules.POSITION, rules.PAST_END, records)]


def damaged_within(cluster: SimulatedCluster, _: Random) -> Planted:
    # A batch within the log has a wrong checksum.
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION)
    books = books_of(cluster)
    books.logs[KEY].damage = proof(1)
    books.logs[KEY].is_damaged_within = True
    return books, [Expected(rules.DAMAGED, rules.WITHIN, 0)]


PLANTED_BOOKS: Final[tuple[Callable[[SimulatedCluster, Random], Planted], ...]] = (
    lost_end,
    lost_within,
    replaced,
    altered,
    lost_commit,
    lost_marker,
    aborted_in_one,
    lost_acceptance,
    repeated,
    past_the_end,
    damaged_within,
)
"""One anomaly of each kind."""
