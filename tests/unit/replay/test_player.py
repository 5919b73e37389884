"""A capture of one broker played on another: what is sent, mapped, skipped and told."""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite import replay as package
from kafkalite.capture.model import Direction
from kafkalite.control.kafka_client import KafkaClient
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.protocol.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.versions import Versions
from kafkalite.replay.calls import NothingToReplayError, ReplayError, replay, replay_async
from kafkalite.replay.findings import Severity
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.pace import RealPace
from kafkalite.replay.plan import MOST_STEPS_AHEAD, steps
from kafkalite.replay.player import Player
from kafkalite.replay.refusals import NOT_SERVED, TOO_FAR_AHEAD
from kafkalite.replay.report import FailOn
from kafkalite.replay.target import Target
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import Producer, build_batch
from kafkalite.storage.records import NewRecord
from kafkalite.testing import Broker
from tests.captures.record import CORPUS
from tests.conformance.raw import RawClient
from tests.unit.control.scripted_broker import listening
from tests.unit.replay.made import Made, connection

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from kafkalite.replay.report import ReplayReport

ONE, TWO, THREE = connection(0), connection(1), connection(2)


def client_of(broker: Broker) -> RawClient:
    return RawClient(int(broker.bootstrap_servers.partition(",")[0].rpartition(":")[2]))


def produce(client: RawClient, producer: Producer, value: bytes) -> int:
    batch = build_batch([NewRecord(None, value, 1_700_000_000_000)], producer=producer)
    row = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[row])
    told = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    code: int = told.responses[0].partition_responses[0].error_code
    return code


