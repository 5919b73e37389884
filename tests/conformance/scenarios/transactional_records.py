"""Records of transactions in the coordinators' logs: versions, batches, order."""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.runtime import partition_of
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.storage.batch import split_batches
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    READ_COMMITTED,
    Producer,
    Protocol,
    add_for_broker,
    broker_transaction,
    end,
    in_both_protocols,
    init_producer_id,
    start_producer,
    wait_until_complete,
)
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.storage.batch import BatchView
    from tests.conformance.normalization import Tree
    from tests.conformance.scenario_cluster import ScenarioCluster

_STATE_TOPIC, _OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
_STATE_PARTITIONS = int(COMMON_CONFIG["transaction.state.log.num.partitions"])
_OFFSETS_PARTITIONS = int(COMMON_CONFIG["offsets.topic.num.partitions"])
_FETCH = 11
_TIMES = frozenset(("commit_timestamp", "expire_timestamp"))


def note_states(cluster: ScenarioCluster, *transactional_ids: str, is_alone: bool = True) -> None:
    """Note every record of transactional ids, batch by batch.

    Without `is_alone`, batches may contain records of other ids, so their counts are not noted.
    """
    serde = CoordinatorSerde(lambda _value: 1, "transaction")
    for name in transactional_ids:
        partition = partition_of(name, _STATE_PARTITIONS)

        def matches(key: Any, name: str = name) -> bool:  # noqa: ANN401
            return bool(key.transactional_id == name)

        rows = [
            row
            for view in _views(cluster, _STATE_TOPIC, partition)
            for row in _shown(cluster, view, serde, matches)
        ]
        if not is_alone:
            for row in rows:
                row.pop("count")
        cluster.record(f"the states of {name}", [*rows])


def note_offsets(cluster: ScenarioCluster, group: str, *producers: Producer) -> None:
    """Note every record of a group, and every marker of some producers, batch by batch."""
    serde = CoordinatorSerde(written_version)
    numbers = {producer.producer_id for producer in producers}

    def matches(key: Any) -> bool:  # noqa: ANN401
        return group in {getattr(key, "group", None), getattr(key, "group_id", None)}

    rows: list[Tree] = []
    for view in _views(cluster, _OFFSETS_TOPIC, partition_of(group, _OFFSETS_PARTITIONS)):
        if not view.is_control:
            rows += _shown(cluster, view, serde, matches)
        elif view.producer_id in numbers:
            rows.append(
                {
                    **_head(cluster, view),
                    "records": [
                        [bytes(key or b"").hex(), bytes(value or b"").hex()]
                        for key, value in view.key_values()
                    ],
                }
            )
    cluster.record(f"the offsets of {group}", rows)


def _shown(
    cluster: ScenarioCluster,
    view: BatchView,
    serde: CoordinatorSerde,
    matches: Callable[[Any], bool],
) -> Iterator[dict[str, Tree]]:
    """Yield the contents of a batch, if any of its records matches."""
    records: list[Tree] = []
    for key, value in view.key_values():
        record = serde.decode(key, value)
        if record is None or not matches(record.key):
            continue
        records.append(
            {
                "kind": type(record.key).__name__,
                "key": _tree(cluster, record.key),
                "value version": "none" if value is None else unpack_from(">h", value)[0],
                "value": None if record.value is None else _tree(cluster, record.value),
            }
        )
    if records:
        yield {**_head(cluster, view), "records": records}


def _tree(cluster: ScenarioCluster, message: Any) -> Tree:  # noqa: ANN401 - any record class
    found = cluster.tree(message)
    assert isinstance(found, dict)
    return {name: "some" if name in _TIMES else value for name, value in found.items()}


def _head(cluster: ScenarioCluster, view: BatchView) -> dict[str, Tree]:
    # Without a producer the sequence has no meaning; Kafka's groups write 0, kafkalite -1.
    has_producer = view.producer_id >= 0
    return {
        "attributes": view.attributes,
        "producer": cluster.symbol("producer_id", view.producer_id),
        "producer_epoch": view.producer_epoch,
        "base_sequence": view.base_sequence if has_producer else "none",
        "leader_epoch": view.leader_epoch,
        "count": view.record_count,
    }


def _views(cluster: ScenarioCluster, topic: str, partition: int) -> Iterator[BatchView]:
    offset = 0
    while True:
        answer = cluster.probe(fetch_from(topic, partition_at(partition, offset)), _FETCH)
        (row,) = answer.responses[0].partitions
        assert row.error_code == 0, row
        views = split_batches(bytes(row.records or b""))
        if not views:
            return
        yield from views
        offset = views[-1].last_offset + 1


