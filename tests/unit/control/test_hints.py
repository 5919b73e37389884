"""Hints about common mistakes of clients."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.uuids import uuid_from_text
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, request_log=100, clock="manual@2026-03-01T12:00") as running:
        yield running


def hints(broker: Broker, *calls: tuple[Any, int]) -> tuple[str, ...]:
    """Send requests, and return the hints of the broker."""
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        for request, version in calls:
            client.call(request, version)
        return broker.report().hints


def list_offsets(timestamp: int) -> tuple[ListOffsetsRequest, int]:
    row = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[row])
    return ListOffsetsRequest(replica_id=-1, topics=[topic]), 7


def fetch(broker: Broker, offset: int, version: int) -> tuple[FetchRequest, int]:
    row = FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_000, current_leader_epoch=-1
    )
    if version < 13:
        topic = FetchRequest.FetchTopic(topic="orders", partitions=[row])
    else:
        topic_id = broker.topic("orders").topic_id
        topic = FetchRequest.FetchTopic(topic_id=uuid_from_text(topic_id), partitions=[row])
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, topics=[topic]), version


def metadata(*topics: str) -> tuple[MetadataRequest, int]:
    rows = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=rows, allow_auto_topic_creation=True), 9


@pytest.mark.parametrize("version", [12, 13])
def test_a_consumer_that_reads_from_the_end_is_hinted_at(broker: Broker, version: int) -> None:
    broker.produce("orders", b"1", partition=0)
    calls = list_offsets(-1), fetch(broker, 1, version)
    (hint,) = hints(broker, *calls)
    assert hint.startswith("client conformance reads orders-0 from its end, offset 1, and does not")


@pytest.mark.parametrize(("timestamp", "offset"), [(-2, 0), (-1, 0)])
def test_a_consumer_that_reads_all_records_gets_no_hint(
    broker: Broker, timestamp: int, offset: int
) -> None:
    """Clients ask for the end of a partition for other purposes, too, such as lag."""
    broker.produce("orders", b"1", partition=0)
    assert hints(broker, list_offsets(timestamp), fetch(broker, offset, 12)) == ()


def test_an_empty_partition_has_no_records_to_miss(broker: Broker) -> None:
    assert hints(broker, list_offsets(-1), fetch(broker, 0, 12)) == ()


def test_a_topic_that_was_created_automatically_is_hinted_at(broker: Broker) -> None:
    _, hint = sorted(hints(broker, metadata("new")))
    assert hint.startswith("topic new was created automatically with 1 partition: ")
    (entry,) = broker.explain(topic="new")
    assert entry.kind == "created"
    assert entry.text == (
        "created automatically with 1 partition, because client conformance at 127.0.0.1 asked "
        "for its metadata"
    )


def test_there_are_at_most_ten_hints_of_a_kind(broker: Broker) -> None:
    names = [f"new-{number}" for number in range(11)]
    found = hints(broker, metadata(*names))
    assert sum("created automatically" in each for each in found) == 10
    assert len(found) == 11


def test_a_client_without_further_requests_is_hinted_at(broker: Broker) -> None:
    (hint,) = hints(broker, metadata("orders"))
    assert hint == (
        "client conformance has asked for metadata only: it has nothing to send or read, as a "
        "producer before flush(), or it cannot reach the advertised address "
        f"{broker.bootstrap_servers}"
    )
    assert hints(broker, list_offsets(-2)) == ()


def test_an_unknown_topic_is_hinted_at_with_similar_names(broker: Broker) -> None:
    request = metadata("order")[0]
    request.allow_auto_topic_creation = False
    (hint,) = hints(broker, (request, 9))
    assert hint == (
        "client conformance asks for topic order, which does not exist; similar names are orders"
    )


def test_an_open_transaction_is_hinted_at(broker: Broker) -> None:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6)
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        producer = client.call(request, 5)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=[1, 0])
        client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            3,
        )
    broker.clock.advance(seconds=2.5)
    (hint,) = broker.report().hints
    assert hint == (
        "the transaction of id tx has been open for 2.5 s with orders-0, orders-1; consumers that "
        "read committed records wait for its end"
    )
