"""Replay of a capture on another broker: requests sent, mapped and skipped, and findings."""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import CLOSED_REASON
from kafkalite.lab import replay as package
from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.comparison.refusals import BEYOND_LOOK_AHEAD, NOT_SERVED
from kafkalite.lab.replay.diff.captures import diff
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.pacing import RealPace
from kafkalite.lab.replay.player.player import Player
from kafkalite.lab.replay.player.run import (
    NothingToReplayError,
    ReplayError,
    replay,
    replay_async,
)
from kafkalite.lab.replay.player.steps import MAX_STEPS_AHEAD, steps
from kafkalite.lab.replay.player.target import Target
from kafkalite.lab.replay.player.timeouts import STAND_IN_HINT
from kafkalite.lab.replay.report import FailOn
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import BatchProducer, build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing import Broker
from tests.captures.record import CORPUS
from tests.conformance.raw import RawClient
from tests.unit.client.scripted_broker import listening
from tests.unit.lab.replay.capture_builder import CaptureBuilder, connection

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from kafkalite.lab.replay.report import ReplayReport

ONE, TWO, THREE = connection(0), connection(1), connection(2)


def client_of(broker: Broker) -> RawClient:
    return RawClient(int(broker.bootstrap_servers.partition(",")[0].rpartition(":")[2]))


