"""Targets of several nodes: each request goes to whoever answers for what it is about."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from kafkalite.control.access import Access
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.share_fetch import ShareFetchRequest
from kafkalite.proxy.tls import towards_clients, towards_cluster
from kafkalite.replay.calls import ReplayError, replay, replay_async
from kafkalite.replay.findings import PLACED, Severity
from kafkalite.replay.mapping import Mapping
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.places import Places
from kafkalite.replay.routing import Routing, Sending
from kafkalite.replay.sessions import ShareSessions
from kafkalite.replay.subjects import FETCH, SPREAD, Led, Subject
from kafkalite.replay.target import Leader, Target
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.unit.frames import request_content, response_content
from tests.unit.proxy.certificates import Certificates
from tests.unit.proxy.world import staged
from tests.unit.replay.life import live
from tests.unit.replay.made import exchange

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
        live(client)
    return directory


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_what_one_node_answered_several_answer(capture: Path, nodes: int) -> None:
    with Broker(nodes) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == report.requests == 31
    assert (report.connections > 1) is (nodes > 1)
    explained = {found.reason for found in report.findings if found.severity is Severity.EXPLAINED}
    assert explained <= {PLACED[0].reason}


@pytest.mark.parametrize("moved", [range(6), [1, 4], [2]], ids=["all", "some", "one"])
def test_leaders_that_moved_are_looked_for_again(
    capture: Path, monkeypatch: pytest.MonkeyPatch, moved: Sequence[int]
) -> None:
    leaders = Target.leaders
    asked: list[Sequence[str | bytes]] = []

    async def wrong_at_first(
        self: Target, topics: Sequence[str | bytes]
    ) -> dict[tuple[str | bytes, int], Leader]:
        asked.append(topics)
        right = await leaders(self, topics)
        if len(asked) > 1:
            return right
        return {
            key: Leader(led.node_id % 3 + 1, led.epoch) if key[1] in moved else led
            for key, led in right.items()
        }

    monkeypatch.setattr(Target, "leaders", wrong_at_first)
    with Broker(3) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert len(asked) >= 2


async def test_every_node_may_be_behind_tls(capture: Path, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server = towards_clients(certificates.chain, certificates.key)
    trusting = towards_cluster(certificates.authority, None, None, is_checked=True)
    async with Broker(3) as broker:
        addresses = [Address.parse(each) for each in broker.bootstrap_servers.split(",")]
        async with staged(*addresses, client_tls=server) as stage:
            to = str(stage.bootstrap)
            report = await replay_async(
                capture, to=to, options=ReplayOptions(access=Access(trusting))
            )
            strangers = towards_cluster(None, None, None, is_checked=True)
            with pytest.raises(ReplayError, match="its certificate is not trusted"):
                await replay_async(capture, to=to, options=ReplayOptions(access=Access(strangers)))
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == 31
    assert report.connections > 1


def test_more_replicas_than_the_target_has_nodes_are_not_asked_for(tmp_path: Path) -> None:
    with Broker(3, capture=tmp_path) as broker, closing(client_of(broker)) as client:
        client.call(MetadataRequest(topics=None), 12)
        row = CreateTopicsRequest.CreatableReplicaAssignment
        assigned = [row(partition_index=0, broker_ids=[2, 3])]
        made = [
            CreateTopicsRequest.CreatableTopic(
                name="counted", num_partitions=1, replication_factor=3
            ),
            CreateTopicsRequest.CreatableTopic(
                name="assigned", num_partitions=-1, replication_factor=-1, assignments=assigned
            ),
        ]
        told = client.call(CreateTopicsRequest(topics=made, timeout_ms=5000), 7)
        assert {topic.error_code for topic in told.topics} == {0}
    with Broker() as single:
        report = replay(tmp_path, to=single.bootstrap_servers)
    assert report.at_least(Severity.TIMING) == []
    assert {found.path for found in report.findings} == {"topics.replication_factor"}


def test_parts_of_a_request_hold_all_of_it_and_their_answers_are_one() -> None:
    spread = SPREAD[15]
    request = DescribeGroupsRequest(groups=["a", "b", "c"])
    split = spread.split(request, lambda subject: ord(str(subject.name)) % 2)
    assert {node: part.groups for node, part in split.items()} == {1: ["a", "c"], 0: ["b"]}
    assert spread.subjects(request)[0] == Subject(Led.GROUP, "a")
    assert request.groups == ["a", "b", "c"]


def test_only_so_many_members_of_share_groups_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was forgotten begins its session anew; who closed its own takes no room."""
    monkeypatch.setattr("kafkalite.replay.sessions.MOST_SESSIONS", 2)
    sessions = ShareSessions()

    def epoch(member_id: str, recorded: int) -> int:
        request = ShareFetchRequest(group_id="g", member_id=member_id, share_session_epoch=recorded)
        sessions.number(exchange(request, None, 1), request, 0)
        return request.share_session_epoch

    assert [epoch("a", 0), epoch("b", 0), epoch("b", 1), epoch("b", -1)] == [0, 0, 1, -1]
    assert [epoch("c", 0), epoch("a", 1)] == [0, 1]
    assert [epoch("d", 0), epoch("c", 1), epoch("a", 2)] == [0, 1, 0]


