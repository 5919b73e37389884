"""Targets of several nodes: requests are sent to leaders and coordinators."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from kafkalite.client.access import Access
from kafkalite.lab.proxy.tls import client_context, server_context
from kafkalite.lab.replay.comparison.findings import PLACEMENT, Severity
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.fetch_sessions import ShareSessions
from kafkalite.lab.replay.player.routing import NodeLocator, PlannedRequest, Routing
from kafkalite.lab.replay.player.run import ReplayError, replay, replay_async
from kafkalite.lab.replay.player.splitting import FETCH, REQUEST_LAYOUTS, LeaderKind, RoutingKey
from kafkalite.lab.replay.player.target import Leader, Target
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.unit.frames import request_content, response_content
from tests.unit.lab.proxy.certificates import Certificates
from tests.unit.lab.proxy.running_proxies import running_proxy
from tests.unit.lab.replay.capture_builder import exchange
from tests.unit.lab.replay.client_workload import run_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Exchange


def client_of(broker: Broker) -> RawClient:
    return RawClient(int(broker.bootstrap_servers.partition(",")[0].rpartition(":")[2]))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("capture")
    with Broker(capture=directory) as broker, closing(client_of(broker)) as client:
        run_workload(client)
    return directory


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_capture_of_one_node_is_replayed_on_several(capture: Path, nodes: int) -> None:
    with Broker(nodes) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == report.requests == 31
    assert (report.connections > 1) is (nodes > 1)
    explained = {found.reason for found in report.findings if found.severity is Severity.EXPLAINED}
    assert explained <= {PLACEMENT[0].reason}


@pytest.mark.parametrize("moved", [range(6), [1, 4], [2]], ids=["all", "some", "one"])
def test_moved_leaders_are_looked_up_again(
    capture: Path, monkeypatch: pytest.MonkeyPatch, moved: Sequence[int]
) -> None:
    leaders = Target.fetch_leaders
    lookups: list[Sequence[str | bytes]] = []

    async def return_wrong_leaders_once(
        self: Target, topics: Sequence[str | bytes]
    ) -> dict[tuple[str | bytes, int], Leader]:
        lookups.append(topics)
        correct = await leaders(self, topics)
        if len(lookups) > 1:
            return correct
        return {
            key: Leader(leader.node_id % 3 + 1, leader.epoch) if key[1] in moved else leader
            for key, leader in correct.items()
        }

    monkeypatch.setattr(Target, "fetch_leaders", return_wrong_leaders_once)
    with Broker(3) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert len(lookups) >= 2


async def test_nodes_are_reached_with_tls(capture: Path, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server = server_context(certificates.chain, certificates.key)
    trusting = client_context(certificates.authority, None, None, verify_server=True)
    async with Broker(3) as broker:
        addresses = [Address.parse(server) for server in broker.bootstrap_servers.split(",")]
        async with running_proxy(*addresses, client_tls=server) as proxy:
            to = str(proxy.bootstrap)
            report = await replay_async(
                capture, to=to, options=ReplayOptions(access=Access(trusting))
            )
            untrusting = client_context(None, None, None, verify_server=True)
            with pytest.raises(ReplayError, match="its certificate is not trusted"):
                await replay_async(capture, to=to, options=ReplayOptions(access=Access(untrusting)))
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == 31
    assert report.connections > 1


def test_replication_factor_is_reduced_to_the_number_of_nodes(tmp_path: Path) -> None:
    with Broker(3, capture=tmp_path) as broker, closing(client_of(broker)) as client:
        client.call(MetadataRequest(topics=None), 12)
        row = CreateTopicsRequest.CreatableReplicaAssignment
        assigned = [row(partition_index=0, broker_ids=[2, 3])]
        new_topics = [
            CreateTopicsRequest.CreatableTopic(
                name="counted", num_partitions=1, replication_factor=3
            ),
            CreateTopicsRequest.CreatableTopic(
                name="assigned", num_partitions=-1, replication_factor=-1, assignments=assigned
            ),
        ]
        response = client.call(CreateTopicsRequest(topics=new_topics, timeout_ms=5000), 7)
        assert {topic.error_code for topic in response.topics} == {0}
    with Broker() as single:
        report = replay(tmp_path, to=single.bootstrap_servers)
    assert report.at_least(Severity.TIMING) == []
    assert {found.path for found in report.findings} == {"topics.replication_factor"}


def test_request_is_split_by_node() -> None:
    layout = REQUEST_LAYOUTS[15]
    request = DescribeGroupsRequest(groups=["a", "b", "c"])
    split = layout.split(request, lambda routing_key: ord(str(routing_key.name)) % 2)
    assert {node: part.groups for node, part in split.items()} == {1: ["a", "c"], 0: ["b"]}
    assert layout.routing_keys(request)[0] == RoutingKey(LeaderKind.GROUP, "a")
    assert request.groups == ["a", "b", "c"]


def test_number_of_share_sessions_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An evicted member opens a new session; closed sessions are not counted."""
    monkeypatch.setattr("kafkalite.lab.replay.player.fetch_sessions.MAX_SESSIONS", 2)
    sessions = ShareSessions()

    def epoch(member_id: str, recorded: int) -> int:
        request = ShareFetchRequest(group_id="g", member_id=member_id, share_session_epoch=recorded)
        sessions.set_epoch(exchange(request, None, 1), request, 0)
        return request.share_session_epoch

    assert [epoch("a", 0), epoch("b", 0), epoch("b", 1), epoch("b", -1)] == [0, 0, 1, -1]
    assert [epoch("c", 0), epoch("a", 1)] == [0, 1]
    assert [epoch("d", 0), epoch("c", 1), epoch("a", 2)] == [0, 1, 0]


