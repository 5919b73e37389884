"""State of transactions after a restart of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import split_batches
from tests.conformance.scenarios.commits import fetch
from tests.conformance.setup import create_topic, wait_for_group_coordinator, wait_for_leader
from tests.conformance.transactional_producer import (
    NEW,
    OLD,
    Protocol,
    Transactor,
    describe,
    describe_producers,
    end,
    init_producer_id,
    latest,
    markers,
    read,
    start_producer,
    wait_for_state,
    wait_for_transaction_coordinator,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_PROTOCOLS = {"old": OLD, "new": NEW}
_FENCED_BY = 1000


def prepare(cluster: ScenarioCluster) -> dict[str, Transactor]:
    """Create transactional ids in every persistent state, in both protocols."""
    create_topic(cluster, cluster.name, partitions=3)
    create_topic(cluster, f"{cluster.name}-stuck", partitions=2)
    producers = {}
    for label, protocol in _PROTOCOLS.items():
        wait_for_group_coordinator(cluster, f"{cluster.name}-{label}")
        for state in ("empty", "committed", "aborted", "open", "decided"):
            name = f"{cluster.name}-{label}-{state}"
            producers[f"{label} {state}"] = start_producer(cluster, protocol, name)
        _leave(cluster, producers, label, protocol)
    return producers


def _leave(
    cluster: ScenarioCluster, producers: dict[str, Transactor], label: str, protocol: Protocol
) -> None:
    group = f"{cluster.name}-{label}"
    for state in ("committed", "aborted"):
        producer = producers[f"{label} {state}"]
        producer.begin(0, 1)
        if protocol is OLD:
            producer.add_offsets(group)
        producer.commit_offsets(group, 7, 1)
        producer.end(is_commit=state == "committed")
    producer = producers[f"{label} open"]
    producer.begin(1, 2)
    if protocol is OLD:
        producer.add_offsets(group)
    producer.commit_offsets(group, 9, 0)
    # Its partition has a marker of a higher coordinator epoch, so the transaction stays prepared.
    producer, topic = producers[f"{label} decided"], f"{cluster.name}-stuck"
    partition = int(protocol is NEW)
    producer.begin(partition, topic=topic)
    request = markers(producer.newer, {topic: [partition]}, coordinator_epoch=_FENCED_BY)
    cluster.ask(request, 1)
    cluster.ask(end(producer.transactional_id, producer.producer, is_commit=True), protocol.end)
    wait_for_state(cluster, producer.transactional_id, "PrepareCommit")


def inspect(cluster: ScenarioCluster, producers: dict[str, Transactor]) -> None:
    """Describe everything, continue open transactions, and start new ones."""
    for topic, partitions in ((cluster.name, 3), (f"{cluster.name}-stuck", 2)):
        wait_for_leader(cluster, topic, partitions)
    names = [each.transactional_id for each in producers.values()]
    wait_for_transaction_coordinator(cluster, *names)
    for label in _PROTOCOLS:
        wait_for_group_coordinator(cluster, f"{cluster.name}-{label}")
    cluster.ask(describe(*names), 0)
    _look(cluster)
    for label in _PROTOCOLS:
        _go_on(producers[f"{label} open"])
        _come_back(cluster, producers[f"{label} decided"])
        for state in ("empty", "committed", "aborted"):
            producer = producers[f"{label} {state}"]
            cluster.ask(init_producer_id(producer.transactional_id, producer.older), 5)
            producer.init(producer.producer)
            producer.begin()
            producer.commit()
    _look(cluster)


def _go_on(producer: Transactor) -> None:
    """Write to a partition that is in the transaction already, and to one that is not."""
    producer.write(partition=1, sequence=1)
    producer.write(partition=1, sequence=1)
    producer.write(partition=2, sequence=5)
    for step in (-1, 1):
        producer.write(partition=1, sequence=2, producer=producer.at(step))
    producer.begin(0)
    producer.commit()


def _come_back(cluster: ScenarioCluster, producer: Transactor) -> None:
    for step in (0, 1):
        cluster.ask(end(producer.transactional_id, producer.at(step), is_commit=True), 4)
        cluster.ask(init_producer_id(producer.transactional_id, producer.at(step)), 5)


def _look(cluster: ScenarioCluster) -> None:
    for topic, partitions in ((cluster.name, (0, 1, 2)), (f"{cluster.name}-stuck", (0, 1))):
        cluster.ask(latest(topic, *partitions), 7)
        cluster.ask(latest(topic, *partitions, isolation=0), 7)
        cluster.ask(describe_producers(topic, *partitions), 0)
        for partition in partitions:
            _read(cluster, topic, partition)
    for label in _PROTOCOLS:
        request = fetch(f"{cluster.name}-{label}", cluster.name, 0, 1)
        cluster.ask(request, 8)
        request.require_stable = True
        cluster.ask(request, 8)


def _read(cluster: ScenarioCluster, topic: str, partition: int) -> None:
    """Note the response to a read_committed fetch, without leader epochs."""
    (row,) = cluster.probe(read(topic, partition=partition), 11).responses[0].partitions
    cluster.record(f"{topic}-{partition}", ErrorCode(row.error_code).name)
    for view in split_batches(bytes(row.records or b"")):
        who = cluster.symbol("producer_id", view.producer_id)
        cluster.record(
            f"the batch at {view.base_offset}",
            [who, view.producer_epoch, view.base_sequence, view.attributes, view.record_count],
        )
    for one in row.aborted_transactions:
        who = cluster.symbol("producer_id", one.producer_id)
        cluster.record("aborted", [who, one.first_offset])