def produce(client: RawClient, producer: BatchProducer, value: bytes) -> int:
    batch = build_batch([NewRecord(None, value, 1_700_000_000_000)], producer=producer)
    row = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[row])
    response = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    code: int = response.responses[0].partition_responses[0].error_code
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
    response = client.call(request, 5)
    return response.error_code, response.member_id, response.generation_id


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a producer, a group member, and a consumer with a fetch session."""
    directory = tmp_path_factory.mktemp("capture")
    with (
        Broker(topics={"orders": 1}, capture=directory) as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(FindCoordinatorRequest(key="g"), 1)
        client.call(MetadataRequest(topics=None), 13)
        response = client.call(InitProducerIdRequest(), 4)
        producer = BatchProducer(response.producer_id, response.producer_epoch, 0)
        assert produce(client, producer, b"one") == ErrorCode.NONE
        _, member_id, _ = join(client, "g")
        error, _, generation = join(client, "g", member_id)
        assert error == ErrorCode.NONE
        sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert client.call(sync, 3).error_code == ErrorCode.NONE
        heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        client.call(heartbeat, 3)
        row = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic="orders", partitions=[row])
        fetch = FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic])
        session = client.call(fetch, 11).session_id
        assert session
        client.call(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=1), 11)
    return directory


def test_generated_ids_are_translated(capture: Path) -> None:
    with Broker(topics={"orders": 1}) as broker:
        with closing(client_of(broker)) as client:
            # The target's ids differ, so it would refuse the recorded ones.
            client.call(InitProducerIdRequest(), 4)
            client.call(FindCoordinatorRequest(key="g"), 1)
            join(client, "other")
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.findings == []
    assert report.responses == report.equal == report.requests == 10
    assert report.connections == 1
    assert report.apis["JoinGroup"] == 2


def test_differences_of_a_target_are_found(capture: Path) -> None:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    findings = {(finding.api, finding.path): finding for finding in report.findings}
    refused = findings["Produce", "responses.partition_responses.error_code"]
    assert refused.severity is Severity.ERROR
    assert (refused.recorded, refused.target) == ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
    assert ("Metadata", "topics") in findings


def test_unsupported_version_is_reported_and_not_sent(capture: Path) -> None:
    with Broker(topics={"orders": 1}, as_version="3.3") as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.skipped["Metadata", NOT_SERVED] == 1
    assert report.at_least(Severity.UNANSWERED)


def test_controlled_clock_expires_members_at_the_recorded_times(tmp_path: Path) -> None:
    with (
        Broker(capture=tmp_path / "capture", clock="manual@2026-03-01T00:00:00Z") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(FindCoordinatorRequest(key="g"), 1)
        _, member_id, _ = join(client, "g")
        _, _, generation = join(client, "g", member_id)
        sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id)
        client.call(sync, 3)
        heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        for seconds, error in ((9, 0), (9, 0), (11, 25)):
            broker.clock.advance(seconds=seconds)
            assert client.call(heartbeat, 3).error_code == error
        broker.clock.advance(days=1)
        with closing(client_of(broker)) as another:  # the idle connection is closed
            assert another.call(heartbeat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
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
        without_driven_clock = replay(tmp_path / "capture", to=real.bootstrap_servers)
    assert {found.target for found in without_driven_clock.findings} == {"NONE"}


def test_target_with_fewer_nodes_gets_all_connections(tmp_path: Path) -> None:
    with (
        Broker(3, topics={"orders": 3}, capture=tmp_path / "capture") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(MetadataRequest(topics=None), 12)
    with Broker(topics={"orders": 3}) as single:
        report = replay(tmp_path / "capture", to=single.bootstrap_servers)
    assert report.findings == []
    assert report.notes == ["the recorded cluster has 3 nodes, the target 1"]


def test_topic_with_fewer_partitions_at_the_target_is_noted(tmp_path: Path) -> None:
    with (
        Broker(topics={"orders": 3}, capture=tmp_path / "capture") as broker,
        closing(client_of(broker)) as client,
    ):
        client.call(MetadataRequest(topics=None), 12)
    with Broker(topics={"orders": 1}) as smaller:
        report = replay(tmp_path / "capture", to=smaller.bootstrap_servers)
    assert len(report.notes) == 1
    assert report.notes[0].startswith("topic orders has fewer partitions at the target")


def test_package_exports_its_functions(capture: Path) -> None:
    assert package.replay is replay
    assert diff(capture, [capture]).changes == []
    with pytest.raises(AttributeError, match="rewind"):
        package.rewind  # noqa: B018 - it does not exist


def test_replay_without_requests_is_an_error(capture: Path, tmp_path: Path) -> None:
    with Broker() as broker:
        with pytest.raises(NothingToReplayError, match=r"no requests of clients 'unknown\*' in "):
            replay(capture, to=broker.bootstrap_servers, options=ReplayOptions(clients="unknown*"))
        with pytest.raises(NothingToReplayError, match=r"no requests of clients 'unknown\*' in "):
            # Its requests with unknown versions are not the reason.
            replay(CORPUS, to=broker.bootstrap_servers, options=ReplayOptions(clients="unknown*"))
        with pytest.raises(NothingToReplayError, match="missing: No such file"):
            replay(tmp_path / "missing", to=broker.bootstrap_servers)


def test_unreachable_target_is_an_error(capture: Path) -> None:
    with pytest.raises(ReplayError, match="connection refused"):
        replay(capture, to="127.0.0.1:1")


async def test_replay_async_runs_in_an_event_loop(capture: Path) -> None:
    async with Broker(topics={"orders": 1}) as broker:
        report = await replay_async(
            [capture], to=broker.bootstrap_servers, options=ReplayOptions(speed=1000.0)
        )
    assert report.findings == []


async def replayed(
    builder: CaptureBuilder, timeout_s: float = 5.0, max_steps: int = MAX_STEPS_AHEAD
) -> ReplayReport:
    async with Broker(topics={"orders": 1}) as broker:
        bootstrap = Address.parse(broker.bootstrap_servers)
        async with KafkaClient([bootstrap]) as client:
            target = await Target.discover(client, bootstrap)
            player = Player(target, RealPace(None), ReplayOptions(timeout_s=timeout_s))
            return await player.play(steps(builder.events, lambda _: None, max_steps=max_steps))


async def test_connection_closed_by_the_target_is_reported_and_reopened() -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    # No broker responds to a truncated body.
    builder.add_frame(ONE, Direction.REQUEST, struct.pack(">hhih", 12, 4, 99, 0) + b"\0\7")
    builder.add_frame(ONE, Direction.RESPONSE, struct.pack(">i", 99) + b"\0" * 7)
    builder.call(ONE, heartbeat, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR), 4)
    report = await replayed(builder)
    assert [(found.severity, found.target) for found in report.findings] == [
        (Severity.UNANSWERED, "the connection was closed")
    ]
    assert report.connections == 2
    assert report.equal == 1


async def test_a_strict_stand_in_without_a_response_is_named_as_the_cause(tmp_path: Path) -> None:
    """The connection works, so neither TLS nor a password is in doubt."""
    tools, clients, heartbeats = (tmp_path / name for name in ("tools", "clients", "heartbeats"))
    request = HeartbeatRequest(group_id="g", member_id="m")
    async with Broker(capture=tools) as broker:
        # As a replay begins.
        bootstrap = Address.parse(broker.bootstrap_servers)
        async with KafkaClient([bootstrap]) as client:
            await Target.discover(client, bootstrap)
    async with Broker(capture=heartbeats) as broker:
        bootstrap = Address.parse(broker.bootstrap_servers)
        async with KafkaClient([bootstrap]) as client:
            for _ in range(30):
                await client.ask(bootstrap, request, Versions(4, 4))
    async with Broker(capture=clients) as broker:
        bootstrap = Address.parse(broker.bootstrap_servers)
        async with KafkaClient([bootstrap]) as client:
            await client.metadata(client_versions=Versions(13, 13))

    async with Broker(replay=clients) as broker:
        with pytest.raises(ReplayError) as unavailable:
            await replay_async([clients], to=broker.bootstrap_servers)
    assert str(unavailable.value).endswith(
        "closed the connection instead of answering Metadata v12 (does it require a password? its "
        "log may have the reason); a stand-in closes the connection if its capture has no response"
    )
    async with Broker(replay=tools) as broker:
        report = await replay_async([heartbeats], to=broker.bootstrap_servers)
    assert report.abort_reason == (
        "the connection was closed, on 30 connections in a row "
        "(a stand-in closes the connection if its capture has no response)"
    )


def long_poll() -> FetchRequest:
    row = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[row])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=[topic])


async def test_missing_response_is_reported_and_the_replay_continues() -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    builder.open(TWO)
    builder.open(THREE)
    builder.call(ONE, long_poll(), FetchResponse(), 11)
    # The timeout of a request includes its recorded duration; the kind of finding is the same.
    slow_request = builder.send(THREE, long_poll(), 11)
    builder.call(
        TWO,
        HeartbeatRequest(group_id="g"),
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        4,
    )
    builder.answer(THREE, slow_request, FetchResponse(), 11)
    report = await replayed(builder, 0.05)
    (found,) = report.findings
    assert (found.severity, found.api, found.times) == (Severity.UNANSWERED, "Fetch", 2)
    assert found.target == "no response in time"
    assert report.equal == 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request", "a frame with an invalid length of 1213486160 bytes"),
        (struct.pack(">ii", 4, 77), "an answer with the unknown correlation id 77"),
        (struct.pack(">ii", 90, 1) + b"half", "the connection was closed"),
    ],
)
async def test_target_with_malformed_responses_is_unavailable(sent: bytes, reason: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(sent)
        writer.write_eof()
        await reader.read()
        writer.close()

    builder = CaptureBuilder()
    builder.open(ONE)
    for _ in range(20):
        builder.call(ONE, HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4)
    async with listening(serve) as address, KafkaClient([address]) as client:
        served = {12: Versions(0, 4)}
        player = Player(
            Target(client, address, {1: address}, served),
            RealPace(None),
            ReplayOptions(timeout_s=5),
        )
        report = await player.play(steps(builder.events, lambda _: None))
    hint = f" ({STAND_IN_HINT})" if reason == CLOSED_REASON else ""
    assert report.abort_reason == f"{reason}, on 10 connections in a row{hint}"
    assert report.failed(FailOn.NONE)
    assert {found.target for found in report.findings} == {reason}


async def test_unknown_versions_are_sent_unchanged() -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    newer = struct.pack(">hhih", 18, 9, 1, 0) + b"\0\0"
    builder.add_frame(ONE, Direction.REQUEST, newer)
    # A broker that does not know the version responds in version 0.
    builder.add_frame(
        ONE, Direction.RESPONSE, struct.pack(">ihi", 1, ErrorCode.UNSUPPORTED_VERSION, 0)
    )
    builder.add_frame(ONE, Direction.REQUEST, struct.pack(">hhih", 18, 9, 2, 0) + b"\0\0")
    builder.add_frame(ONE, Direction.RESPONSE, struct.pack(">ihi", 2, ErrorCode.NONE, 0) + b"news")
    builder.call(ONE, HeartbeatRequest(group_id="g"), heartbeat_response(), 4)
    report = await replayed(builder)
    assert report.requests == 3
    assert report.notes == ["1 response not compared: ApiVersions v9 (known versions: 0-5)"]
    assert {found.path for found in report.findings} == {"api_keys"}


def heartbeat_response() -> HeartbeatResponse:
    return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


async def test_produce_without_acks_is_not_waited_for() -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    builder.send(ONE, ProduceRequest(acks=0), 9)
    builder.call(
        ONE,
        HeartbeatRequest(group_id="g"),
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        4,
    )
    builder.send(ONE, long_poll(), 11)
    builder.close(ONE)
    report = await replayed(builder)
    assert (report.requests, report.responses, report.findings) == (3, 1, [])


async def test_request_beyond_the_look_ahead_is_reported_as_skipped() -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    builder.open(TWO)
    late = builder.send(ONE, HeartbeatRequest(group_id="g"), 4)
    for _ in range(3):
        builder.call(TWO, HeartbeatRequest(group_id="g"), heartbeat_response(), 4)
    builder.answer(ONE, late, heartbeat_response(), 4)
    report = await replayed(builder, max_steps=4)
    assert (report.requests, report.responses, report.findings) == (3, 3, [])
    assert report.skipped == {("Heartbeat", BEYOND_LOOK_AHEAD): 1}


async def test_request_of_a_group_waits_until_an_earlier_change_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = CaptureBuilder()
    builder.open(ONE)
    builder.open(TWO)
    leave_request = LeaveGroupRequest(group_id="g", member_id="m")
    leave_response = LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    first = builder.send(ONE, leave_request, 2)
    second = builder.send(TWO, HeartbeatRequest(group_id="g"), 4)
    builder.answer(ONE, first, leave_response, 2)
    builder.answer(TWO, second, heartbeat_response(), 4)
    builder.call(TWO, HeartbeatRequest(group_id="g"), heartbeat_response(), 4)
    read_node_ids = []
    wait_until_read = Target.wait_until_read

    async def record_call(target: Target, node_id: int) -> None:
        read_node_ids.append(node_id)
        await wait_until_read(target, node_id)

    monkeypatch.setattr(Target, "wait_until_read", record_call)
    report = await replayed(builder)
    assert (report.responses, len(read_node_ids)) == (3, 1)
    assert not [finding for finding in report.findings if finding.severity is Severity.UNANSWERED]


async def test_unreachable_node_is_reported_with_its_address() -> None:
    builder = CaptureBuilder()
    two = connection(2, node_id=2)
    builder.open(two)
    builder.call(two, HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4)
    unreachable = Address("127.0.0.1", 1)
    for address, reason in (
        (Address("127.0.0.1", -1), "no broker can be at 127.0.0.1:-1"),
        (Address("x" * 70, 1), f"no broker answers at {'x' * 70}:1: the host name is invalid"),
        (unreachable, "no broker answers at 127.0.0.1:1: connection refused"),
    ):
        async with KafkaClient([unreachable]) as client:
            target = Target(client, unreachable, {1: unreachable, 2: address}, {12: Versions(0, 4)})
            player = Player(target, RealPace(None), ReplayOptions())
            report = await player.play(steps(builder.events, lambda _: None))
        assert report.abort_reason == reason
