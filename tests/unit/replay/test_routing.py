"""Targets of several nodes: each request goes to whoever answers for what it is about."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.access import Access
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.share_fetch import ShareFetchRequest
from kafkalite.proxy.tls import towards_clients, towards_cluster
from kafkalite.replay.calls import ReplayError, replay, replay_async
from kafkalite.replay.findings import PLACED, Severity
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.sessions import ShareSessions
from kafkalite.replay.subjects import SPREAD, Led, Subject
from kafkalite.replay.target import Target
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.unit.proxy.certificates import Certificates
from tests.unit.proxy.world import staged
from tests.unit.replay.life import live
from tests.unit.replay.made import exchange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
    ) -> dict[tuple[str | bytes, int], int]:
        asked.append(topics)
        right = await leaders(self, topics)
        if len(asked) > 1:
            return right
        return {key: node % 3 + 1 if key[1] in moved else node for key, node in right.items()}

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
