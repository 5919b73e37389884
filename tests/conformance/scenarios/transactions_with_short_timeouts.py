"""Transactions on brokers with short timeouts: they time out, and unused ids expire.

The brokers check several times a second for transactions that took too long, for unused
transactional ids and for idle producers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.commits import fetch
from tests.conformance.scenarios.transactional_records import note_states
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    describe,
    describe_producers,
    in_both_protocols,
    init_producer_id,
    latest,
    read,
    start_producer,
    wait_for_state,
    wait_for_transaction_coordinator,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.scenario_cluster import ScenarioCluster

_EXPIRES_MS = 5_000
SHORT_TIMEOUTS: Mapping[str, str] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "transactional.id.expiration.ms": str(_EXPIRES_MS),
    "producer.id.expiration.ms": str(_EXPIRES_MS),
    "producer.id.expiration.check.interval.ms": "300",
}
"""The additional settings of these brokers."""

_TIMEOUT_MS = 600
_PAUSE_S = 0.1
_PATIENCE_S = 12.0


def _timed_out(
    cluster: ScenarioCluster, protocol: Protocol, name: str = ""
) -> tuple[Transactor, Producer]:
    """Leave a transaction open until it times out; return its producer with id and epoch."""
    producer = start_producer(cluster, protocol, name, timeout_ms=_TIMEOUT_MS)
    producer.begin()
    wait_for_state(cluster, producer.transactional_id, "CompleteAbort")
    return producer, producer.producer


def open_transactions_time_out(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer, late = _timed_out(cluster, protocol)
    cluster.ask(read(cluster.name), 11)
    for version in range(4):
        producer.with_versions(add=version).add(producer=late)
    for version in (3, 10, 11, 12):
        producer.with_versions(produce=version).write(producer=late, sequence=1)
    for version in range(5):
        producer.with_versions(add_offsets=version).add_offsets(cluster.name, late)
        for is_commit in (COMMIT, ABORT):
            producer.with_versions(end=version).end(is_commit=is_commit, producer=late)
    cluster.ask(describe_producers(cluster.name), 0)
    for version in (3, 4, 5):
        cluster.ask(init_producer_id(cluster.name, late), version)
    producer.init()
    producer.begin()
    producer.commit()
    note_states(cluster, cluster.name, is_alone=False)


def transactions_are_ended_after_their_timeout(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    """Abort and commit after the timeout: the abort counts as a repetition, the commit does not."""
    create_topic(cluster, cluster.name)
    for is_commit in (ABORT, COMMIT):
        for version in (4, 5):
            name = f"{cluster.name}-{is_commit:d}-{version}"
            producer, late = _timed_out(cluster, protocol, name)
            speaker = producer.with_versions(end=version)
            speaker.end(is_commit=is_commit, producer=late)
            speaker.end(is_commit=is_commit, producer=late)
            speaker.end(is_commit=is_commit)
            speaker.init(speaker.producer)


def writes_do_not_extend_the_transaction_timeout(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    producer = start_producer(cluster, protocol, timeout_ms=_TIMEOUT_MS)
    producer.begin()
    sequence, code = 1, 0
    deadline = time.monotonic() + _PATIENCE_S
    while code == 0 and time.monotonic() < deadline:
        request = write(cluster.name, producer.producer, cluster.name, sequence=sequence)
        answer = cluster.probe(request, protocol.produce)
        code = answer.responses[0].partition_responses[0].error_code
        sequence += 1
        time.sleep(_PAUSE_S)
    cluster.record("refused in the end", ErrorCode(code).name)
    wait_for_state(cluster, cluster.name, "CompleteAbort")


def idle_producers_do_not_time_out(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    idle = start_producer(cluster, NEW, f"{cluster.name}-idle", timeout_ms=1)
    ended = start_producer(cluster, NEW, f"{cluster.name}-ended", timeout_ms=_TIMEOUT_MS)
    ended.begin()
    ended.commit()
    _timed_out(cluster, NEW)
    for producer in (idle, ended):
        cluster.ask(describe(producer.transactional_id), 0)
    ended.begin()
    ended.commit()


def pending_offsets_are_dropped_with_their_transaction(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, protocol, timeout_ms=_TIMEOUT_MS)
    if not producer.is_new:
        producer.add_offsets(cluster.name)
    producer.commit_offsets(cluster.name)
    stable = fetch(cluster.name, cluster.name, 0)
    stable.require_stable = True
    cluster.ask(stable, 8)
    wait_for_state(cluster, cluster.name, "CompleteAbort")
    cluster.ask(stable, 8)
    producer.commit_offsets(cluster.name)


def _gone(cluster: ScenarioCluster, name: str) -> None:
    """Wait until a transactional id has expired."""

    def is_gone(found: Any) -> bool:  # noqa: ANN401 - any response class
        (row,) = found.transaction_states
        return bool(row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    cluster.call_until(describe(name), 0, is_gone)


def unused_ids_expire(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    names = [f"{cluster.name}-{state}" for state in ("empty", "committed", "aborted", "open")]
    producers = [start_producer(cluster, protocol, name) for name in names]
    for producer in producers[1:]:
        producer.begin()
    producers[1].commit()
    producers[2].abort()
    for name in names[:3]:
        _gone(cluster, name)
    cluster.ask(describe(names[3]), 0)
    for producer in producers[:3]:
        producer.add()
        producer.add_offsets(cluster.name)
        for version in (4, 5):
            producer.with_versions(end=version).end(is_commit=COMMIT)
            producer.with_versions(end=version).end(is_commit=ABORT)
        producer.write(sequence=5)
    note_states(cluster, *names, is_alone=False)
    for producer in producers[:3]:
        producer.init(producer.producer)
        producer.begin()
        producer.commit()
    producers[3].commit()


def an_id_in_use_does_not_expire(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_transaction_coordinator(cluster, f"{cluster.name}-idle")
    start_producer(cluster, OLD, f"{cluster.name}-idle")
    start_producer(cluster, OLD)
    deadline = time.monotonic() + _PATIENCE_S
    is_there = True
    while is_there and time.monotonic() < deadline:
        cluster.probe(init_producer_id(cluster.name), 5)
        (row,) = cluster.probe(describe(f"{cluster.name}-idle"), 0).transaction_states
        is_there = row.error_code == ErrorCode.NONE
        time.sleep(_PAUSE_S)
    cluster.record("the idle one is there", is_there)
    response = cluster.probe(describe(cluster.name), 0).transaction_states[0]
    cluster.record("the other is", response.transaction_state)


def idle_producers_of_partitions_expire(cluster: ScenarioCluster) -> None:
    """Expire idle producers, except those with an open transaction."""
    create_topic(cluster, cluster.name)
    first = start_producer(cluster, OLD, f"{cluster.name}-a")
    second = start_producer(cluster, OLD, f"{cluster.name}-b")
    for producer in (first, second):
        producer.begin()
        producer.write(sequence=1)
    first.commit()
    cluster.ask(describe_producers(cluster.name), 0)
    cluster.call_until(
        describe_producers(cluster.name),
        0,
        lambda found: len(found.topics[0].partitions[0].active_producers) == 1,
    )
    cluster.ask(latest(cluster.name), 7)
    second.write(sequence=2)
    second.abort()
    request = write(None, first.producer, cluster.name, sequence=7, attributes=0)
    cluster.ask(request, 11)
    cluster.ask(describe_producers(cluster.name), 0)


WAITING = (
    *in_both_protocols(open_transactions_time_out),
    *in_both_protocols(transactions_are_ended_after_their_timeout),
    *in_both_protocols(writes_do_not_extend_the_transaction_timeout),
    idle_producers_do_not_time_out,
    *in_both_protocols(pending_offsets_are_dropped_with_their_transaction),
    *in_both_protocols(unused_ids_expire),
    an_id_in_use_does_not_expire,
    idle_producers_of_partitions_expire,
)