def every_step_of_a_transaction_is_recorded(cluster: ScenarioCluster, protocol: Protocol) -> None:
    topics = [f"{cluster.name}-{letter}" for letter in "ab"]
    for topic in topics:
        create_topic(cluster, topic, partitions=2)
    producer = start_producer(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        producer.begin(0, topic=topics[0])
        producer.add(0, topic=topics[0])
        producer.begin(1, 0, topic=topics[1])
        producer.end(is_commit=is_commit)
    producer.init(producer.producer)
    producer.init(producer.older, timeout_ms=10_000)
    producer.init()
    note_states(cluster, cluster.name)


def refused_requests_are_not_recorded(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, OLD)
    producer.begin()
    producer.commit()
    for version in (4, 5):
        request = end(cluster.name, producer.producer, is_commit=True)
        cluster.ask(request, version)
        cluster.ask(end(cluster.name, producer.newer, is_commit=False), version)
    producer.add(producer=producer.newer)
    producer.add(7)
    producer.init(producer.newer)
    producer.init(timeout_ms=0)
    producer.with_versions(produce=11).write()
    note_states(cluster, cluster.name)


def a_fence_is_recorded(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    producer.begin()
    producer.fence()
    producer.begin()
    cluster.ask(init_producer_id(cluster.name, producer.producer), 5)
    wait_until_complete(cluster, cluster.name)
    producer.init(producer.producer)
    producer.init()
    note_states(cluster, cluster.name)


def empty_transactions_are_recorded(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    producer.abort()
    producer.commit()
    producer.add()
    producer.abort()
    producer.abort()
    note_states(cluster, cluster.name)


def the_protocol_of_a_client_is_recorded(cluster: ScenarioCluster) -> None:
    """Begin in one protocol, continue in the other, and add partitions as a broker does."""
    create_topic(cluster, cluster.name, partitions=3)
    for version in (4, 5):
        for first, second in ((OLD, NEW), (NEW, OLD)):
            name = f"{cluster.name}-{version}-{first.end}"
            producer = start_producer(cluster, first, name)
            producer.begin()
            producer.protocol = second
            producer.begin(1)
            one = broker_transaction(name, producer.producer, {cluster.name: [2]})
            cluster.ask(add_for_broker(one), version)
            producer.end(is_commit=COMMIT)
            note_states(cluster, name)


def pending_offsets_are_recorded(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Commit and abort offsets, with plain commits between them, and read the group's log."""
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        if not producer.is_new:
            producer.add_offsets(cluster.name)
        producer.commit_offsets(cluster.name, 5, 0, 1)
        cluster.ask(commit(cluster.name, cluster.name, 0, offset=20), 8)
        producer.commit_offsets(cluster.name, 7, 1, metadata=None)
        producer.end(is_commit=is_commit)
    note_offsets(cluster, cluster.name, producer.producer)
    note_states(cluster, cluster.name)


def deletions_of_pending_offsets_are_recorded(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    if not producer.is_new:
        producer.add_offsets(cluster.name)
    producer.commit_offsets(cluster.name, 5, 0)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=cluster.name, partitions=[row(partition_index=index) for index in (0, 1)]
    )
    cluster.ask(OffsetDeleteRequest(group_id=cluster.name, topics=[topic]), 0)
    producer.commit_offsets(cluster.name, 6, 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    producer.commit()
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    note_offsets(cluster, cluster.name, producer.producer)


def logs_of_coordinators_are_read_committed(cluster: ScenarioCluster) -> None:
    """Read a group's log with read_committed, as Connect reads its logs."""
    create_topic(cluster, cluster.name)
    group = f"{cluster.name}-0"
    wait_for_group_coordinator(cluster, group)
    producer = start_producer(cluster, NEW)
    producer.commit_offsets(group)
    partition = partition_of(group, _OFFSETS_PARTITIONS)
    request = fetch_from(_OFFSETS_TOPIC, partition_at(partition))
    request.isolation_level = READ_COMMITTED
    before = cluster.probe(request, _FETCH).responses[0].partitions[0]
    cluster.record("held back", before.high_watermark - before.last_stable_offset)
    producer.abort()
    after = cluster.probe(request, _FETCH).responses[0].partitions[0]
    cluster.record("held back", after.high_watermark - after.last_stable_offset)
    rows = after.aborted_transactions[-1:]
    cluster.record("aborted", [cluster.symbol("producer_id", row.producer_id) for row in rows])


SCENARIOS = (
    *in_both_protocols(every_step_of_a_transaction_is_recorded),
    refused_requests_are_not_recorded,
    *in_both_protocols(a_fence_is_recorded),
    *in_both_protocols(empty_transactions_are_recorded),
    the_protocol_of_a_client_is_recorded,
    *in_both_protocols(pending_offsets_are_recorded),
    *in_both_protocols(deletions_of_pending_offsets_are_recorded),
    logs_of_coordinators_are_read_committed,
)