def join(client: RawClient, group: str, member_id: str = "") -> tuple[int, str, int]:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    told = client.call(request, 5)
    return told.error_code, told.member_id, told.generation_id


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a producer, a member of a group, and a reader with a fetch session."""
    directory = tmp_path_factory.mktemp("capture")
    with (
        Broker(topics={"orders": 1}, capture=directory) as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(FindCoordinatorRequest(key="g"), 1)
        client.call(MetadataRequest(topics=None), 13)
        told = client.call(InitProducerIdRequest(), 4)
        producer = Producer(told.producer_id, told.producer_epoch, 0)
        assert produce(client, producer, b"one") == ErrorCode.NONE
        _, member_id, _ = join(client, "g")
        error, _, generation = join(client, "g", member_id)
        assert error == ErrorCode.NONE
        sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert client.call(sync, 3).error_code == ErrorCode.NONE
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        client.call(beat, 3)
        row = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic="orders", partitions=[row])
        fetch = FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic])
        session = client.call(fetch, 11).session_id
        assert session
        client.call(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=1), 11)
    return directory


def test_what_the_broker_invents_means_the_targets(capture: Path) -> None:
    with Broker(topics={"orders": 1}) as broker:
        with closing(client_of(broker)) as client:
            # The target's next ids are others: the recorded ones would be refused.
            client.call(InitProducerIdRequest(), 4)
            client.call(FindCoordinatorRequest(key="g"), 1)
            join(client, "other")
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.findings == []
    assert report.responses == report.equal == report.requests == 10
    assert report.connections == 1
    assert report.apis["JoinGroup"] == 2


def test_a_target_that_does_otherwise_is_found_out(capture: Path) -> None:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    told = {(each.api, each.path): each for each in report.findings}
    refused = told["Produce", "responses.partition_responses.error_code"]
    assert refused.severity is Severity.ERROR
    assert (refused.recorded, refused.target) == ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
    assert ("Metadata", "topics") in told


def test_a_release_that_lacks_a_version_is_told_and_not_asked(capture: Path) -> None:
    with Broker(topics={"orders": 1}, as_version="3.3") as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.skipped["Metadata", NOT_SERVED] == 1
    assert report.at_least(Severity.UNANSWERED)


def test_by_a_driven_clock_what_expires_expires_where_it_did(tmp_path: Path) -> None:
    with (
        Broker(capture=tmp_path / "capture", clock="manual@2026-03-01T00:00:00Z") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(FindCoordinatorRequest(key="g"), 1)
        _, member_id, _ = join(client, "g")
        _, _, generation = join(client, "g", member_id)
        sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id)
        client.call(sync, 3)
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        for seconds, error in ((9, 0), (9, 0), (11, 25)):
            broker.clock.advance(seconds=seconds)
            assert client.call(beat, 3).error_code == error
        broker.clock.advance(days=1)
        with closing(client_of(broker)) as another:  # a connection so idle is closed
            assert another.call(beat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    with Broker(clock="manual@2026-02-01T00:00:00Z") as driven:
        report = replay(
            tmp_path / "capture",
            to=driven.bootstrap_servers,
            options=ReplayOptions(clock=driven.clock),
        )
        assert driven.clock.now().isoformat() >= "2026-03-02T00:00:29"
    assert report.findings == []
    assert report.recorded_seconds > 86_400
    with Broker() as real:
        without = replay(tmp_path / "capture", to=real.bootstrap_servers)
    assert {found.target for found in without.findings} == {"NONE"}


def test_a_target_of_another_size_takes_all_connections(tmp_path: Path) -> None:
    with (
        Broker(3, topics={"orders": 3}, capture=tmp_path / "capture") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(MetadataRequest(topics=None), 12)
    with Broker(topics={"orders": 3}) as single:
        report = replay(tmp_path / "capture", to=single.bootstrap_servers)
    assert report.findings == []
    assert report.notes == ["the recorded cluster has 3 nodes, the target 1"]


def test_a_topic_with_fewer_partitions_at_the_target_is_noted(tmp_path: Path) -> None:
    with (
        Broker(topics={"orders": 3}, capture=tmp_path / "capture") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(MetadataRequest(topics=None), 12)
    with Broker(topics={"orders": 1}) as narrower:
        report = replay(tmp_path / "capture", to=narrower.bootstrap_servers)
    assert len(report.notes) == 1
    assert report.notes[0].startswith("topic orders has fewer partitions at the target")


def test_the_package_gives_its_calls_by_name(capture: Path) -> None:
    assert package.replay is replay
    assert package.diff(capture, [capture]).changes == []
    with pytest.raises(AttributeError, match="rewind"):
        package.rewind  # noqa: B018 - there is none


def test_a_replay_of_nothing_is_no_success(capture: Path, tmp_path: Path) -> None:
    with Broker() as broker:
        with pytest.raises(NothingToReplayError, match=r"no requests of clients 'nobody\*' in "):
            replay(capture, to=broker.bootstrap_servers, options=ReplayOptions(clients="nobody*"))
        with pytest.raises(NothingToReplayError, match=r"no requests of clients 'nobody\*' in "):
            # It holds versions that are unknown here, which is not why.
            replay(CORPUS, to=broker.bootstrap_servers, options=ReplayOptions(clients="nobody*"))
        with pytest.raises(NothingToReplayError, match="gone: No such file"):
            replay(tmp_path / "gone", to=broker.bootstrap_servers)


def test_a_target_that_is_not_there_is_one_line(capture: Path) -> None:
    with pytest.raises(ReplayError, match="connection refused"):
        replay(capture, to="127.0.0.1:1")


async def test_it_runs_within_a_loop_as_well(capture: Path) -> None:
    async with Broker(topics={"orders": 1}) as broker:
        report = await replay_async(
            [capture], to=broker.bootstrap_servers, options=ReplayOptions(speed=1000.0)
        )
    assert report.findings == []


async def played(
    made: Made, patience_s: float = 5.0, most_steps: int = MOST_STEPS_AHEAD
) -> ReplayReport:
    async with Broker(topics={"orders": 1}) as broker:
        bootstrap = Address.parse(broker.bootstrap_servers)
        async with KafkaClient([bootstrap]) as client:
            target = await Target.find(client, bootstrap)
            player = Player(target, RealPace(None), ReplayOptions(patience_s=patience_s))
            return await player.play(steps(made.events, lambda _: None, most_steps=most_steps))


async def test_a_connection_that_the_target_ends_is_told_and_opened_again() -> None:
    made = Made()
    made.open(ONE)
    beat = HeartbeatRequest(group_id="g", member_id="m")
    # A body that ends too early: no broker answers that.
    made.raw(ONE, Direction.REQUEST, struct.pack(">hhih", 12, 4, 99, 0) + b"\0\7")
    made.raw(ONE, Direction.RESPONSE, struct.pack(">i", 99) + b"\0" * 7)
    made.call(ONE, beat, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR), 4)
    report = await played(made)
    assert [(found.severity, found.target) for found in report.findings] == [
        (Severity.UNANSWERED, "the end of the connection")
    ]
    assert report.connections == 2
    assert report.equal == 1


def polled() -> FetchRequest:
    row = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[row])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=[topic])


async def test_an_answer_that_never_comes_is_told_and_the_rest_goes_on() -> None:
    made = Made()
    made.open(ONE)
    made.open(TWO)
    made.open(THREE)
    made.call(ONE, polled(), FetchResponse(), 11)
    # One that took longer may take longer again, and is of the same kind.
    longer = made.send(THREE, polled(), 11)
    made.call(
        TWO,
        HeartbeatRequest(group_id="g"),
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        4,
    )
    made.answer(THREE, longer, FetchResponse(), 11)
    report = await played(made, 0.05)
    (found,) = report.findings
    assert (found.severity, found.api, found.times) == (Severity.UNANSWERED, "Fetch", 2)
    assert found.target == "none in time"
    assert report.equal == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 400 Bad Request", "a frame of 1213486160 bytes, as no broker sends one"),
        (struct.pack(">ii", 4, 77), "an answer to request 77, which was not asked"),
        (struct.pack(">ii", 90, 1) + b"half", "the end of the connection"),
    ],
)
async def test_a_target_that_talks_nonsense_is_given_up(said: bytes, told: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(said)
        writer.write_eof()
        await reader.read()
        writer.close()

    made = Made()
    made.open(ONE)
    for _ in range(20):
        made.call(ONE, HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4)
    async with listening(serve) as address, KafkaClient([address]) as client:
        served = {12: Versions(0, 4)}
        player = Player(
            Target(client, address, {1: address}, served),
            RealPace(None),
            ReplayOptions(patience_s=5),
        )
        report = await player.play(steps(made.events, lambda _: None))
    assert report.broken_off == f"all it gives is {told}, on 10 connections in a row"
    assert report.failed(FailOn.NONE)
    assert {found.target for found in report.findings} == {told}


async def test_versions_that_nobody_here_knows_go_out_as_they_are() -> None:
    made = Made()
    made.open(ONE)
    newer = struct.pack(">hhih", 18, 9, 1, 0) + b"\0\0"
    made.raw(ONE, Direction.REQUEST, newer)
    # Whoever does not know the version answers in the first one.
    made.raw(ONE, Direction.RESPONSE, struct.pack(">ihi", 1, ErrorCode.UNSUPPORTED_VERSION, 0))
    made.raw(ONE, Direction.REQUEST, struct.pack(">hhih", 18, 9, 2, 0) + b"\0\0")
    made.raw(ONE, Direction.RESPONSE, struct.pack(">ihi", 2, ErrorCode.NONE, 0) + b"news")
    made.call(ONE, HeartbeatRequest(group_id="g"), beaten(), 4)
    report = await played(made)
    assert report.requests == 3
    assert report.notes == ["1 answers were not compared: ApiVersions v9, of which 0-4 are known"]
    assert {found.path for found in report.findings} == {"api_keys"}


def beaten() -> HeartbeatResponse:
    return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


async def test_what_needs_no_answer_waits_for_none() -> None:
    made = Made()
    made.open(ONE)
    made.send(ONE, ProduceRequest(acks=0), 9)
    made.call(
        ONE,
        HeartbeatRequest(group_id="g"),
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        4,
    )
    made.send(ONE, polled(), 11)
    made.close(ONE)
    report = await played(made)
    assert (report.requests, report.responses, report.findings) == (3, 1, [])


async def test_what_is_left_out_for_its_answer_comes_too_late_is_told() -> None:
    made = Made()
    made.open(ONE)
    made.open(TWO)
    late = made.send(ONE, HeartbeatRequest(group_id="g"), 4)
    for _ in range(3):
        made.call(TWO, HeartbeatRequest(group_id="g"), beaten(), 4)
    made.answer(ONE, late, beaten(), 4)
    report = await played(made, most_steps=4)
    assert (report.requests, report.responses, report.findings) == (3, 3, [])
    assert report.skipped == {("Heartbeat", TOO_FAR_AHEAD): 1}


async def test_who_meets_a_change_of_its_group_is_not_taken_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Made()
    made.open(ONE)
    made.open(TWO)
    leaving = LeaveGroupRequest(group_id="g", member_id="m")
    left = LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    first = made.send(ONE, leaving, 2)
    second = made.send(TWO, HeartbeatRequest(group_id="g"), 4)
    made.answer(ONE, first, left, 2)
    made.answer(TWO, second, beaten(), 4)
    made.call(TWO, HeartbeatRequest(group_id="g"), beaten(), 4)
    caught_up = []
    catch_up = Target.catch_up

    async def counted(target: Target, node_id: int) -> None:
        caught_up.append(node_id)
        await catch_up(target, node_id)

    monkeypatch.setattr(Target, "catch_up", counted)
    report = await played(made)
    assert (report.responses, len(caught_up)) == (3, 1)
    assert not [each for each in report.findings if each.severity is Severity.UNANSWERED]


async def test_nodes_where_none_can_be_are_told_by_their_addresses() -> None:
    made = Made()
    two = connection(2, node_id=2)
    made.open(two)
    made.call(two, HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4)
    nobody = Address("127.0.0.1", 1)
    for address, told in (
        (Address("127.0.0.1", -1), "no broker can be at 127.0.0.1:-1"),
        (Address("x" * 70, 1), f"no broker answers at {'x' * 70}:1: this is no name of a host"),
        (nobody, "no broker answers at 127.0.0.1:1: connection refused"),
    ):
        async with KafkaClient([nobody]) as client:
            target = Target(client, nobody, {1: nobody, 2: address}, {12: Versions(0, 4)})
            player = Player(target, RealPace(None), ReplayOptions())
            report = await player.play(steps(made.events, lambda _: None))
        assert report.broken_off == told
