"""The stand-in answers from a capture: by position, by content, and if it has no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.data.list_offsets import EARLIEST
from kafkalite.cluster.node import Endpoint
from kafkalite.gateway.call import ConnectionContext
from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
from kafkalite.lab.replay.standin.standin import LenientMatcher, StandIn
from kafkalite.lab.replay.standin.strict import StrictMatcher
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.logging import Log
from kafkalite.wire.session import PendingAnswer
from tests.unit.frames import request_content
from tests.unit.lab.replay.recording import Recording, batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cluster.node import Node
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import Pieces

LIVE = 99


class FakeNode:
    """A node with the clock and the endpoints that a stand-in uses."""

    def __init__(self) -> None:
        self.clock = SteppedClock(1_000)
        self.cluster = self

    def endpoints(self, listener: str) -> list[Endpoint]:
        assert listener == "PLAINTEXT"
        return [Endpoint(1, "localhost", 9092), Endpoint(2, "localhost", 9093)]

    def known_endpoints(self, listener: str) -> list[Endpoint]:
        return self.endpoints(listener)


class FakeBroker:
    """A broker that answers from a stand-in."""

    def __init__(
        self, matcher: StrictMatcher | LenientMatcher, *, is_live_on_miss: bool = False
    ) -> None:
        self.node = FakeNode()
        self.passed_to_live: list[bytes] = []
        self.stand_in = StandIn(matcher, [10, 20], Log(), is_live_on_miss=is_live_on_miss)

    def respond(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | PendingAnswer:
        answer = self.stand_in.respond(context, buffer, start, end)
        if answer is None:
            self.passed_to_live.append(bytes(buffer[start:end]))
            return LIVE
        if isinstance(answer.response, Waiting):
            return PendingAnswer(answer.response, answer.encode)
        return 0 if answer.response is None else answer.encode(answer.response, out)

    def connect(self) -> ConnectionContext:
        return ConnectionContext(
            node=cast("Node", self.node),
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )

    def ask(
        self, call: ConnectionContext, request: Message, version: int, client_id: str = "client"
    ) -> Any:  # noqa: ANN401 - any response, or a PendingAnswer
        frame = bytearray(
            request_content(request, version, correlation_id=4711, client_id=client_id.encode())
        )
        out: Pieces = []
        size = self.respond(call, frame, 0, len(frame), out)
        if isinstance(size, PendingAnswer) or not out:
            return size
        assert size == sum(map(len, out))
        return read_answer(request, version, out)


def read_answer(request: Message, version: int, out: Pieces) -> Any:  # noqa: ANN401 - see FakeBroker.ask
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    frame = b"".join(out)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 4711
    start = 8 + codec.response_header_version(key, version)
    return codec.response_parser(key, version)(frame, start, len(frame))[0]


def strict(recording: Recording) -> StrictMatcher:
    return StrictMatcher(recording.exchanges, RecordedCluster.from_exchanges(recording.exchanges))


def lenient(recording: Recording) -> LenientMatcher:
    return LenientMatcher(recording.exchanges, RecordedCluster.from_exchanges(recording.exchanges))


MATCHES = pytest.mark.parametrize("match", [strict, lenient])
if TYPE_CHECKING:
    Match = Callable[[Recording], StrictMatcher | LenientMatcher]


def heartbeat(generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")


@MATCHES
def test_equal_requests_get_the_recorded_responses_in_order(match: Match) -> None:
    recording = Recording()
    for code in (0, 27, 25):
        recording.add(heartbeat(1), HeartbeatResponse(error_code=code), 4)
    broker = FakeBroker(match(recording))
    call = broker.connect()

    answers = [broker.ask(call, heartbeat(1), 4).error_code for _ in range(3)]

    assert answers == [0, 27, 25]
    assert broker.stand_in.counts.answered == 3


@MATCHES
def test_addresses_of_recorded_nodes_are_replaced_in_order(match: Match) -> None:
    recording = Recording()
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host="far", port=1)
        for node in (20, 10)
    ]
    recording.add(MetadataRequest(topics=None), MetadataResponse(brokers=brokers), 12)
    broker = FakeBroker(match(recording))

    answer = broker.ask(broker.connect(), MetadataRequest(topics=None), 12)

    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
        (20, "localhost", 9093),
        (10, "localhost", 9092),
    ]


@MATCHES
def test_response_is_delayed_as_recorded(match: Match) -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(), 4, duration_ms=250)
    broker = FakeBroker(match(recording))

    pending_answer = broker.ask(broker.connect(), heartbeat(1), 4)

    assert isinstance(pending_answer, PendingAnswer)
    broker.node.clock.advance(249)
    assert not pending_answer.waiting.is_resolved
    broker.node.clock.advance(1)
    out: Pieces = []
    pending_answer.encode(pending_answer.waiting.value, out)
    assert read_answer(heartbeat(1), 4, out) == HeartbeatResponse()


def test_request_without_recorded_response_gets_none() -> None:
    recording = Recording()
    recording.add(heartbeat(1), None, 4)
    broker = FakeBroker(strict(recording))

    pending_answer = broker.ask(broker.connect(), heartbeat(1), 4)

    assert isinstance(pending_answer, PendingAnswer)
    assert not pending_answer.waiting.is_resolved


@MATCHES
def test_produce_without_acks_gets_no_response(match: Match) -> None:
    recording = Recording()
    recording.add(ProduceRequest(acks=0), None, 9)
    broker = FakeBroker(match(recording))

    assert broker.ask(broker.connect(), ProduceRequest(acks=0), 9) == 0


@MATCHES
def test_request_without_recorded_answer_closes_the_connection(match: Match) -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(), 4)
    broker = FakeBroker(match(recording))

    with pytest.raises(ProtocolViolation, match="the capture has no response to Metadata v12"):
        broker.ask(broker.connect(), MetadataRequest(topics=None), 12)
    assert broker.stand_in.counts.missed == 1


@MATCHES
def test_request_without_recorded_answer_is_passed_to_the_live_broker(match: Match) -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(), 4)
    broker = FakeBroker(match(recording), is_live_on_miss=True)
    request = MetadataRequest(topics=None)

    assert broker.ask(broker.connect(), request, 12) == LIVE
    assert broker.passed_to_live == [
        request_content(request, 12, correlation_id=4711, client_id=b"client")
    ]


# --- by position ---------------------------------------------------------------------------------


def two_connections() -> Recording:
    """Record two connections of one client that start with equal requests."""
    recording = Recording()
    for number in (0, 1):
        recording.add(
            ApiVersionsRequest(),
            ApiVersionsResponse(throttle_time_ms=7),
            3,
            connection_number=number,
        )
    recording.add(
        MetadataRequest(topics=None), MetadataResponse(cluster_id="c"), 12, connection_number=0
    )
    recording.add(heartbeat(1), HeartbeatResponse(error_code=27), 4, connection_number=1)
    return recording


def test_connections_switch_recorded_connections_when_requests_differ() -> None:
    broker = FakeBroker(strict(two_connections()))
    first, second = broker.connect(), broker.connect()
    for call in (first, second):
        assert broker.ask(call, ApiVersionsRequest(), 3).throttle_time_ms == 7

    assert broker.ask(first, heartbeat(1), 4).error_code == 27
    assert broker.ask(second, MetadataRequest(topics=None), 12).cluster_id == "c"


def test_connection_uses_an_unused_recorded_connection() -> None:
    broker = FakeBroker(strict(two_connections()))
    call = broker.connect()
    broker.ask(call, ApiVersionsRequest(), 3)

    assert broker.ask(call, heartbeat(1), 4).error_code == 27
    other = broker.connect()
    broker.ask(other, ApiVersionsRequest(), 3)
    assert broker.ask(other, MetadataRequest(topics=None), 12).cluster_id == "c"


def test_each_api_has_an_order_of_its_own() -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(error_code=27), 4)
    recording.add(MetadataRequest(topics=None), MetadataResponse(cluster_id="c"), 12)
    recording.add(heartbeat(1), HeartbeatResponse(error_code=0), 4)
    matcher = strict(recording)
    broker = FakeBroker(matcher)
    call = broker.connect()

    assert broker.ask(call, MetadataRequest(topics=None), 12).cluster_id == "c"
    assert broker.ask(call, heartbeat(1), 4).error_code == 27
    assert matcher.unused == {"Heartbeat": 1}
    assert broker.ask(call, heartbeat(1), 4).error_code == 0
    assert matcher.unused == {}


def test_discovery_request_can_be_repeated() -> None:
    broker = FakeBroker(strict(two_connections()))
    calls = [broker.connect() for _ in range(4)]

    response = [broker.ask(call, ApiVersionsRequest(), 3).throttle_time_ms for call in calls]
    assert response == [7] * 4
    assert [broker.ask(call, MetadataRequest(topics=None), 12).cluster_id for call in calls] == [
        "c"
    ] * 4


def test_connection_continues_with_its_recorded_connection() -> None:
    """Two members with equal ids get their own heartbeat responses in any order of requests."""
    recording = Recording()
    for code in (0, 27):
        for number in (0, 1):
            recording.add(
                heartbeat(1),
                HeartbeatResponse(error_code=code + number),
                4,
                connection_number=number,
            )
    broker = FakeBroker(strict(recording))
    one, other = broker.connect(), broker.connect()

    answers = [broker.ask(each, heartbeat(1), 4).error_code for each in (one, other, other, one)]
    assert answers == [0, 1, 28, 27]


def test_recorded_connection_of_the_same_client_id_is_preferred() -> None:
    recording = Recording()
    for number, name in enumerate(("one", "two")):
        answer = HeartbeatResponse(error_code=number)
        recording.add(heartbeat(1), answer, 4, connection_number=number, client_id=name)
    broker = FakeBroker(strict(recording))

    assert broker.ask(broker.connect(), heartbeat(1), 4, client_id="two").error_code == 1


def test_request_beyond_the_recording_is_refused() -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(), 4)
    broker = FakeBroker(strict(recording))
    call = broker.connect()
    broker.ask(call, heartbeat(1), 4)

    with pytest.raises(ProtocolViolation, match="were used, 1 on this connection"):
        broker.ask(call, heartbeat(1), 4)


def test_request_of_another_version_is_refused() -> None:
    recording = Recording()
    recording.add(ApiVersionsRequest(), ApiVersionsResponse(), 3)
    recording.add(heartbeat(1), HeartbeatResponse(), 4)
    broker = FakeBroker(strict(recording))
    call = broker.connect()
    broker.ask(call, ApiVersionsRequest(), 3)

    with pytest.raises(
        ProtocolViolation, match="the next recorded request of this API has version v4"
    ):
        broker.ask(call, heartbeat(1), 3)


def test_used_recording_is_not_used_again() -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(), 4)
    broker = FakeBroker(strict(recording))
    call = broker.connect()
    broker.ask(call, heartbeat(1), 4)
    for close in call.on_close.values():
        close()

    with pytest.raises(ProtocolViolation, match="were used, 0 on this connection"):
        broker.ask(broker.connect(), heartbeat(1), 4)


def fetch_request(
    partition: int, offset: int, *, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    requested = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1_000_000
    )
    return FetchRequest(
        max_wait_ms=500,
        max_bytes=1_000_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[requested])],
    )


def fetch_response(partition: int, *values: str, offset: int = 0, end: int) -> FetchResponse:
    row = FetchResponse.PartitionData(
        partition_index=partition,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        records=batch(*values, offset=offset) if values else b"",
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[row])
    return FetchResponse(responses=[topic])


def fetch_recording() -> Recording:
    """Record a client that reads two partitions, and exits during a long poll."""
    recording = Recording()
    topic = MetadataResponse.MetadataResponseTopic(
        name="t",
        partitions=[
            MetadataResponse.MetadataResponsePartition(partition_index=index) for index in (0, 1)
        ],
    )
    recording.add(MetadataRequest(topics=None), MetadataResponse(topics=[topic]), 9)
    recording.add(fetch_request(0, 0), fetch_response(0, "a", "b", end=2), 11)
    recording.add(fetch_request(1, 0), fetch_response(1, "c", end=1), 11)
    recording.add(fetch_request(0, 2), fetch_response(0, end=2), 11)
    recording.add(fetch_request(0, 2), None, 11)
    return recording


def test_fetch_gets_the_response_to_an_equal_fetch() -> None:
    matcher = strict(fetch_recording())
    broker = FakeBroker(matcher)
    call = broker.connect()

    for partition, records in ((1, batch("c")), (0, batch("a", "b"))):
        (topic,) = broker.ask(call, fetch_request(partition, 0), 11).responses
        assert [(row.partition_index, row.records) for row in topic.partitions] == [
            (partition, records)
        ]
    assert matcher.unused == {"Fetch": 1, "Metadata": 1}


def test_fetch_that_was_not_recorded_is_answered_by_offset() -> None:
    broker = FakeBroker(strict(fetch_recording()))
    call = broker.connect()

    for _ in range(2):
        (topic,) = broker.ask(call, fetch_request(0, 1), 11).responses
        (row,) = topic.partitions
        assert (row.partition_index, row.records) == (0, batch("a", "b"))
    assert broker.ask(call, fetch_request(0, 2), 11).responses
    assert isinstance(
        broker.ask(call, fetch_request(0, 2), 11), PendingAnswer
    )  # the end of the recorded records


def test_unknown_fetch_session_is_refused() -> None:
    broker = FakeBroker(strict(fetch_recording()))

    response = broker.ask(broker.connect(), fetch_request(0, 1, session=(4, 1)), 11)

    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_similar_request_has_precedence_over_position() -> None:
    """A client with several partitions writes to them in random order."""

    def to(partition: int, base_offset: int = -1) -> tuple[ProduceRequest, ProduceResponse]:
        data = ProduceRequest.PartitionProduceData(index=partition, records=b"")
        row = ProduceResponse.PartitionProduceResponse(index=partition, base_offset=base_offset)
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        response = [ProduceResponse.TopicProduceResponse(name="t", partition_responses=[row])]
        return ProduceRequest(acks=1, topic_data=topics), ProduceResponse(responses=response)

    recording = Recording()
    for write in ((0, 5), (1, 7), (0, 6)):
        recording.add(*to(*write), 9)
    broker = FakeBroker(strict(recording))
    call = broker.connect()

    response = [broker.ask(call, to(partition)[0], 9) for partition in (1, 0, 0)]
    rows = [row for answer in response for row in answer.responses[0].partition_responses]
    assert [(row.index, row.base_offset) for row in rows] == [(1, 7), (0, 5), (0, 6)]


# --- by content ----------------------------------------------------------------------------------


def test_last_response_is_repeated() -> None:
    recording = Recording()
    for code in (27, 0):
        recording.add(heartbeat(1), HeartbeatResponse(error_code=code), 4)
    broker = FakeBroker(lenient(recording))

    answers = [broker.ask(broker.connect(), heartbeat(5), 4).error_code for _ in range(4)]

    assert answers == [27, 0, 0, 0]


def test_response_is_encoded_in_the_requested_version() -> None:
    recording = Recording()
    recording.add(heartbeat(1), HeartbeatResponse(error_code=27), 4)
    broker = FakeBroker(lenient(recording))

    assert broker.ask(broker.connect(), heartbeat(1), 2).error_code == 27


def test_metadata_of_recorded_topics_is_composed() -> None:
    recording = Recording()
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=bytes(range(16)))
    nodes = [MetadataResponse.MetadataResponseBroker(node_id=10, host="far", port=1)]
    recording.add(MetadataRequest(topics=None), MetadataResponse(brokers=nodes, topics=[topic]), 9)
    topics = [MetadataRequest.MetadataRequestTopic(name="t")]
    broker = FakeBroker(lenient(recording))

    (row,) = broker.ask(broker.connect(), MetadataRequest(topics=topics), 4).topics
    assert row.name == "t"
    topics[0].name = "other"
    with pytest.raises(ProtocolViolation, match="no similar request was recorded"):
        broker.ask(broker.connect(), MetadataRequest(topics=topics), 4)


def test_offsets_and_coordinators_are_composed_for_other_versions() -> None:
    recording = Recording()
    row = OffsetFetchResponse.OffsetFetchResponsePartition(partition_index=0, committed_offset=7)
    topic = OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=[row])
    requested = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    response = OffsetFetchResponse(topics=[topic])
    recording.add(OffsetFetchRequest(group_id="g", topics=[requested]), response, 7)
    at = FindCoordinatorResponse(node_id=10, host="far", port=1)
    recording.add(FindCoordinatorRequest(key="g"), at, 2)
    broker = FakeBroker(lenient(recording))
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)

    answer = broker.ask(broker.connect(), OffsetFetchRequest(groups=[group]), 9)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 7
    answer = broker.ask(broker.connect(), FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert [(coordinator.key, coordinator.port) for coordinator in answer.coordinators] == [
        ("g", 9092)
    ]


def test_list_offsets_response_is_composed_by_partition() -> None:
    recording = Recording()

    def list_offsets(*partitions: int) -> ListOffsetsRequest:
        row = ListOffsetsRequest.ListOffsetsPartition
        rows = [row(partition_index=partition, timestamp=EARLIEST) for partition in partitions]
        topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=rows)
        return ListOffsetsRequest(topics=[topic])

    for number in (0, 1):
        row = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=number, offset=5 + number
        )
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[row])
        recording.add(list_offsets(number), ListOffsetsResponse(topics=[topic]), 5)
    broker = FakeBroker(lenient(recording))

    (response,) = broker.ask(broker.connect(), list_offsets(0, 1), 11).topics
    assert [row.offset for row in response.partitions] == [5, 6]
    with pytest.raises(ProtocolViolation, match="no similar request was recorded"):
        broker.ask(broker.connect(), list_offsets(0, 1, 2), 11)


def test_client_settings_are_not_part_of_the_key() -> None:
    """But `acks` is: there is no recorded response to a request without acks."""
    recording = Recording()
    recording.add(ProduceRequest(acks=-1, timeout_ms=30_000), ProduceResponse(), 9)
    broker = FakeBroker(lenient(recording))
    call = broker.connect()

    assert broker.ask(call, ProduceRequest(acks=1, timeout_ms=5), 9) == ProduceResponse()
    with pytest.raises(ProtocolViolation, match="no similar request was recorded"):
        broker.ask(call, ProduceRequest(acks=0), 9)


def test_request_for_another_group_has_no_answer() -> None:
    recording = Recording()
    recording.add(OffsetFetchRequest(group_id="g", topics=None), OffsetFetchResponse(), 7)
    broker = FakeBroker(lenient(recording))

    with pytest.raises(ProtocolViolation, match="no similar request was recorded"):
        broker.ask(broker.connect(), OffsetFetchRequest(group_id="other", topics=None), 7)


def test_malformed_frame_is_a_protocol_violation() -> None:
    broker = FakeBroker(lenient(Recording()))
    frame = bytearray(b"\0\x0c\0\x04garbage")

    with pytest.raises(ProtocolViolation):
        broker.respond(broker.connect(), frame, 0, len(frame), [])


def test_heartbeats_after_the_last_recorded_one_succeed() -> None:
    recording = Recording()
    recording.add(JoinGroupRequest(group_id="g"), JoinGroupResponse(generation_id=1), 5)
    broker = FakeBroker(lenient(recording))

    assert broker.ask(broker.connect(), heartbeat(1), 4) == HeartbeatResponse()
    elsewhere = HeartbeatRequest(group_id="h", generation_id=1, member_id="m")
    with pytest.raises(ProtocolViolation, match="no similar request was recorded"):
        broker.ask(broker.connect(), elsewhere, 4)
