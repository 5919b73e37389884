"""A recorded cluster answers again: by position, by meaning, and what it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.context import Endpoint, RequestContext
from kafkalite.apis.list_offsets import EARLIEST
from kafkalite.ports.clock import StandingClock
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.replay.library import Library
from kafkalite.replay.standin import Lenient, StandIn
from kafkalite.replay.strict import Strict
from kafkalite.server.logging import Log
from kafkalite.wire.session import Owed
from tests.unit.frames import request_content
from tests.unit.replay.recorded import Recording, batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import Services
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import Pieces

LIVE = 99


class FakeServices:
    """The clock and the addresses that a stand-in asks for."""

    def __init__(self) -> None:
        self.clock = StandingClock(1_000)

    def endpoints(self, listener: str) -> list[Endpoint]:
        assert listener == "PLAINTEXT"
        return [Endpoint(1, "localhost", 9092), Endpoint(2, "localhost", 9093)]


class Stand:
    """A stand-in, and the connections to it."""

    def __init__(self, source: Strict | Lenient, *, live: bool = False) -> None:
        self.services = FakeServices()
        self.passed_on: list[bytes] = []
        self.stand_in = StandIn(source, [10, 20], Log(), is_live_on_miss=live)
        self.dispatch = self.stand_in.enter(cast("Services", self.services), self._live)

    def _live(
        self, context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int:
        del context, out
        self.passed_on.append(bytes(buffer[start:end]))
        return LIVE

    def connect(self) -> RequestContext:
        return RequestContext(
            services=cast("Services", self.services),
            node_id=1,
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )

    def ask(
        self, context: RequestContext, request: Message, version: int, client_id: str = "client"
    ) -> Any:  # noqa: ANN401 - any response, or what is owed
        frame = bytearray(
            request_content(request, version, correlation_id=4711, client_id=client_id.encode())
        )
        out: Pieces = []
        size = self.dispatch(context, frame, 0, len(frame), out)
        if isinstance(size, Owed) or not out:
            return size
        assert size == sum(map(len, out))
        return read_answer(request, version, out)


def read_answer(request: Message, version: int, out: Pieces) -> Any:  # noqa: ANN401 - see Stand.ask
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    frame = b"".join(out)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 4711
    start = 8 + codec.response_header_version(key, version)
    return codec.response_parser(key, version)(frame, start, len(frame))[0]


def strict(recording: Recording) -> Strict:
    return Strict(recording.exchanges, Library.of(recording.exchanges))


def lenient(recording: Recording) -> Lenient:
    return Lenient(recording.exchanges, Library.of(recording.exchanges))


MATCHES = pytest.mark.parametrize("match", [strict, lenient])
if TYPE_CHECKING:
    Match = Callable[[Recording], Strict | Lenient]


def beat(generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")


@MATCHES
def test_equal_requests_get_the_recorded_answers_in_their_order(match: Match) -> None:
    recording = Recording()
    for code in (0, 27, 25):
        recording.say(beat(1), HeartbeatResponse(error_code=code), 4)
    stand = Stand(match(recording))
    context = stand.connect()

    answers = [stand.ask(context, beat(1), 4).error_code for _ in range(3)]

    assert answers == [0, 27, 25]
    assert stand.stand_in.played.answered == 3


@MATCHES
def test_addresses_are_ours_in_the_order_of_the_recorded_nodes(match: Match) -> None:
    recording = Recording()
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host="far", port=1)
        for node in (20, 10)
    ]
    recording.say(MetadataRequest(topics=None), MetadataResponse(brokers=brokers), 12)
    stand = Stand(match(recording))

    answer = stand.ask(stand.connect(), MetadataRequest(topics=None), 12)

    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (20, "localhost", 9093),
        (10, "localhost", 9092),
    ]


@MATCHES
def test_what_took_a_while_takes_as_long_again(match: Match) -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(), 4, took_ms=250)
    stand = Stand(match(recording))

    owed = stand.ask(stand.connect(), beat(1), 4)

    assert isinstance(owed, Owed)
    stand.services.clock.advance(249)
    assert not owed.waiting.is_resolved
    stand.services.clock.advance(1)
    out: Pieces = []
    owed.finish(owed.waiting.value, out)
    assert read_answer(beat(1), 4, out) == HeartbeatResponse()


def test_a_recorded_client_that_was_not_answered_is_not_answered() -> None:
    recording = Recording()
    recording.say(beat(1), None, 4)
    stand = Stand(strict(recording))

    owed = stand.ask(stand.connect(), beat(1), 4)

    assert isinstance(owed, Owed)
    assert not owed.waiting.is_resolved


@MATCHES
def test_produce_without_acknowledgement_has_no_answer(match: Match) -> None:
    recording = Recording()
    recording.say(ProduceRequest(acks=0), None, 9)
    stand = Stand(match(recording))

    assert stand.ask(stand.connect(), ProduceRequest(acks=0), 9) == 0


@MATCHES
def test_what_the_capture_does_not_have_ends_the_connection(match: Match) -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(), 4)
    stand = Stand(match(recording))

    with pytest.raises(ProtocolViolation, match="the capture has no answer to Metadata v12"):
        stand.ask(stand.connect(), MetadataRequest(topics=None), 12)
    assert stand.stand_in.played.missed == 1


@MATCHES
def test_what_the_capture_does_not_have_is_left_to_the_live_broker(match: Match) -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(), 4)
    stand = Stand(match(recording), live=True)
    asked = MetadataRequest(topics=None)

    assert stand.ask(stand.connect(), asked, 12) == LIVE
    assert stand.passed_on == [request_content(asked, 12, correlation_id=4711, client_id=b"client")]


# --- by position ---------------------------------------------------------------------------------


def conversation() -> Recording:
    """Record two connections of one client that begin alike."""
    recording = Recording()
    for number in (0, 1):
        recording.say(ApiVersionsRequest(), ApiVersionsResponse(throttle_time_ms=7), 3, on=number)
    recording.say(MetadataRequest(topics=None), MetadataResponse(cluster_id="c"), 12, on=0)
    recording.say(beat(1), HeartbeatResponse(error_code=27), 4, on=1)
    return recording


def test_connections_that_begin_alike_change_places_when_they_part() -> None:
    stand = Stand(strict(conversation()))
    first, second = stand.connect(), stand.connect()
    for context in (first, second):
        assert stand.ask(context, ApiVersionsRequest(), 3).throttle_time_ms == 7

    assert stand.ask(first, beat(1), 4).error_code == 27
    assert stand.ask(second, MetadataRequest(topics=None), 12).cluster_id == "c"


def test_a_connection_takes_a_tape_that_nobody_plays_yet() -> None:
    stand = Stand(strict(conversation()))
    context = stand.connect()
    stand.ask(context, ApiVersionsRequest(), 3)

    assert stand.ask(context, beat(1), 4).error_code == 27
    other = stand.connect()
    stand.ask(other, ApiVersionsRequest(), 3)
    assert stand.ask(other, MetadataRequest(topics=None), 12).cluster_id == "c"


def test_apis_do_not_wait_for_each_other_but_each_keeps_its_order() -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(error_code=27), 4)
    recording.say(MetadataRequest(topics=None), MetadataResponse(cluster_id="c"), 12)
    recording.say(beat(1), HeartbeatResponse(error_code=0), 4)
    source = strict(recording)
    stand = Stand(source)
    context = stand.connect()

    assert stand.ask(context, MetadataRequest(topics=None), 12).cluster_id == "c"
    assert stand.ask(context, beat(1), 4).error_code == 27
    assert source.not_asked == {"Heartbeat": 1}
    assert stand.ask(context, beat(1), 4).error_code == 0
    assert source.not_asked == {}


def test_what_finds_the_way_is_told_as_often_as_it_is_asked() -> None:
    stand = Stand(strict(conversation()))
    contexts = [stand.connect() for _ in range(4)]

    told = [stand.ask(each, ApiVersionsRequest(), 3).throttle_time_ms for each in contexts]
    assert told == [7] * 4
    assert [stand.ask(each, MetadataRequest(topics=None), 12).cluster_id for each in contexts] == [
        "c"
    ] * 4


def test_a_connection_goes_on_where_it_began() -> None:
    """Two members of one name: each hears its own heartbeats, however they take turns."""
    recording = Recording()
    for code in (0, 27):
        for number in (0, 1):
            recording.say(beat(1), HeartbeatResponse(error_code=code + number), 4, on=number)
    stand = Stand(strict(recording))
    one, other = stand.connect(), stand.connect()

    answers = [stand.ask(each, beat(1), 4).error_code for each in (one, other, other, one)]
    assert answers == [0, 1, 28, 27]


def test_a_client_gets_the_tape_of_its_own_name() -> None:
    recording = Recording()
    for number, name in enumerate(("one", "two")):
        answer = HeartbeatResponse(error_code=number)
        recording.say(beat(1), answer, 4, on=number, client_id=name)
    stand = Stand(strict(recording))

    assert stand.ask(stand.connect(), beat(1), 4, client_id="two").error_code == 1


def test_a_tape_ends() -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(), 4)
    stand = Stand(strict(recording))
    context = stand.connect()
    stand.ask(context, beat(1), 4)

    with pytest.raises(ProtocolViolation, match="was played, 1 times on this connection"):
        stand.ask(context, beat(1), 4)


def test_another_version_is_not_what_was_recorded() -> None:
    recording = Recording()
    recording.say(ApiVersionsRequest(), ApiVersionsResponse(), 3)
    recording.say(beat(1), HeartbeatResponse(), 4)
    stand = Stand(strict(recording))
    context = stand.connect()
    stand.ask(context, ApiVersionsRequest(), 3)

    with pytest.raises(ProtocolViolation, match="what is left of this API is of v4"):
        stand.ask(context, beat(1), 3)


def test_a_tape_that_was_played_is_not_played_again() -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(), 4)
    stand = Stand(strict(recording))
    context = stand.connect()
    stand.ask(context, beat(1), 4)
    for close in context.on_close.values():
        close()

    with pytest.raises(ProtocolViolation, match="was played, 0 times on this connection"):
        stand.ask(stand.connect(), beat(1), 4)


def about(partition: int, offset: int, *, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    wanted = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1_000_000
    )
    return FetchRequest(
        max_wait_ms=500,
        max_bytes=1_000_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[wanted])],
    )


def of(partition: int, *values: str, offset: int = 0, end: int) -> FetchResponse:
    row = FetchResponse.PartitionData(
        partition_index=partition,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        records=batch(*values, offset=offset) if values else b"",
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[row])
    return FetchResponse(responses=[topic])


def fetches() -> Recording:
    """Record who reads two partitions, and leaves while it waits for more."""
    recording = Recording()
    topic = MetadataResponse.MetadataResponseTopic(
        name="t",
        partitions=[
            MetadataResponse.MetadataResponsePartition(partition_index=index) for index in (0, 1)
        ],
    )
    recording.say(MetadataRequest(topics=None), MetadataResponse(topics=[topic]), 9)
    recording.say(about(0, 0), of(0, "a", "b", end=2), 11)
    recording.say(about(1, 0), of(1, "c", end=1), 11)
    recording.say(about(0, 2), of(0, end=2), 11)
    recording.say(about(0, 2), None, 11)
    return recording


def test_a_fetch_gets_the_answer_of_one_that_asked_the_same() -> None:
    source = strict(fetches())
    stand = Stand(source)
    context = stand.connect()

    for partition, records in ((1, batch("c")), (0, batch("a", "b"))):
        (topic,) = stand.ask(context, about(partition, 0), 11).responses
        assert [(row.partition_index, row.records) for row in topic.partitions] == [
            (partition, records)
        ]
    assert source.not_asked == {"Fetch": 1, "Metadata": 1}


def test_who_asks_for_other_records_than_were_asked_for_reads_by_offset() -> None:
    stand = Stand(strict(fetches()))
    context = stand.connect()

    for _ in range(2):
        (topic,) = stand.ask(context, about(0, 1), 11).responses
        (row,) = topic.partitions
        assert (row.partition_index, row.records) == (0, batch("a", "b"))
    assert stand.ask(context, about(0, 2), 11).responses
    assert isinstance(stand.ask(context, about(0, 2), 11), Owed)  # it has come to the end


def test_a_session_in_which_nobody_asked_that_begins_anew() -> None:
    stand = Stand(strict(fetches()))

    told = stand.ask(stand.connect(), about(0, 1, session=(4, 1)), 11)

    assert told.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_api_is_answered_by_what_it_is_about_before_its_place() -> None:
    """A client with several partitions writes to them in an order of chance."""

    def to(partition: int, base_offset: int = -1) -> tuple[ProduceRequest, ProduceResponse]:
        data = ProduceRequest.PartitionProduceData(index=partition, records=b"")
        row = ProduceResponse.PartitionProduceResponse(index=partition, base_offset=base_offset)
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        told = [ProduceResponse.TopicProduceResponse(name="t", partition_responses=[row])]
        return ProduceRequest(acks=1, topic_data=topics), ProduceResponse(responses=told)

    recording = Recording()
    for place in ((0, 5), (1, 7), (0, 6)):
        recording.say(*to(*place), 9)
    stand = Stand(strict(recording))
    context = stand.connect()

    told = [stand.ask(context, to(partition)[0], 9) for partition in (1, 0, 0)]
    rows = [row for each in told for row in each.responses[0].partition_responses]
    assert [(row.index, row.base_offset) for row in rows] == [(1, 7), (0, 5), (0, 6)]


# --- by meaning ----------------------------------------------------------------------------------


def test_the_last_answer_stays() -> None:
    recording = Recording()
    for code in (27, 0):
        recording.say(beat(1), HeartbeatResponse(error_code=code), 4)
    stand = Stand(lenient(recording))

    answers = [stand.ask(stand.connect(), beat(5), 4).error_code for _ in range(4)]

    assert answers == [27, 0, 0, 0]


def test_another_version_gets_the_answer_in_its_own_words() -> None:
    recording = Recording()
    recording.say(beat(1), HeartbeatResponse(error_code=27), 4)
    stand = Stand(lenient(recording))

    assert stand.ask(stand.connect(), beat(1), 2).error_code == 27


def test_metadata_is_answered_however_it_is_asked_for() -> None:
    recording = Recording()
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=bytes(range(16)))
    nodes = [MetadataResponse.MetadataResponseBroker(node_id=10, host="far", port=1)]
    recording.say(MetadataRequest(topics=None), MetadataResponse(brokers=nodes, topics=[topic]), 9)
    asked = [MetadataRequest.MetadataRequestTopic(name="t")]
    stand = Stand(lenient(recording))

    (row,) = stand.ask(stand.connect(), MetadataRequest(topics=asked), 4).topics
    assert row.name == "t"
    asked[0].name = "other"
    with pytest.raises(ProtocolViolation, match="nobody asked for anything like it"):
        stand.ask(stand.connect(), MetadataRequest(topics=asked), 4)


def test_offsets_and_coordinators_are_told_to_clients_of_other_versions() -> None:
    recording = Recording()
    row = OffsetFetchResponse.OffsetFetchResponsePartition(partition_index=0, committed_offset=7)
    topic = OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=[row])
    asked = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    told = OffsetFetchResponse(topics=[topic])
    recording.say(OffsetFetchRequest(group_id="g", topics=[asked]), told, 7)
    at = FindCoordinatorResponse(node_id=10, host="far", port=1)
    recording.say(FindCoordinatorRequest(key="g"), at, 2)
    stand = Stand(lenient(recording))
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)

    answer = stand.ask(stand.connect(), OffsetFetchRequest(groups=[group]), 9)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 7
    answer = stand.ask(stand.connect(), FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert [(each.key, each.port) for each in answer.coordinators] == [("g", 9092)]


def test_ends_of_logs_are_told_however_many_are_asked_for_at_once() -> None:
    recording = Recording()

    def asked(*partitions: int) -> ListOffsetsRequest:
        row = ListOffsetsRequest.ListOffsetsPartition
        rows = [row(partition_index=each, timestamp=EARLIEST) for each in partitions]
        topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=rows)
        return ListOffsetsRequest(topics=[topic])

    for number in (0, 1):
        row = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=number, offset=5 + number
        )
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[row])
        recording.say(asked(number), ListOffsetsResponse(topics=[topic]), 5)
    stand = Stand(lenient(recording))

    (told,) = stand.ask(stand.connect(), asked(0, 1), 11).topics
    assert [row.offset for row in told.partitions] == [5, 6]
    with pytest.raises(ProtocolViolation, match="nobody asked for anything like it"):
        stand.ask(stand.connect(), asked(0, 1, 2), 11)


def test_what_a_client_is_like_is_not_what_it_asks() -> None:
    """But whether it waits for an answer is: there is none for one that did not."""
    recording = Recording()
    recording.say(ProduceRequest(acks=-1, timeout_ms=30_000), ProduceResponse(), 9)
    stand = Stand(lenient(recording))
    context = stand.connect()

    assert stand.ask(context, ProduceRequest(acks=1, timeout_ms=5), 9) == ProduceResponse()
    with pytest.raises(ProtocolViolation, match="nobody asked for anything like it"):
        stand.ask(context, ProduceRequest(acks=0), 9)


def test_an_answer_about_something_else_is_none() -> None:
    recording = Recording()
    recording.say(OffsetFetchRequest(group_id="g", topics=None), OffsetFetchResponse(), 7)
    stand = Stand(lenient(recording))

    with pytest.raises(ProtocolViolation, match="nobody asked for anything like it"):
        stand.ask(stand.connect(), OffsetFetchRequest(group_id="other", topics=None), 7)


def test_a_frame_that_is_no_request_ends_the_connection() -> None:
    stand = Stand(lenient(Recording()))
    frame = bytearray(b"\0\x0c\0\x04garbage")

    with pytest.raises(ProtocolViolation):
        stand.dispatch(stand.connect(), frame, 0, len(frame), [])


def test_members_that_live_longer_than_they_were_recorded_go_on() -> None:
    recording = Recording()
    recording.say(JoinGroupRequest(group_id="g"), JoinGroupResponse(generation_id=1), 5)
    stand = Stand(lenient(recording))

    assert stand.ask(stand.connect(), beat(1), 4) == HeartbeatResponse()
    elsewhere = HeartbeatRequest(group_id="h", generation_id=1, member_id="m")
    with pytest.raises(ProtocolViolation, match="nobody asked for anything like it"):
        stand.ask(stand.connect(), elsewhere, 4)
