"""Transactions from their first partition to their end: states and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    OLDEST,
    Producer,
    Protocol,
    Transactor,
    add,
    add_for_broker,
    add_offsets,
    broker_transaction,
    describe,
    end,
    in_both_protocols,
    init_producer_id,
    latest,
    markers,
    read,
    start_producer,
    wait_for_state,
    wait_for_transaction_coordinator,
    wait_until_complete,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_cluster import ScenarioCluster

_ADD_VERSIONS = range(4)
_TOGETHER_VERSIONS = (4, 5)
_OFFSETS_VERSIONS = range(5)
_END_VERSIONS = range(6)
_FENCED_BY = 1000
"""A coordinator epoch higher than that of any coordinator."""


def a_transaction_is_committed(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    producer = start_producer(cluster, protocol)
    producer.begin(0, 1)
    producer.write(b"a", b"b", sequence=1)
    cluster.ask(describe(cluster.name), 0)
    producer.commit()
    for partition in (0, 1):
        cluster.ask(read(cluster.name, partition=partition), 11)
    producer.begin(1)
    cluster.ask(latest(cluster.name, 0, 1), 7)
    producer.commit()
    cluster.ask(latest(cluster.name, 0, 1), 7)


def a_transaction_is_aborted(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    producer = start_producer(cluster, protocol)
    for is_commit in (ABORT, COMMIT, ABORT, ABORT):
        producer.begin(1, 0)
        producer.end(is_commit=is_commit)
    for partition in (0, 1):
        cluster.ask(read(cluster.name, partition=partition), 11)


def the_first_versions_of_transactions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, OLDEST)
    for is_commit in (COMMIT, ABORT):
        producer.begin()
        producer.add_offsets(cluster.name)
        producer.commit_offsets(cluster.name)
        producer.end(is_commit=is_commit)
    cluster.ask(read(cluster.name), 4)


def partitions_are_added_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=4)
    for version in _ADD_VERSIONS:
        producer = start_producer(cluster, OLD._replace(add=version), f"{cluster.name}-{version}")
        for partitions in ((0,), (0,), (1, 0), (2, 3), (1, 1)):
            producer.add(*partitions)
            cluster.ask(describe(producer.transactional_id), 0)
        empty = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer.producer_id,
            v3_and_below_producer_epoch=producer.producer.producer_epoch,
        )
        cluster.ask(empty, version)
        producer.commit()
        cluster.ask(empty, version)
        cluster.ask(describe(producer.transactional_id), 0)


def nothing_is_added_when_a_partition_is_unknown(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    missing = f"{cluster.name}-missing"
    for version in _ADD_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD, name).producer
        for partitions in (
            {missing: [0]},
            {missing: [0, 3], cluster.name: [0, 1]},
            {cluster.name: [0, 2]},
            {cluster.name: [-1]},
            {"in valid": [0], cluster.name: [1]},
            {"": [0]},
        ):
            cluster.ask(add(name, producer, partitions), version)
            cluster.ask(describe(name), 0)


def internal_topics_are_refused_in_transactions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, OLD)
    for topic in ("__consumer_offsets", "__transaction_state"):
        for version in _ADD_VERSIONS:
            for partitions in ({topic: [0]}, {topic: [0], cluster.name: [0]}, {topic: [99]}):
                cluster.ask(add(cluster.name, producer.producer, partitions), version)
    for version in _TOGETHER_VERSIONS:
        named = {"__consumer_offsets": [0], cluster.name: [0]}
        cluster.ask(
            add_for_broker(broker_transaction(cluster.name, producer.producer, named)), version
        )
        cluster.ask(describe(cluster.name), 0)
    producer.abort()


def _unknown_producers(name: str, producer: Producer) -> Iterator[tuple[str, Producer]]:
    """Yield wrong producer ids and epochs, and at last the correct ones."""
    number, epoch = producer
    yield f"{name}-unknown", producer
    yield "", producer
    yield name, Producer(number + 1_000_000, epoch)
    yield name, Producer(-1, epoch)
    yield name, Producer(number, epoch - 1)
    yield name, Producer(number, epoch + 1)
    yield name, Producer(number, -1)
    yield name, Producer(number, 32_767)
    yield name, Producer(number + 1_000_000, epoch - 1)
    yield name, producer


def producers_that_add_partitions_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in _ADD_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD, name)
        producer.init()
        for _ in ("empty", "ongoing"):
            for transactional_id, claimed in _unknown_producers(name, producer.producer):
                cluster.ask(add(transactional_id, claimed, {cluster.name: [0]}), version)
        producer.commit()
        for transactional_id, claimed in _unknown_producers(name, producer.producer):
            cluster.ask(add(transactional_id, claimed, {cluster.name: [0]}), version)


def producers_that_add_offsets_are_checked(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    for version in _OFFSETS_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD, name)
        producer.init()
        for _ in ("empty", "ongoing"):
            for transactional_id, claimed in _unknown_producers(name, producer.producer):
                cluster.ask(add_offsets(transactional_id, claimed, cluster.name), version)
        for group in ("", f"{cluster.name}-another", cluster.name):
            cluster.ask(add_offsets(name, producer.producer, group), version)
        cluster.ask(describe(name), 0)
        producer.commit()


def brokers_add_for_many_at_once(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    missing = f"{cluster.name}-missing"
    for version in _TOGETHER_VERSIONS:
        names = [f"{cluster.name}-{version}-{letter}" for letter in "abcd"]
        producers = [start_producer(cluster, NEW, name).producer for name in names]
        claims = zip(names, producers, strict=True)
        rows = [
            broker_transaction(name, producer, {cluster.name: [0, 1]}) for name, producer in claims
        ]
        rows[1].producer_epoch += 1
        rows[2].topics.append(broker_transaction("", producers[2], {missing: [0]}).topics[0])
        rows[3].verify_only = True
        cluster.ask(add_for_broker(*rows), version)
        cluster.ask(describe(*names), 0)
        cluster.ask(add_for_broker(*rows), version)
        for name, producer in zip(names, producers, strict=True):
            again = (broker_transaction(name, producer, {cluster.name: [2]}),)
            cluster.ask(add_for_broker(*again, *again), version)
        cluster.ask(describe(*names), 0)
        none = broker_transaction(names[0], producers[0], {})
        cluster.ask(add_for_broker(none), version)


def brokers_that_add_partitions_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    for version in _TOGETHER_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, NEW, name)
        producer.init()
        for verify_only in (True, False, True):
            for transactional_id, claimed in _unknown_producers(name, producer.producer):
                one = broker_transaction(
                    transactional_id, claimed, {cluster.name: [0]}, verify_only=verify_only
                )
                cluster.ask(add_for_broker(one), version)
        cluster.ask(describe(name), 0)


def partitions_are_verified(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    producer = start_producer(cluster, protocol)

    def verify() -> None:
        for version in _TOGETHER_VERSIONS:
            for partitions in ([0], [1, 0], [2]):
                one = broker_transaction(
                    cluster.name, producer.producer, {cluster.name: partitions}, verify_only=True
                )
                cluster.ask(add_for_broker(one), version)
        named = {cluster.name: [0], f"{cluster.name}-missing": [0]}
        one = broker_transaction(cluster.name, producer.producer, named, verify_only=True)
        cluster.ask(add_for_broker(one), 5)

    verify()
    producer.begin(0, 1)
    verify()
    producer.commit()
    verify()
    producer.begin()
    producer.abort()
    verify()
    cluster.ask(describe(cluster.name), 0)


def ends_of_the_old_protocol_are_checked_by_state(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in range(5):
        producer = start_producer(cluster, OLD._replace(end=version), f"{cluster.name}-{version}")
        for is_commit in (COMMIT, ABORT):
            producer.end(is_commit=is_commit)
        for last in (COMMIT, ABORT):
            producer.begin()
            for is_commit in (last, COMMIT, ABORT, last):
                producer.end(is_commit=is_commit)
        producer.init()
        for is_commit in (COMMIT, ABORT):
            producer.end(is_commit=is_commit)


def ends_of_the_new_protocol_are_checked_by_state(cluster: ScenarioCluster) -> None:
    """End in each state with the current epoch, and repeat the end that raised the epoch."""
    create_topic(cluster, cluster.name)
    for is_commit in (COMMIT, ABORT):
        for step in (0, -1, 1):
            producer = start_producer(cluster, NEW, f"{cluster.name}-{is_commit:d}-{step + 1}")
            producer.init()
            # Empty, then open, then complete in both ways.
            producer.end(is_commit=is_commit, producer=producer.at(step))
            producer.init()
            for last in (COMMIT, ABORT):
                producer.begin()
                producer.end(is_commit=is_commit, producer=producer.at(step))
                if step:
                    producer.end(is_commit=last)
                producer.end(is_commit=is_commit, producer=producer.at(step))
                producer.end(is_commit=is_commit, producer=producer.at(step))
                producer.init()


def producers_that_end_a_transaction_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in _END_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD, name)
        producer.init()
        for stage in ("empty", "ongoing", "complete"):
            if stage == "ongoing":
                producer.begin()
            for transactional_id, claimed in list(_unknown_producers(name, producer.producer))[:-1]:
                for is_commit in (COMMIT, ABORT):
                    cluster.ask(end(transactional_id, claimed, is_commit=is_commit), version)
            cluster.ask(describe(name), 0)
            if stage == "ongoing":
                speaker = producer.with_versions(end=version)
                speaker.commit()
                producer.producer = speaker.producer


def protocols_may_be_mixed(cluster: ScenarioCluster) -> None:
    """Begin transactions in the old protocol and end them in the new one, and vice versa."""
    create_topic(cluster, cluster.name)
    for is_commit in (COMMIT, ABORT):
        producer = start_producer(cluster, OLD, f"{cluster.name}-{is_commit:d}")
        for first, last in ((OLD, 5), (NEW, 4), (OLD, 4), (NEW, 5), (OLD, 5)):
            speaker = Transactor(
                cluster, producer.transactional_id, first._replace(end=last), producer.producer
            )
            speaker.begin()
            speaker.end(is_commit=is_commit)
            speaker.end(is_commit=is_commit)
            speaker.init(speaker.producer)
            producer.producer = speaker.producer
    for isolation in (0, 1):
        cluster.ask(read(cluster.name, isolation=isolation), 11)


def _stick(cluster: ScenarioCluster, producer: Transactor, *, is_commit: bool) -> Producer:
    """End a transaction so that it stays prepared: its partition has a higher coordinator epoch.

    Return the producer id and epoch in the response.
    """
    producer.begin()
    foreign = Producer(producer.producer.producer_id + 5_000_000, 0)
    cluster.ask(markers(foreign, {cluster.name: [0]}), 1)
    own = markers(producer.newer, {cluster.name: [0]}, coordinator_epoch=_FENCED_BY)
    cluster.ask(own, 1)
    request = end(producer.transactional_id, producer.producer, is_commit=is_commit)
    answer = cluster.ask(request, producer.protocol.end)
    wait_for_state(cluster, producer.transactional_id, "PrepareCommit", "PrepareAbort")
    return Producer(answer.producer_id, answer.producer_epoch)


def nothing_else_happens_while_an_end_is_prepared(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    """Send requests to a transaction that stays prepared because its marker was refused."""
    create_topic(cluster, cluster.name, partitions=2)
    group = f"{cluster.name}-group"
    wait_for_group_coordinator(cluster, group)
    for is_commit in (COMMIT, ABORT):
        name = f"{cluster.name}-{is_commit:d}"
        producer = start_producer(cluster, protocol, name)
        producer.init()
        _stick(cluster, producer, is_commit=is_commit)
        for step in (-1, 0, 1, 2):
            claimed = producer.at(step)
            for version in _ADD_VERSIONS:
                cluster.ask(add(name, claimed, {cluster.name: [1]}), version)
            for verify_only in (True, False):
                one = broker_transaction(
                    name, claimed, {cluster.name: [0]}, verify_only=verify_only
                )
                cluster.ask(add_for_broker(one), 5)
            cluster.ask(add_offsets(name, claimed, group), 4)
            for version in _END_VERSIONS:
                for second_end in (COMMIT, ABORT):
                    cluster.ask(end(name, claimed, is_commit=second_end), version)
            for version in (10, 11):
                producer.with_versions(produce=version).write(partition=1, producer=claimed)
            for version in (3, 4):
                producer.with_versions(commit_offsets=version).commit_offsets(
                    group, producer=claimed
                )
            cluster.ask(init_producer_id(name, claimed), 5)
        # A real broker retries this for a tenth of a second.
        producer.with_versions(produce=12).write(partition=1)
        producer.with_versions(commit_offsets=5).commit_offsets(group)
        cluster.ask(init_producer_id(name), 5)
        cluster.ask(describe(name), 0)
        cluster.ask(read(cluster.name), 11)


def a_topic_is_deleted_within_a_transaction(cluster: ScenarioCluster, protocol: Protocol) -> None:
    remaining_topic = f"{cluster.name}-remaining"
    create_topic(cluster, remaining_topic)
    for is_commit in (COMMIT, ABORT):
        gone = f"{cluster.name}-gone-{is_commit:d}"
        create_topic(cluster, gone, partitions=2)
        producer = start_producer(cluster, protocol, f"{cluster.name}-{is_commit:d}")
        producer.begin(topic=gone)
        producer.begin(topic=remaining_topic)
        topics = [DeleteTopicsRequest.DeleteTopicState(name=gone)]
        cluster.ask(DeleteTopicsRequest(topics=topics, topic_names=[gone], timeout_ms=10_000), 5)
        asked = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=gone)],
            allow_auto_topic_creation=False,
        )
        cluster.call_until(asked, 9, lambda found: found.topics[0].error_code != 0)
        producer.add(1, topic=gone)
        cluster.ask(describe(producer.transactional_id), 0)
        producer.end(is_commit=is_commit)
        producer.begin(topic=remaining_topic)
        producer.end(is_commit=is_commit)
    cluster.ask(read(remaining_topic), 11)


def a_topic_is_recreated_within_a_transaction(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Let the marker be written to a new log, which does not have the transaction."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    producer.begin()
    cluster.ask(DeleteTopicsRequest(topic_names=[cluster.name], timeout_ms=10_000), 5)
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=cluster.name)],
        allow_auto_topic_creation=False,
    )
    cluster.call_until(asked, 9, lambda found: found.topics[0].error_code != 0)
    create_topic(cluster, f"{cluster.name}")
    producer.abort()
    cluster.ask(read(cluster.name, isolation=0), 11)
    producer.begin()
    producer.commit()
    cluster.ask(read(cluster.name), 11)


def transactions_may_be_empty(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Partitions that were added, but not written to, get markers too."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        producer.add()
        producer.end(is_commit=is_commit)
    producer.end(is_commit=ABORT)
    producer.end(is_commit=COMMIT)
    cluster.ask(read(cluster.name, isolation=0), 11)
    wait_for_transaction_coordinator(cluster, f"{cluster.name}-never")
    for version in _END_VERSIONS:
        cluster.ask(end(f"{cluster.name}-never", producer.producer, is_commit=ABORT), version)
    wait_until_complete(cluster, cluster.name)


SCENARIOS = (
    *in_both_protocols(a_transaction_is_committed),
    *in_both_protocols(a_transaction_is_aborted),
    the_first_versions_of_transactions,
    partitions_are_added_in_every_version,
    nothing_is_added_when_a_partition_is_unknown,
    internal_topics_are_refused_in_transactions,
    producers_that_add_partitions_are_checked,
    producers_that_add_offsets_are_checked,
    brokers_add_for_many_at_once,
    brokers_that_add_partitions_are_checked,
    *in_both_protocols(partitions_are_verified),
    ends_of_the_old_protocol_are_checked_by_state,
    ends_of_the_new_protocol_are_checked_by_state,
    producers_that_end_a_transaction_are_checked,
    protocols_may_be_mixed,
    *in_both_protocols(nothing_else_happens_while_an_end_is_prepared),
    *in_both_protocols(a_topic_is_deleted_within_a_transaction),
    *in_both_protocols(a_topic_is_recreated_within_a_transaction),
    *in_both_protocols(transactions_may_be_empty),
)
