"""Planted anomalies: each function adds one to a cluster, and returns the expected finding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker import (
    commit_rules,
    delivery_rules,
    log_rules,
    retry_rules,
    transaction_rules,
)
from kafkalite.lab.checker.findings import DELAYED_REQUEST
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.lab.checker.expected import PARTITION, Expected
from tests.unit.lab.checker.planted_shares import PLANTED_SHARES
from tests.unit.lab.checker.simulation import TestProducer

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.unit.lab.checker.simulation import SimulatedCluster

GROUP: Final = "planted"


def retried_without_idempotence(cluster: SimulatedCluster, random: Random) -> Expected:
    # A producer without idempotence sends a batch again whose answer was lost.
    producer = TestProducer(cluster.peer("plain"))
    records = random.randint(1, 5)
    batch = cluster.batch(producer, PARTITION, records)
    cluster.append(PARTITION, batch)
    cluster.send(producer, PARTITION, batch, None, is_answered=False)
    producer.peer = cluster.reconnect(producer.peer)
    cluster.send(producer, PARTITION, batch, cluster.append(PARTITION, batch))
    cluster.fetch(cluster.peer("reader"), PARTITION, 0)
    return Expected(log_rules.DUPLICATE, log_rules.RETRY_WITHOUT_IDEMPOTENCE, records)


def repeated_sequence(cluster: SimulatedCluster, random: Random) -> Expected:
    # The broker appends a batch of an idempotent producer again.
    producer = cluster.producer(cluster.peer("idempotent"))
    records = random.randint(1, 5)
    batch = cluster.batch(producer, PARTITION, records)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, cluster.append(PARTITION, batch))
    return Expected(log_rules.DUPLICATE, log_rules.REPEATED_SEQUENCE, records)


def truncated(cluster: SimulatedCluster, random: Random) -> Expected:
    # The log loses an acknowledged batch, and another one gets its offset.
    producer = cluster.producer(cluster.peer("truncated"))
    records = random.randint(1, 5)
    offset = cluster.produce(producer, PARTITION, records)
    cluster.logs[PARTITION].pop()
    cluster.ends[PARTITION] = offset
    cluster.produce(producer, PARTITION, records)
    return Expected(log_rules.OVERWRITTEN, log_rules.TRUNCATION, records)


def overtaken(cluster: SimulatedCluster, random: Random) -> Expected:
    # A producer sends two batches; the first one is refused and then sent again.
    producer = TestProducer(cluster.peer("overtaken"))
    records = random.randint(1, 5)
    first = cluster.batch(producer, PARTITION, records)
    second = cluster.batch(producer, PARTITION, 1)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.send(producer, PARTITION, first, None, error=error)
    cluster.send(producer, PARTITION, second, cluster.append(PARTITION, second))
    cluster.send(producer, PARTITION, first, cluster.append(PARTITION, first))
    return Expected(log_rules.REORDERED, "retry with several requests in flight", records)


def zombie_producer(cluster: SimulatedCluster, random: Random) -> Expected:
    # An instance writes after a newer one has the transactional id.
    old = cluster.producer(cluster.peer("old"), "planted")
    new = replace(old, peer=cluster.peer("new"), epoch=1)
    cluster.start(new)
    records = random.randint(1, 5)
    cluster.produce(old, PARTITION, records)
    return Expected(log_rules.ZOMBIE_WRITE, log_rules.FENCED_PRODUCER, records)


def skipped_by_commit(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer commits past records that it never fetched.
    producer = cluster.producer(cluster.peer("skipping"))
    reader = cluster.peer("skipping reader", "s-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    position = cluster.fetch(reader, PARTITION, 0)
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.commit(reader, GROUP, PARTITION, position + records)
    return Expected(delivery_rules.LOST, delivery_rules.SKIPPED_BY_COMMIT, records)


def reset_to_latest(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer looks up the end of the log, and fetches from there.
    producer = cluster.producer(cluster.peer("resetting"))
    reader = cluster.peer("resetting reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, 0)
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    end = cluster.ends[PARTITION]
    cluster.look_up(reader, PARTITION, -1, end)
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, end)
    return Expected(delivery_rules.LOST, delivery_rules.OFFSET_RESET, records)


def missing_in_log(cluster: SimulatedCluster, random: Random) -> Expected:
    # The broker leaves out an acknowledged batch.
    producer = cluster.producer(cluster.peer("missing"))
    reader = cluster.peer("missing reader", "m-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    records = random.randint(1, 5)
    offset = cluster.produce(producer, PARTITION, records)
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, 0, skipped=frozenset((offset,)))
    return Expected(delivery_rules.LOST, delivery_rules.MISSING_IN_LOG, records)


def rewound(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer gets records again that it has committed.
    producer = cluster.producer(cluster.peer("rewound"))
    reader = cluster.peer("rewound reader", "w-1")
    cluster.heartbeat(reader, GROUP)
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.commit(reader, GROUP, PARTITION, cluster.fetch(reader, PARTITION, 0))
    cluster.fetch(reader, PARTITION, 0)
    return Expected(delivery_rules.DELIVERED_TWICE, delivery_rules.POSITION_MOVED_BACK, records)


def reset_after_expiry(cluster: SimulatedCluster, random: Random) -> Expected:
    # The committed offset of a group expires, so its next member begins at the start of the log.
    producer = cluster.producer(cluster.peer("sleeping"))
    reader = cluster.peer("sleeping reader", "e-1")
    cluster.heartbeat(reader, GROUP)
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.commit(reader, GROUP, PARTITION, cluster.fetch(reader, PARTITION, 0))
    returned = cluster.peer(random.choice(("sleeping reader", "returned reader")), "e-2")
    cluster.heartbeat(returned, GROUP)
    cluster.fetch_offset(returned, GROUP, PARTITION, -1)
    cluster.look_up(returned, PARTITION, -2, 0)
    cluster.fetch(returned, PARTITION, 0)
    return Expected(delivery_rules.DELIVERED_TWICE, delivery_rules.EXPIRED_OFFSET, records)


def reset_to_earliest(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer looks up the start of the log, and reads committed records again in two steps.
    producer = cluster.producer(cluster.peer("resetting"))
    reader = cluster.peer("earliest reader", "r-2")
    cluster.heartbeat(reader, GROUP)
    records = random.randint(2, 5)
    for _ in range(records):
        cluster.produce(producer, PARTITION)
    cluster.commit(reader, GROUP, PARTITION, cluster.fetch(reader, PARTITION, 0))
    cluster.look_up(reader, PARTITION, -2, 0)
    cluster.fetch(reader, PARTITION, 0, skipped=frozenset(range(1, records)))
    cluster.fetch(reader, PARTITION, 1)
    return Expected(delivery_rules.DELIVERED_TWICE, delivery_rules.OFFSET_RESET, records)


def aborted_read(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer with read_uncommitted gets the records of an aborted transaction.
    producer = cluster.producer(cluster.peer("aborting"), "aborting")
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.end(producer, is_commit=False)
    cluster.mark(producer, PARTITION, is_commit=False)
    cluster.fetch(cluster.peer("uncommitted reader"), PARTITION, 0, is_read_committed=False)
    return Expected(delivery_rules.ABORTED_READ, delivery_rules.READ_UNCOMMITTED, records)


def unlisted_abort(cluster: SimulatedCluster, random: Random) -> Expected:
    # An answer with read_committed does not list an aborted transaction.
    producer = cluster.producer(cluster.peer("aborting"), "aborting")
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.end(producer, is_commit=False)
    cluster.mark(producer, PARTITION, is_commit=False)
    cluster.fetch(cluster.peer("committed reader"), PARTITION, 0, lists_aborted=False)
    return Expected(delivery_rules.ABORTED_READ, delivery_rules.NOT_LISTED, records)


def torn_by_markers(cluster: SimulatedCluster, random: Random) -> Expected:
    # A transaction is committed in one partition and aborted in another one.
    producer = cluster.producer(cluster.peer("torn"), "torn")
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.produce(producer, PARTITION + 1, records)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.mark(producer, PARTITION + 1, is_commit=False)
    reader = cluster.peer("torn reader")
    cluster.fetch(reader, PARTITION, 0)
    cluster.fetch(reader, PARTITION + 1, 0)
    return Expected(transaction_rules.TORN, transaction_rules.DIFFERENT_MARKERS, 2 * records)


def other_outcome(cluster: SimulatedCluster, random: Random) -> Expected:
    # A transaction that was answered with a commit is aborted.
    producer = cluster.producer(cluster.peer("other"), "other")
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=False)
    cluster.fetch(cluster.peer("other reader"), PARTITION, 0)
    return Expected(transaction_rules.TORN, transaction_rules.OTHER_OUTCOME, records)


def split_transaction(cluster: SimulatedCluster, random: Random) -> Expected:
    # A marker is between two batches of a transaction.
    producer = cluster.producer(cluster.peer("split"), "split")
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION, records)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.produce(producer, PARTITION, records)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.fetch(cluster.peer("split reader"), PARTITION, 0)
    return Expected(transaction_rules.TORN, transaction_rules.SPLIT, 2 * records)


def delayed_end(cluster: SimulatedCluster, _: Random) -> Expected:
    # EndTxn arrives after its client has begun another transaction on another connection.
    producer = cluster.producer(cluster.peer("delayed"), "delayed")
    cluster.produce(producer, PARTITION)
    old, producer.peer = producer.peer, cluster.reconnect(producer.peer)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.produce(producer, PARTITION)
    cluster.end(producer, is_commit=True, peer=old)
    cluster.mark(producer, PARTITION, is_commit=True)
    return Expected(transaction_rules.DELAYED_END, DELAYED_REQUEST, 1)


def delayed_end_without_effect(cluster: SimulatedCluster, _: Random) -> Expected:
    # EndTxn arrives late, but its client has not begun another transaction.
    producer = cluster.producer(cluster.peer("delayed"), "delayed")
    cluster.produce(producer, PARTITION)
    old, producer.peer = producer.peer, cluster.reconnect(producer.peer)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.end(producer, is_commit=True, peer=old)
    return Expected(transaction_rules.DELAYED_END, DELAYED_REQUEST, 0)


def delayed_addition(cluster: SimulatedCluster, _: Random) -> Expected:
    # AddPartitionsToTxn arrives after its client has ended the transaction on another connection.
    producer = cluster.producer(cluster.peer("delayed"), "delayed")
    old, producer.peer = producer.peer, cluster.reconnect(producer.peer)
    cluster.add_partition(producer, PARTITION)
    cluster.add_partition(producer, PARTITION, peer=old)  # the same transaction, so no anomaly
    cluster.produce(producer, PARTITION)
    cluster.end(producer, is_commit=True)
    cluster.mark(producer, PARTITION, is_commit=True)
    cluster.add_partition(producer, PARTITION, peer=old)
    return Expected(transaction_rules.DELAYED_ADDITION, DELAYED_REQUEST, 0)


def impatient_retry(cluster: SimulatedCluster, random: Random) -> Expected:
    # An idempotent producer does not wait for the answer to its request.
    producer = cluster.producer(cluster.peer("impatient"))
    records = random.randint(1, 5)
    batch = cluster.batch(producer, PARTITION, records)
    offset, sent_ns = cluster.append(PARTITION, batch), cluster.now()
    for delay_ns in (0, 1):
        cluster.send(producer, PARTITION, batch, offset, sent_ns=sent_ns + delay_ns)
    return Expected(retry_rules.USELESS_RETRY, retry_rules.IMPATIENT, records)


def refused_again(cluster: SimulatedCluster, random: Random) -> Expected:
    # A producer sends a batch again that is too large.
    producer = cluster.producer(cluster.peer("stubborn"))
    records = random.randint(1, 5)
    batch = cluster.batch(producer, PARTITION, records)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, None, error=ErrorCode.MESSAGE_TOO_LARGE)
    return Expected(retry_rules.USELESS_RETRY, retry_rules.FATAL, records)


def commit_refused_again(cluster: SimulatedCluster, _: Random) -> Expected:
    # A member that was removed repeats its commit.
    reader = cluster.peer("removed reader", "v-1")
    for offset in (5, 5):
        cluster.commit(reader, GROUP, PARTITION, offset, error=ErrorCode.UNKNOWN_MEMBER_ID)
    return Expected(retry_rules.USELESS_RETRY, retry_rules.FATAL, 0)


def other_incarnation_write(cluster: SimulatedCluster, random: Random) -> Expected:
    # A producer continues in a topic that was deleted and created again.
    producer = cluster.producer(cluster.peer("continuing"))
    records = random.randint(1, 5)
    cluster.produce(producer, PARTITION)
    cluster.recreate_topic(cluster.peer("administrator"))
    cluster.produce(producer, PARTITION, records)
    return Expected(log_rules.OTHER_INCARNATION, log_rules.RECREATED_TOPIC, records)


def delayed_commit(cluster: SimulatedCluster, random: Random) -> Expected:
    # OffsetCommit arrives after its client has opened another connection.
    old = cluster.peer("delayed reader", "d-1")
    cluster.heartbeat(old, GROUP)
    reader = cluster.reconnect(old)
    records = random.randint(1, 5)
    cluster.commit(reader, GROUP, PARTITION, 10 + records)
    cluster.commit(old, GROUP, PARTITION, 10)
    return Expected(commit_rules.REGRESSION, DELAYED_REQUEST, records)


def moved_back(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer commits a lower offset than before.
    reader = cluster.peer("back reader", "b-1")
    records = random.randint(1, 5)
    cluster.commit(reader, GROUP, PARTITION, 10 + records)
    cluster.commit(reader, GROUP, PARTITION, 10)
    return Expected(commit_rules.REGRESSION, commit_rules.MOVED_BACK, records)


def retried_commit(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer repeats a commit that was refused, after it has committed a higher offset.
    reader = cluster.peer("retrying reader", "y-1")
    records = random.randint(1, 5)
    cluster.commit(reader, GROUP, PARTITION, 10, error=ErrorCode.NOT_COORDINATOR)
    cluster.commit(reader, GROUP, PARTITION, 10 + records)
    cluster.commit(reader, GROUP, PARTITION, 10)
    return Expected(commit_rules.REGRESSION, commit_rules.RETRIED, records)


def late_commit(cluster: SimulatedCluster, random: Random) -> Expected:
    # A member commits again, after another member has committed a higher offset.
    records = random.randint(1, 5)
    old = cluster.peer("old owner", "o-1")
    cluster.commit(old, GROUP, PARTITION, 9)
    cluster.commit(cluster.peer("new owner", "n-1"), GROUP, PARTITION, 10 + records)
    cluster.commit(old, GROUP, PARTITION, 10)
    return Expected(commit_rules.REGRESSION, commit_rules.EARLIER_OWNER, records)


def zombie_commit(cluster: SimulatedCluster, _: Random) -> Expected:
    # A member commits after another member fetched from its partition.
    producer = cluster.producer(cluster.peer("zombie writer"))
    cluster.produce(producer, PARTITION)
    old, new = cluster.peer("zombie", "z-1"), cluster.peer("owner", "z-2")
    for reader in (old, new):
        cluster.heartbeat(reader, GROUP)
        cluster.fetch(reader, PARTITION, 0)
    cluster.commit(old, GROUP, PARTITION, 1)
    return Expected(commit_rules.ZOMBIE_COMMIT, commit_rules.EARLIER_OWNER, 0)


def commit_given_up(cluster: SimulatedCluster, random: Random) -> Expected:
    # A commit without an answer takes effect after a later one.
    reader = cluster.peer("impatient reader", "i-1")
    records = random.randint(1, 5)
    cluster.commit(reader, GROUP, PARTITION, 10, is_answered=False, is_effective=False)
    cluster.commit(reader, GROUP, PARTITION, 10 + records)
    cluster.fetch_offset(reader, GROUP, PARTITION, 10)
    return Expected(commit_rules.CONTRADICTED, DELAYED_REQUEST, records)


def commit_lost(cluster: SimulatedCluster, random: Random) -> Expected:
    # The broker forgets an accepted commit.
    reader = cluster.peer("forgotten reader", "f-1")
    records = random.randint(1, 5)
    cluster.commit(reader, GROUP, PARTITION, 10)
    cluster.commit(reader, GROUP, PARTITION, 10 + records)
    cluster.fetch_offset(reader, GROUP, PARTITION, 10)
    return Expected(commit_rules.CONTRADICTED, commit_rules.LOST_COMMIT, records)


def other_incarnation(cluster: SimulatedCluster, _: Random) -> Expected:
    # A consumer commits an offset of a topic that was deleted and created again.
    producer = cluster.producer(cluster.peer("recreating"))
    reader = cluster.peer("recreated reader", "c-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    position = cluster.fetch(reader, PARTITION, 0)
    cluster.recreate_topic(cluster.peer("administrator"))
    cluster.commit(reader, GROUP, PARTITION, position)
    return Expected(commit_rules.OTHER_INCARNATION, commit_rules.RECREATED_TOPIC, 0)


def position_of_deleted_topic(cluster: SimulatedCluster, random: Random) -> Expected:
    # A consumer continues at its position in a topic that was deleted and created again.
    reader = cluster.peer("continuing reader", "p-1")
    cluster.heartbeat(reader, GROUP)
    records = random.randint(1, 5)
    cluster.produce(cluster.producer(cluster.peer("first writer")), PARTITION, records)
    position = cluster.fetch(reader, PARTITION, 0)
    cluster.recreate_topic(cluster.peer("administrator"))
    writer = cluster.producer(cluster.peer("second writer"))
    cluster.produce(writer, PARTITION, records)
    cluster.produce(writer, PARTITION)
    cluster.fetch(reader, PARTITION, position)
    return Expected(delivery_rules.LOST, delivery_rules.RECREATED_TOPIC, records)


PLANTED: Final[tuple[Callable[[SimulatedCluster, Random], Expected], ...]] = (
    retried_without_idempotence,
    repeated_sequence,
    truncated,
    overtaken,
    zombie_producer,
    skipped_by_commit,
    reset_to_latest,
    missing_in_log,
    rewound,
    reset_after_expiry,
    reset_to_earliest,
    aborted_read,
    unlisted_abort,
    torn_by_markers,
    other_outcome,
    split_transaction,
    delayed_end,
    delayed_end_without_effect,
    delayed_addition,
    impatient_retry,
    refused_again,
    commit_refused_again,
    other_incarnation_write,
    delayed_commit,
    moved_back,
    retried_commit,
    late_commit,
    zombie_commit,
    commit_given_up,
    commit_lost,
    other_incarnation,
    position_of_deleted_topic,
    *PLANTED_SHARES,
)
"""One anomaly of each kind."""