@pytest.mark.parametrize("moved", [range(6), [1, 4]], ids=["all", "some"])
@pytest.mark.parametrize("at", [1, 2, 3], ids=["as it opens", "in it", "as it closes"])
def test_fetch_is_sent_to_leaders_that_moved_during_its_session(
    capture: Path, monkeypatch: pytest.MonkeyPatch, at: int, moved: Sequence[int]
) -> None:
    nodes_of = NodeLocator.nodes_of
    plan = Routing.plan
    fetches = iter(range(1, 100))

    async def move_leaders_then_plan(
        self: Routing, recorded: Exchange, frame: bytes
    ) -> PlannedRequest:
        if recorded.api_key == FETCH and next(fetches) == at:
            known = await nodes_of(self._locator, [])
            for routing_key, node in known.items():
                if routing_key.partition in moved:
                    known[routing_key] = node % 3 + 1
        return await plan(self, recorded, frame)

    monkeypatch.setattr(Routing, "plan", move_leaders_then_plan)
    with Broker(3) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == 31


class TargetAfterElection:
    """A target on which node 2 leads all partitions with leader epoch 5."""

    nodes: ClassVar = {1: Address("a", 1), 2: Address("b", 1)}
    has_several_nodes = True

    async def fetch_leaders(self, topics: Sequence[str]) -> dict[tuple[str, int], Leader]:
        return {(topic, index): Leader(2, 5) for topic in topics for index in range(3)}


def fetch_response(*errors: int, error: int = 0) -> FetchResponse:
    rows = [
        FetchResponse.PartitionData(partition_index=index, error_code=each)
        for index, each in enumerate(errors)
    ]
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=rows)
    return FetchResponse(error_code=error, session_id=77, responses=[topic] if rows else [])


def fetch_request(epoch: int, session: tuple[int, int], *partitions: int) -> FetchRequest:
    rows = [
        FetchRequest.FetchPartition(partition=partition, current_leader_epoch=epoch)
        for partition in partitions
    ]
    topics = [FetchRequest.FetchTopic(topic="t", partitions=rows)] if rows else []
    return FetchRequest(session_id=session[0], session_epoch=session[1], topics=topics)


def build_frame(message: Any, version: int) -> bytes:  # noqa: ANN401 - any message
    is_request = type(message).__name__.endswith("Request")
    return (request_content if is_request else response_content)(message, version, correlation_id=1)


@pytest.mark.parametrize(
    ("answer", "requested", "remaining"),
    [
        (fetch_response(0, ErrorCode.FENCED_LEADER_EPOCH, 0), [1], [0, 2]),
        (fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER), [0], []),
        (fetch_response(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), [0, 1, 2], None),
    ],
)
async def test_refused_partitions_of_a_session_are_fetched_from_new_leaders(
    answer: FetchResponse, requested: list[int], remaining: list[int] | None
) -> None:
    routing = Routing(cast("Target", TargetAfterElection()), IdMapping())
    opening = exchange(fetch_request(3, (0, 0), 0, 1, 2), fetch_response(0, 0, 0), 11)
    await routing.plan(opening, opening.request)
    incremental = exchange(fetch_request(3, (77, 1)), fetch_response(), 11)
    planned = await routing.plan(incremental, incremental.request)
    routing.forget(planned)
    resend = await routing.resend(incremental, planned, planned.parts[0], build_frame(answer, 11))
    ((node, frame),) = resend.parts
    request, _ = codec.request_parser(1, 11)(frame, incremental.request_start, len(frame))
    rows = [
        (row.partition, row.current_leader_epoch)
        for topic in request.topics
        for row in topic.partitions
    ]
    assert (node, request.session_id, request.session_epoch) == (2, 0, -1)
    assert rows == [(index, 5) for index in requested]
    if remaining is None:
        assert resend.partial_response is None
    else:
        assert resend.partial_response is not None
        response, _ = codec.response_parser(1, 11)(
            resend.partial_response, 4, len(resend.partial_response)
        )
        assert [
            row.partition_index for topic in response.responses for row in topic.partitions
        ] == remaining


async def test_list_offsets_is_resent_with_the_current_leader_epoch() -> None:
    routing = Routing(cast("Target", TargetAfterElection()), IdMapping())
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, current_leader_epoch=3)
        for index in range(2)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=rows)
    recorded = exchange(ListOffsetsRequest(topics=[topic]), ListOffsetsResponse(), 5)
    fenced = ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH
    )
    other = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=1)
    response = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[fenced, other])
    answer = build_frame(ListOffsetsResponse(topics=[response]), 5)
    planned = await routing.plan(recorded, recorded.request)
    resend = await routing.resend(recorded, planned, planned.parts[0], answer)
    ((node, frame),) = resend.parts
    sent, _ = codec.request_parser(2, 5)(frame, recorded.request_start, len(frame))
    (row,) = sent.topics[0].partitions
    assert (node, row.partition_index, row.current_leader_epoch) == (2, 0, 5)