@pytest.mark.parametrize("moved", [range(6), [1, 4]], ids=["all", "some"])
@pytest.mark.parametrize("at", [1, 2, 3], ids=["as it opens", "in it", "as it closes"])
def test_a_fetch_follows_leaders_that_moved_during_its_session(
    capture: Path, monkeypatch: pytest.MonkeyPatch, at: int, moved: Sequence[int]
) -> None:
    places = Places.of
    sending = Routing.sending
    fetches = iter(range(1, 100))

    async def moving(self: Routing, asked: Exchange, frame: bytes) -> Sending:
        if asked.api_key == FETCH and next(fetches) == at:
            known = await places(self._places, [])
            for subject, node in known.items():
                if subject.partition in moved:
                    known[subject] = node % 3 + 1
        return await sending(self, asked, frame)

    monkeypatch.setattr(Routing, "sending", moving)
    with Broker(3) as broker:
        report = replay(capture, to=broker.bootstrap_servers)
    assert report.at_least(Severity.DIFFERENCE) == []
    assert report.responses == 31


class ElectedAnew:
    """A target on which node 2 was elected for the fifth time to lead all there is."""

    nodes: ClassVar = {1: Address("a", 1), 2: Address("b", 1)}
    is_of_several = True

    async def leaders(self, topics: Sequence[str]) -> dict[tuple[str, int], Leader]:
        return {(topic, index): Leader(2, 5) for topic in topics for index in range(3)}


def fetched(*errors: int, error: int = 0) -> FetchResponse:
    rows = [
        FetchResponse.PartitionData(partition_index=index, error_code=each)
        for index, each in enumerate(errors)
    ]
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=rows)
    return FetchResponse(error_code=error, session_id=77, responses=[topic] if rows else [])


def fetching(epoch: int, session: tuple[int, int], *partitions: int) -> FetchRequest:
    rows = [
        FetchRequest.FetchPartition(partition=each, current_leader_epoch=epoch)
        for each in partitions
    ]
    topics = [FetchRequest.FetchTopic(topic="t", partitions=rows)] if rows else []
    return FetchRequest(session_id=session[0], session_epoch=session[1], topics=topics)


def frame_of(message: Any, version: int) -> bytes:  # noqa: ANN401 - any message
    is_request = type(message).__name__.endswith("Request")
    return (request_content if is_request else response_content)(message, version, correlation_id=1)


@pytest.mark.parametrize(
    ("answer", "wanted", "kept"),
    [
        (fetched(0, ErrorCode.FENCED_LEADER_EPOCH, 0), [1], [0, 2]),
        (fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER), [0], []),
        (fetched(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), [0, 1, 2], None),
    ],
)
async def test_what_was_refused_in_a_session_is_asked_of_who_leads_it_now(
    answer: FetchResponse, wanted: list[int], kept: list[int] | None
) -> None:
    routing = Routing(cast("Target", ElectedAnew()), Mapping())
    opening = exchange(fetching(3, (0, 0), 0, 1, 2), fetched(0, 0, 0), 11)
    await routing.sending(opening, opening.request)
    going_on = exchange(fetching(3, (77, 1)), fetched(), 11)
    sending = await routing.sending(going_on, going_on.request)
    routing.forget(sending)
    again = await routing.again(going_on, sending, sending.parts[0], frame_of(answer, 11))
    ((node, frame),) = again.parts
    asked, _ = codec.request_parser(1, 11)(frame, going_on.request_start, len(frame))
    rows = [
        (row.partition, row.current_leader_epoch)
        for topic in asked.topics
        for row in topic.partitions
    ]
    assert (node, asked.session_id, asked.session_epoch) == (2, 0, -1)
    assert rows == [(index, 5) for index in wanted]
    if kept is None:
        assert again.kept is None
    else:
        assert again.kept is not None
        told, _ = codec.response_parser(1, 11)(again.kept, 4, len(again.kept))
        assert [row.partition_index for topic in told.responses for row in topic.partitions] == kept


async def test_offsets_of_an_earlier_leader_are_asked_for_with_the_epoch_of_now() -> None:
    routing = Routing(cast("Target", ElectedAnew()), Mapping())
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, current_leader_epoch=3)
        for index in range(2)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=rows)
    asked = exchange(ListOffsetsRequest(topics=[topic]), ListOffsetsResponse(), 5)
    fenced = ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH
    )
    there = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=1)
    told = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[fenced, there])
    answer = frame_of(ListOffsetsResponse(topics=[told]), 5)
    sending = await routing.sending(asked, asked.request)
    again = await routing.again(asked, sending, sending.parts[0], answer)
    ((node, frame),) = again.parts
    sent, _ = codec.request_parser(2, 5)(frame, asked.request_start, len(frame))
    (row,) = sent.topics[0].partitions
    assert (node, row.partition_index, row.current_leader_epoch) == (2, 0, 5)
