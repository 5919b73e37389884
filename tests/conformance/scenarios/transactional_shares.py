"""Transactions read by share groups: open ones wait, aborted ones are not delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.scenarios.share_fetching import ACCEPT, FIRST, GAP, V, shared_topic
from tests.conformance.setup import fill
from tests.conformance.transactional_producer import (
    NEW,
    OLD,
    Transactor,
    wait_for_transaction_coordinator,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenarios.share_fetching import Shared
    from tests.conformance.transactional_producer import Protocol

COMMITTED = {"share.isolation.level": "read_committed"}


def _ready(
    cluster: ScenarioCluster, protocol: Protocol = NEW, *, committed: bool = True
) -> tuple[Shared, Transactor]:
    """Return a share group, and a producer that writes to its topic."""
    shared = shared_topic(cluster, config=COMMITTED if committed else None)
    wait_for_transaction_coordinator(cluster, cluster.name)
    producer = Transactor(cluster, cluster.name, protocol)
    producer.init()
    return shared, producer


def records_of_open_transactions_are_not_delivered(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster)
    fill(cluster, shared.topic, b"plain")
    producer.write(b"a", b"b", topic=shared.topic)
    fill(cluster, shared.topic, b"behind")
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    cluster.ask(shared.fetch("m", 1, acks={0: [(0, 0, [ACCEPT])]}), V)
    producer.commit()
    cluster.ask(shared.fetch("m", 2), V)
    cluster.ask(shared.ack("m", 3, (1, 2, [ACCEPT]), (3, 3, [ACCEPT]), (4, 4, [GAP])), V)
    shared.note_state()


def aborted_records_are_not_delivered(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster)
    producer.write(b"a", b"b", topic=shared.topic)
    fill(cluster, shared.topic, b"between")
    producer.write(b"c", topic=shared.topic, sequence=2)
    producer.abort()
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    shared.note_state()
    producer.write(b"d", topic=shared.topic)
    producer.commit()
    cluster.ask(shared.fetch("m", 1), V)
    cluster.ask(shared.ack("m", 2, (2, 2, [ACCEPT]), (4, 4, [GAP])), V)
    cluster.ask(shared.ack("m", 3, (5, 5, [ACCEPT]), (6, 6, [GAP])), V)
    shared.note_state()


def only_aborted_records_deliver_nothing(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster)
    producer.write(b"a", b"b", topic=shared.topic)
    producer.abort()
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    shared.note_state()
    fill(cluster, shared.topic, b"later")
    cluster.ask(shared.fetch("m", 1), V)
    shared.note_state()


def a_client_of_the_old_protocol_writes_for_a_share_group(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster, OLD)
    producer.add(topic=shared.topic)
    producer.write(b"a", topic=shared.topic)
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    producer.commit()
    cluster.ask(shared.fetch("m", 1), V)
    producer.add(topic=shared.topic)
    producer.write(b"b", topic=shared.topic, sequence=1)
    producer.abort()
    cluster.ask(shared.fetch("m", 2), V)
    shared.note_state()


def a_group_that_reads_uncommitted_gets_all(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster, committed=False)
    producer.write(b"a", b"b", topic=shared.topic)
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    producer.abort()
    producer.write(b"c", topic=shared.topic)
    cluster.ask(shared.fetch("m", 1), V)
    shared.note_state()


def transactions_interleave_before_a_share_group(cluster: ScenarioCluster) -> None:
    shared, producer = _ready(cluster)
    wait_for_transaction_coordinator(cluster, f"{cluster.name}-2")
    other = Transactor(cluster, f"{cluster.name}-2", NEW)
    other.init()
    producer.write(b"a1", topic=shared.topic)
    other.write(b"b1", topic=shared.topic)
    producer.write(b"a2", topic=shared.topic, sequence=1)
    other.commit()
    cluster.ask(shared.fetch("m", FIRST, 0), V)
    producer.abort()
    cluster.ask(shared.fetch("m", 1), V)
    shared.note_state()
    cluster.ask(shared.fetch("n", FIRST, 0), V)


SCENARIOS = (
    records_of_open_transactions_are_not_delivered,
    aborted_records_are_not_delivered,
    only_aborted_records_deliver_nothing,
    a_client_of_the_old_protocol_writes_for_a_share_group,
    a_group_that_reads_uncommitted_gets_all,
    transactions_interleave_before_a_share_group,
)
