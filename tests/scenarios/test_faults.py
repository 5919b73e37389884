"""Faults of a served cluster affect the selected requests, and nothing else."""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.batches import batch
from tests.conformance.raw import ConnectionClosedError, RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message

CLIENT = "conformance"
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


@contextmanager
def connected(broker: Broker, node: int = 0) -> Iterator[RawClient]:
    port = int(broker.bootstrap_servers.split(",")[node].rpartition(":")[2])
    with closing(RawClient(port, 10)) as client:
        yield client


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {"connections.max.idle.ms": -1}
    with Broker(
        topics={"orders": 1, "audit": 1}, clock="manual@2026-03-01", config=config
    ) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with connected(broker) as one:
        one.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 6)
        yield one


def produce(topic: str | bytes = "orders", value: bytes = b"v", acks: int = -1) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(value))
    named = ProduceRequest.TopicProduceData(partition_data=[data])
    if isinstance(topic, str):
        named.name = topic
    else:
        named.topic_id = topic
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[named])


def produced(answer: Any) -> int:  # noqa: ANN401 - a response class of its version
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def end_offset(client: RawClient, topic: str = "orders") -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    named = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[named]), 6)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def heartbeat(group: str = "g", member: str = "m") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, member_id=member, generation_id=1)


def topic_id(client: RawClient, topic: str = "orders") -> bytes:
    asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
    found: bytes = client.call(MetadataRequest(topics=asked), 12).topics[0].topic_id
    return found


# Refusals


def test_a_refused_request_changes_nothing_and_the_next_succeeds(
    broker: Broker, client: RawClient
) -> None:
    fault = broker.faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=1)
    assert produced(client.call(produce("audit"), 9)) == ErrorCode.NONE
    assert produced(client.call(produce(), 9)) == REFUSED
    assert end_offset(client) == 0
    assert produced(client.call(produce(), 9)) == ErrorCode.NONE
    assert end_offset(client) == 1
    assert (fault.matches, fault.firings) == (2, 1)


def test_only_requests_that_match_in_every_field_are_selected(
    broker: Broker, client: RawClient
) -> None:
    add = broker.faults.add
    others = [
        add(api="Produce", client_id="other-client", error="NOT_ENOUGH_REPLICAS"),
        add(api="Produce", topic="audit", error="NOT_ENOUGH_REPLICAS"),
        add(api="Produce", transactional_id="t", error="NOT_ENOUGH_REPLICAS"),
        add(api="Heartbeat", group="h", error="NOT_COORDINATOR"),
        add(group="h", error="NOT_COORDINATOR"),
    ]
    own = add(api="Produce", client_id=CLIENT, topic="orders", node=1, error="NOT_ENOUGH_REPLICAS")
    assert produced(client.call(produce(), 9)) == REFUSED
    assert client.call(heartbeat(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [fault.matches for fault in others] == [0] * len(others)
    assert own.matches == 1
    assert client.call(heartbeat("h"), 4).error_code == ErrorCode.NOT_COORDINATOR


def test_a_topic_is_also_selected_by_its_id(broker: Broker, client: RawClient) -> None:
    orders, audit = topic_id(client), topic_id(client, "audit")
    broker.faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS")
    assert produced(client.call(produce(audit), 13)) == ErrorCode.NONE
    assert produced(client.call(produce(orders), 13)) == REFUSED


@pytest.mark.parametrize("version", [12, 17])
def test_a_fetch_is_selected_by_the_topics_of_its_session(
    broker: Broker, client: RawClient, version: int
) -> None:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1_000)
    topic = FetchRequest.FetchTopic(
        topic="orders", topic_id=topic_id(client), partitions=[partition]
    )
    begun = client.call(FetchRequest(max_bytes=1_000, session_epoch=0, topics=[topic]), version)
    assert begun.session_id
    epochs = count(1)

    def fetch_again() -> Any:  # noqa: ANN401 - a response class of its version
        request = FetchRequest(
            max_bytes=1_000, session_id=begun.session_id, session_epoch=next(epochs)
        )
        return client.call(request, version)

    with broker.faults.add(api="Fetch", topic="audit", error="KAFKA_STORAGE_ERROR") as other:
        broker.faults.add(api="Fetch", topic="orders", error="KAFKA_STORAGE_ERROR", times=1)
        for expected in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE):
            answer = fetch_again()
            (row,) = answer.responses[0].partitions
            assert (answer.error_code, row.error_code) == (ErrorCode.NONE, expected)
        assert fetch_again().responses == []
        assert other.matches == 0


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_is_refused_for_each_partition(
    broker: Broker, client: RawClient, version: int
) -> None:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1_000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
    broker.faults.add(api="Fetch", error="KAFKA_STORAGE_ERROR")
    answer = client.call(FetchRequest(max_bytes=1_000, topics=[topic]), version)
    (refused,) = answer.responses[0].partitions
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_first_fault_that_fires_decides_and_later_ones_do_not_count(
    broker: Broker, client: RawClient
) -> None:
    first = broker.faults.add(api="Heartbeat", error="NOT_COORDINATOR", nth=2)
    second = broker.faults.add(api="Heartbeat", error="REBALANCE_IN_PROGRESS", every=2)
    codes = [client.call(heartbeat(), 4).error_code for _ in range(4)]
    assert codes == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert (first.matches, second.matches) == (4, 3)


