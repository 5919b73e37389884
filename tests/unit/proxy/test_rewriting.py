"""Answers that tell addresses: all of these are replaced, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol.messages.describe_cluster import DescribeClusterResponse
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol.messages.metadata import MetadataResponse
from kafkalite.protocol.messages.produce import ProduceResponse
from kafkalite.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from kafkalite.protocol.messages.share_fetch import ShareFetchResponse
from kafkalite.protocol.spec import load_specs
from kafkalite.proxy.rewriting import ADDRESSED, Known, Node, passable, rewriter_of
from kafkalite.server.addresses import Address
from tests.unit.frames import response_frame
from tests.unit.proxy.world import response_of, shifted_by_1000

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = ("one.internal", "two.internal")
PORTS = (9092, 9216)


def rows(kind: Any) -> list[Any]:  # noqa: ANN401 - any generated row with these fields
    return [
        kind(node_id=node, host=host, port=port)
        for node, (host, port) in enumerate(zip(HOSTS, PORTS, strict=True), 1)
    ]


def metadata() -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic(
        name="orders",
        partitions=[MetadataResponse.MetadataResponsePartition(leader_id=2, isr_nodes=[1, 2])],
    )
    brokers = rows(MetadataResponse.MetadataResponseBroker)
    for broker in brokers:
        broker.rack = None
    return MetadataResponse(brokers=brokers, topics=[topic], cluster_id="cluster", controller_id=1)


def coordinator(version: int) -> FindCoordinatorResponse:
    if version < 4:
        return FindCoordinatorResponse(node_id=1, host=HOSTS[0], port=PORTS[0], error_message=None)
    found = rows(FindCoordinatorResponse.Coordinator)
    found[0].key = "group"
    lost = FindCoordinatorResponse.Coordinator(
        key="lost", node_id=-1, host="", port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    return FindCoordinatorResponse(coordinators=[*found, lost])


def cluster() -> DescribeClusterResponse:
    brokers = [
        DescribeClusterResponse.DescribeClusterBroker(broker_id=node, host=host, port=port)
        for node, (host, port) in enumerate(zip(HOSTS, PORTS, strict=True), 1)
    ]
    return DescribeClusterResponse(cluster_id="cluster", controller_id=1, brokers=brokers)


def fetched() -> FetchResponse:
    partition = FetchResponse.PartitionData(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        records=b"one.internal is text of a record",
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
    return FetchResponse(responses=[topic], node_endpoints=rows(FetchResponse.NodeEndpoint))


RESPONSES: dict[int, Callable[[int], Any]] = {
    0: lambda _: ProduceResponse(node_endpoints=rows(ProduceResponse.NodeEndpoint)),
    1: lambda _: fetched(),
    3: lambda _: metadata(),
    10: coordinator,
    60: lambda _: cluster(),
    78: lambda _: ShareFetchResponse(node_endpoints=rows(ShareFetchResponse.NodeEndpoint)),
    79: lambda _: ShareAcknowledgeResponse(
        node_endpoints=rows(ShareAcknowledgeResponse.NodeEndpoint)
    ),
}

VERSIONS = [
    (key, version)
    for key, addressed in ADDRESSED.items()
    for version in codec.api_versions(key, unstable=True).within(passable(key))
    if version >= addressed.since
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_address_is_replaced_and_the_rest_stays(key: int, version: int) -> None:
    sent = response_frame(RESPONSES[key](version), version)
    rewriter = rewriter_of(key, version)
    assert rewriter is not None
    got = rewriter.rewrite(sent, shifted_by_1000)
    places = ADDRESSED[key].places
    before, after = response_of(sent, key, version), response_of(got, key, version)
    changed = [row for row, _ in places(before) if row.host]
    assert [row.host for row in changed] == list(HOSTS)[: len(changed)]
    for row in changed:
        row.host, row.port = "proxy", row.port + 1000
    assert before == after
    assert not any(row.host.endswith("internal") for row, _ in places(after))


def test_each_node_is_told_with_its_id_and_its_kind() -> None:
    told: list[Known] = []

    def tell(known: Any) -> list[Address]:  # noqa: ANN401 - as Tell has it
        told.extend(known)
        return shifted_by_1000(known)

    response = cluster()
    response.endpoint_type = 2
    rewriter = rewriter_of(60, 2)
    assert rewriter is not None
    rewriter.rewrite(response_frame(response, 2), tell)
    assert told == [
        Known(Node(1, 2), Address(HOSTS[0], PORTS[0])),
        Known(Node(2, 2), Address(HOSTS[1], PORTS[1])),
    ]


def test_an_answer_that_names_no_node_is_the_very_same() -> None:
    response = fetched()
    response.node_endpoints = []
    frame = response_frame(response, 17)
    rewriter = rewriter_of(1, 17)
    assert rewriter is not None
    assert rewriter.rewrite(frame, shifted_by_1000) is frame


def test_tags_that_nobody_knows_stay() -> None:
    """A newer broker may add what a client knows how to read."""
    response = metadata()
    response.unknown_tags = {77: b"new"}
    response.brokers[0].unknown_tags = {5: b"newer"}
    plain = response_frame(response, 13)
    tagged_header = plain[4:8] + b"\x01\x09\x02hi" + plain[9:]
    frame = len(tagged_header).to_bytes(4) + tagged_header
    rewriter = rewriter_of(3, 13)
    assert rewriter is not None
    got = rewriter.rewrite(frame, shifted_by_1000)
    assert got[8:13] == b"\x01\x09\x02hi"
    after = response_of((len(got) - 8).to_bytes(4) + got[4:8] + b"\0" + got[13:], 3, 13)
    assert after.unknown_tags == {77: b"new"}
    assert after.brokers[0].unknown_tags == {5: b"newer"}


def test_every_api_whose_answers_tell_where_brokers_are_is_in_the_table() -> None:
    """But DescribeQuorum: nobody connects by what it tells of the voters."""
    telling = {
        spec.key
        for spec in load_specs()
        if spec.kind == "response"
        and any(
            {"Host", "Port"} <= (names := {field.name for field in fields})
            and names & {"NodeId", "BrokerId"}
            for fields in (spec.fields, *(struct.fields for struct in spec.structs.values()))
        )
    }
    assert telling == set(ADDRESSED)


def test_what_tells_no_addresses_goes_untouched_in_any_version() -> None:
    assert rewriter_of(12, 4) is None
    assert rewriter_of(12, 99) is None
    assert rewriter_of(32_000, 0) is None
    assert rewriter_of(1, 15) is None
    assert rewriter_of(0, 0) is None


def test_a_version_whose_addresses_we_would_not_see_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match=r"Metadata of version 14.*versions 0-13"):
        rewriter_of(3, 14)
    with pytest.raises(ProtocolViolation, match="ShareFetch of version 0"):
        rewriter_of(78, 0)


def api_versions(*ranges: tuple[int, int, int]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, lowest, highest in ranges
        ],
        finalized_features_epoch=3,
    )


@pytest.mark.parametrize("version", range(5))
def test_clients_are_told_of_no_version_whose_answers_we_could_not_rewrite(version: int) -> None:
    sent = api_versions((0, 0, 14), (1, 4, 18), (3, 0, 99), (12, 0, 99), (18, 0, 7), (78, 0, 0))
    rewriter = rewriter_of(18, version)
    assert rewriter is not None
    got = rewriter.rewrite(response_frame(sent, version), shifted_by_1000)
    told = {
        row.api_key: (row.min_version, row.max_version)
        for row in response_of(got, 18, version).api_keys
    }
    assert told == {0: (0, 13), 1: (4, 18), 3: (0, 13), 12: (0, 99), 18: (0, 4)}


def test_api_versions_that_all_can_pass_are_the_very_same() -> None:
    frame = response_frame(api_versions((0, 0, 13), (12, 0, 99)), 4)
    rewriter = rewriter_of(18, 4)
    assert rewriter is not None
    assert rewriter.rewrite(frame, shifted_by_1000) is frame


def test_who_asks_in_a_newer_version_is_sent_back_to_one_we_know() -> None:
    rewriter = rewriter_of(18, 5)
    assert rewriter is not None
    got = rewriter.rewrite(b"\0\0\0\x0a\0\0\0\x07future", shifted_by_1000)
    response = response_of(got, 18, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in response.api_keys] == [(18, 4)]
    assert got[4:8] == b"\0\0\0\x07"


def test_an_older_cluster_s_refusal_is_the_very_same() -> None:
    refusal = api_versions((18, 0, 3))
    refusal.error_code = ErrorCode.UNSUPPORTED_VERSION
    frame = response_frame(refusal, 0)
    rewriter = rewriter_of(18, 4)
    assert rewriter is not None
    assert rewriter.rewrite(frame, shifted_by_1000) is frame


def test_an_answer_that_cannot_be_understood_goes_nowhere() -> None:
    rewriter = rewriter_of(3, 13)
    assert rewriter is not None
    frame = response_frame(metadata(), 13)
    cut = (len(frame) - 14).to_bytes(4) + frame[4:-10]
    with pytest.raises(ProtocolViolation, match="the answer to Metadata of version 13"):
        rewriter.rewrite(cut, shifted_by_1000)