def test_a_repeated_request_is_subject_to_current_faults(broker: Broker, client: RawClient) -> None:
    """The broker caches the last heartbeat of a connection and its answer as bytes."""
    assert client.call(heartbeat(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.call(heartbeat(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    with broker.faults.add(group="g", error="NOT_COORDINATOR") as fault:
        assert client.call(heartbeat(), 4).error_code == ErrorCode.NOT_COORDINATOR
        assert client.call(heartbeat(), 4).error_code == ErrorCode.NOT_COORDINATOR
    assert client.call(heartbeat(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert fault.firings == 2


def test_faults_of_a_node_affect_that_node_only() -> None:
    with (
        Broker(brokers=2, topics={"orders": 1}) as broker,
        connected(broker) as first,
        connected(broker, 1) as second,
    ):
        with pytest.raises(
            ValueError, match=r"^match\.node: there is no node 3; the nodes are 1, 2$"
        ):
            broker.faults.add(api="ListOffsets", node=3, disconnect=True)
        broker.faults.add(api="ListOffsets", node=2, disconnect=True)
        asked = ListOffsetsRequest(replica_id=-1)
        assert first.call(asked, 6).topics == []
        with pytest.raises(ConnectionClosedError):
            second.call(asked, 6)


def smallest_request(key: int) -> Message:
    """Return a request with default values that has an answer."""
    request: Message = codec.request_class(key)()
    if isinstance(request, ProduceRequest):
        request.acks = -1
    return request


@pytest.mark.parametrize("key", sorted(TABLE))
def test_every_api_can_be_refused(key: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = TABLE[key]
    with Broker() as broker, connected(broker) as client:
        for version in (row.lowest, row.highest):
            with broker.faults.add(api=row.name, error="UNKNOWN_SERVER_ERROR") as fault:
                client.call(smallest_request(key), version)
                assert fault.firings == 1
    assert "because of a bug" not in capsys.readouterr().err


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_whose_deletion_failed_has_a_message(
    broker: Broker, client: RawClient, version: int
) -> None:
    failed, other = ErrorCode.GROUP_DELETION_FAILED, ErrorCode.NON_EMPTY_GROUP
    request = DeleteGroupsRequest(groups_names=["g", "h"])
    with broker.faults.add(api="DeleteGroups", error=failed.name, force=True):
        rows = client.call(request, version).results
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    expected = (failed, failed.message) if version > 2 else (unknown, None)
    assert [(each.error_code, each.error_message) for each in rows] == [expected] * 2
    with broker.faults.add(api="DeleteGroups", error=other.name, force=True):
        rows = client.call(request, version).results
    assert [(each.error_code, each.error_message) for each in rows] == [(other, None)] * 2


def test_an_injected_refusal_is_in_the_history(broker: Broker, client: RawClient) -> None:
    fault = broker.faults.add(api="Heartbeat", group="g", error="REBALANCE_IN_PROGRESS")
    client.call(heartbeat(), 4)
    entry = broker.explain("g")[-1]
    assert entry.kind == "refused"
    assert entry.text == f"Heartbeat refused by fault {fault.id} (REBALANCE_IN_PROGRESS)"
    assert entry.facts["fault"] == fault.id
    assert entry.facts["rule"] == "fault"
    assert entry.facts["error"] == "REBALANCE_IN_PROGRESS"


def test_a_refusal_is_in_the_history_of_each_group_in_a_request(
    broker: Broker, client: RawClient
) -> None:
    fault = broker.faults.add(api="OffsetFetch", group="h", error="NOT_COORDINATOR")
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=each) for each in ("g", "h")]
    answer = client.call(OffsetFetchRequest(groups=groups), 9)
    assert {group.group_id: group.error_code for group in answer.groups} == {
        "g": ErrorCode.NONE,
        "h": ErrorCode.NOT_COORDINATOR,
    }
    (entry,) = broker.explain("h")
    assert entry.facts["fault"] == fault.id
    assert broker.explain("g") == []
    fault.remove()
    every = broker.faults.add(api="OffsetFetch", error="NOT_COORDINATOR")
    client.call(OffsetFetchRequest(groups=groups), 9)
    assert [broker.explain(each)[-1].facts["fault"] for each in ("g", "h")] == [every.id] * 2
    subjects = [entry.group or entry.client for entry in broker.explain()]
    assert "" not in subjects
    assert None not in subjects


@pytest.mark.parametrize("version", [2, 6])
def test_a_fault_for_a_group_affects_find_coordinator(
    broker: Broker, client: RawClient, version: int
) -> None:
    broker.faults.add(api="FindCoordinator", group="g", error="COORDINATOR_NOT_AVAILABLE")

    def find(name: str, kind: int) -> int:
        asked = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
        answer = client.call(asked, version)
        found: int = (answer.coordinators[0] if answer.coordinators else answer).error_code
        return found

    assert find("g", 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert find("h", 0) == ErrorCode.NONE
    assert find("g", 1) == ErrorCode.NONE


# Disconnections


def test_a_request_without_an_answer_is_refused_by_a_disconnection(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS")
    with connected(broker) as producer:
        producer.send(produce(acks=0), 9)
        with pytest.raises(ConnectionClosedError):
            producer.receive()
    assert end_offset(client) == 0


@pytest.mark.parametrize(("when", "offset"), [(True, 0), ("before", 0), ("after", 1)])
def test_a_connection_is_closed_before_or_after_the_request_is_handled(
    broker: Broker, client: RawClient, *, when: bool | str, offset: int
) -> None:
    broker.faults.add(api="Produce", disconnect=when, times=1)
    with connected(broker) as producer, pytest.raises(ConnectionClosedError):
        producer.call(produce(), 9)
    assert end_offset(client) == offset


def test_a_later_answer_is_lost_too(broker: Broker, client: RawClient) -> None:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1_000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
    broker.faults.add(api="Fetch", disconnect="after")
    with connected(broker) as consumer:
        consumer.send(
            FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[topic]), 12
        )
        client.call(produce(), 9)
        with pytest.raises(ConnectionClosedError):
            consumer.receive()


def test_a_disconnection_is_in_the_history(broker: Broker) -> None:
    fault = broker.faults.add(group="g", disconnect=True)
    with connected(broker) as client, pytest.raises(ConnectionClosedError):
        client.call(heartbeat(), 4)
    (entry,) = broker.explain("g")
    assert entry.facts["fault"] == fault.id
    assert "closed the connection before" in entry.text


# Delays


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])


def committed(client: RawClient) -> int:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = client.call(OffsetFetchRequest(groups=[group]), 9)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_delayed_requests_are_handled_in_order_by_the_brokers_clock(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.add(api="OffsetCommit", group="g", delay_ms=500, times=1)
    with connected(broker) as slow:
        slow.send(commit_request(1), 8)
        slow.send(commit_request(2), 8)
        slow.send(heartbeat(), 4)
        assert wait_for_matches(broker, 1)
        broker.clock.advance(milliseconds=499)
        assert committed(client) == -1
        broker.clock.advance(milliseconds=1)
        for _ in range(2):
            assert slow.receive().topics[0].partitions[0].error_code == ErrorCode.NONE
        assert slow.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(client) == 2


def wait_for_matches(broker: Broker, count: int) -> bool:
    """Return True when faults have selected that many requests."""
    return any(sum(fault.matches for fault in broker.faults.list()) >= count for _ in range(10_000))


def test_a_delayed_request_is_not_overwritten(broker: Broker, client: RawClient) -> None:
    """Connections share a buffer to which records refer until they are appended."""
    broker.faults.add(api="Produce", topic="orders", delay_ms=1_000)
    with connected(broker) as slow:
        slow.send(produce(value=b"first" * 10), 9)
        assert wait_for_matches(broker, 1)
        for _ in range(3):
            client.call(produce("audit", b"other" * 10), 9)
        broker.clock.advance(seconds=1)
        assert produced(slow.receive()) == ErrorCode.NONE
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=10_000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
    answer = client.call(FetchRequest(max_bytes=10_000, topics=[topic]), 12)
    records = bytes(answer.responses[0].partitions[0].records)
    assert b"first" * 10 in records
    assert b"other" not in records


def test_removing_a_fault_ends_its_delays(broker: Broker) -> None:
    with connected(broker) as slow:
        with broker.faults.add(api="Produce", delay_ms=60_000):
            slow.send(produce(), 9)
            assert wait_for_matches(broker, 1)
        assert produced(slow.receive()) == ErrorCode.NONE
        assert broker.faults.list() == []


def test_a_delayed_request_of_a_disconnected_client_is_not_handled(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.add(api="Produce", delay_ms=1_000)
    with connected(broker) as slow:
        slow.send(produce(), 9)
        assert wait_for_matches(broker, 1)
    for _ in range(100):  # until the broker has read the end of the connection
        end_offset(client)
    broker.clock.advance(seconds=2)
    broker.faults.clear()
    assert end_offset(client) == 0


def test_a_late_commit_rewinds_the_group(broker: Broker, client: RawClient) -> None:
    """No rule of Kafka refuses it: member and epoch are right."""
    ghost = broker.faults.add(api="OffsetCommit", nth=1, hold=True, late=True, disconnect=True)
    with connected(broker) as lost, pytest.raises(ConnectionClosedError):
        lost.call(commit_request(3), 8)
    client.call(commit_request(6), 8)
    assert (ghost.waiting, broker.committed("g")) == (1, {("orders", 0): 6})
    ghost.release()
    assert (ghost.waiting, broker.committed("g")) == (0, {("orders", 0): 3})
    assert [(entry.kind, entry.text) for entry in broker.explain("g")] == [
        ("late", "fault f1 closed the connection; OffsetCommit is handled later"),
        ("late", "OffsetCommit handled late, without a connection, by fault f1"),
    ]


def test_held_requests_of_two_clients_are_handled_in_any_order(
    broker: Broker, client: RawClient
) -> None:
    faults = [
        broker.faults.add(api="Produce", nth=1, hold=True) for _ in range(2)
    ]  # the second selects what the first does not hold
    with connected(broker) as other:
        client.send(produce(value=b"first"), 9)
        faults[0].wait()
        other.send(produce(value=b"second"), 9)
        faults[1].wait()
        for fault in reversed(faults):
            fault.release()
        assert produced(client.receive()) == produced(other.receive()) == ErrorCode.NONE
    assert [each.value for each in broker.records("orders")] == [b"second", b"first"]


def test_a_late_produce_keeps_its_records(broker: Broker, client: RawClient) -> None:
    """Its records are copied before the memory of its connection is used again."""
    ghost = broker.faults.add(api="Produce", nth=1, hold=True, late=True)
    with connected(broker) as lost:
        lost.send(produce(value=b"late"), 9)
        ghost.wait()
    assert produced(client.call(produce(value=b"early"), 9)) == ErrorCode.NONE
    ghost.release()
    assert [each.value for each in broker.records("orders")] == [b"early", b"late"]


def test_a_produce_is_written_twice(broker: Broker, client: RawClient) -> None:
    broker.faults.add(api="Produce", twice=True)
    assert produced(client.call(produce(), 9)) == ErrorCode.NONE
    assert [each.value for each in broker.records("orders")] == [b"v", b"v"]


@pytest.mark.parametrize(("lost", "count"), [("request", 0), ("answer", 1)])
def test_a_client_does_not_know_what_was_lost(broker: Broker, lost: str, count: int) -> None:
    fault = broker.faults.add(api="Produce", lost=lost)
    with connected(broker) as unanswered:
        unanswered.send(produce(), 9)
        fault.wait()
        assert len(broker.records("orders")) == count
        broker.faults.assert_all_fired()


def test_faults_that_have_not_fired_are_named(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS")
    with pytest.raises(AssertionError, match="never fired: <fault f1: api=Produce"):
        broker.faults.assert_all_fired()
    with pytest.raises(AssertionError, match="has fired 0 times in 0 s, not 1 times; it selected"):
        fault.wait(timeout=0)


def test_a_delayed_request_may_then_be_refused_or_disconnected(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.add(api="Heartbeat", delay_ms=10, error="NOT_COORDINATOR", times=1)
    broker.faults.add(api="Heartbeat", delay_ms=10, disconnect=True)
    client.send(heartbeat(), 4)
    assert wait_for_matches(broker, 1)
    broker.clock.advance(milliseconds=10)
    assert client.receive().error_code == ErrorCode.NOT_COORDINATOR
    assert broker.explain("g")[-1].facts["error"] == "NOT_COORDINATOR"
    client.send(heartbeat(), 4)
    assert wait_for_matches(broker, 3)
    broker.clock.advance(milliseconds=10)
    with pytest.raises(ConnectionClosedError):
        client.receive()


def test_a_delayed_request_may_have_to_wait_after_its_delay(
    broker: Broker, client: RawClient
) -> None:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1_000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
    broker.faults.add(api="Fetch", delay_ms=10)
    with connected(broker) as consumer:
        consumer.send(
            FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[topic]), 12
        )
        assert wait_for_matches(broker, 1)
        broker.clock.advance(milliseconds=10)
        client.call(produce(), 9)
        answer = consumer.receive()
    assert answer.responses[0].partitions[0].records


def test_a_delayed_request_with_acks_0_is_handled_without_an_answer(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.add(api="Produce", delay_ms=10)
    client.send(produce(acks=0), 9)
    client.forget_last()
    assert wait_for_matches(broker, 1)
    broker.clock.advance(milliseconds=10)
    assert end_offset(client) == 1


# Invalid faults


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"api": "Produce", "group": "g"}, "requests of Produce have no group"),
        ({"api": "Heartbeat", "topic": "orders"}, "requests of Heartbeat have no topic"),
        ({"api": "Produse"}, "similar names are Produce"),
    ],
)
def test_a_fault_that_cannot_select_a_request_is_refused(
    broker: Broker, fault: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        broker.faults.add(error="NOT_ENOUGH_REPLICAS", **fault)  # type: ignore[arg-type]  # names → text
    assert broker.faults.list() == []


def test_a_fault_for_an_api_of_a_later_release_is_refused() -> None:
    with (
        Broker(as_version="4.3") as broker,
        pytest.raises(ValueError, match="UnregisterController is not served"),
    ):
        broker.faults.add(api="UnregisterController", disconnect=True)


def test_the_number_of_faults_is_limited(broker: Broker) -> None:
    for _ in range(100):
        broker.faults.add(api="Heartbeat", disconnect=True)
    with pytest.raises(ValueError, match="100 faults already"):
        broker.faults.add(disconnect=True)
