"""Rewriting of responses: all addresses are replaced, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.proxy.address_rewriting import (
    ADDRESS_FIELDS,
    Node,
    NodeAddress,
    allowed_versions,
    find_rewriter,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterResponse
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol._generated.messages.produce import ProduceResponse
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeResponse
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.spec import load_specs
from kafkalite.server.addresses import Address
from tests.unit.frames import response_frame
from tests.unit.lab.proxy.running_proxies import add_1000_to_ports, parse_response_frame

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
    unavailable = FindCoordinatorResponse.Coordinator(
        key="unavailable",
        node_id=-1,
        host="",
        port=-1,
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    return FindCoordinatorResponse(coordinators=[*found, unavailable])


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
    for key, address_fields in ADDRESS_FIELDS.items()
    for version in codec.api_versions(key, unstable=True).within(allowed_versions(key))
    if version >= address_fields.since_version
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_address_is_replaced_and_other_fields_stay(key: int, version: int) -> None:
    sent = response_frame(RESPONSES[key](version), version)
    rewriter = find_rewriter(key, version)
    assert rewriter is not None
    rewritten = rewriter.rewrite(sent, add_1000_to_ports)
    find_structs = ADDRESS_FIELDS[key].find
    before, after = (
        parse_response_frame(sent, key, version),
        parse_response_frame(rewritten, key, version),
    )
    changed = [struct for struct, _ in find_structs(before) if struct.host]
    assert [struct.host for struct in changed] == list(HOSTS)[: len(changed)]
    for struct in changed:
        struct.host, struct.port = "proxy", struct.port + 1000
    assert before == after
    assert not any(struct.host.endswith("internal") for struct, _ in find_structs(after))


def test_nodes_are_looked_up_by_id_and_endpoint_type() -> None:
    requested: list[NodeAddress] = []

    def proxy_addresses(addresses: Any) -> list[Address]:  # noqa: ANN401 - as GetProxyAddresses has it
        requested.extend(addresses)
        return add_1000_to_ports(addresses)

    response = cluster()
    response.endpoint_type = 2
    rewriter = find_rewriter(60, 2)
    assert rewriter is not None
    rewriter.rewrite(response_frame(response, 2), proxy_addresses)
    assert requested == [
        NodeAddress(Node(1, 2), Address(HOSTS[0], PORTS[0])),
        NodeAddress(Node(2, 2), Address(HOSTS[1], PORTS[1])),
    ]


def test_response_without_addresses_is_the_same_frame() -> None:
    response = fetched()
    response.node_endpoints = []
    frame = response_frame(response, 17)
    rewriter = find_rewriter(1, 17)
    assert rewriter is not None
    assert rewriter.rewrite(frame, add_1000_to_ports) is frame


def test_unknown_tagged_fields_stay() -> None:
    """A newer broker may send tagged fields that its clients know."""
    response = metadata()
    response.unknown_tags = {77: b"new"}
    response.brokers[0].unknown_tags = {5: b"newer"}
    plain = response_frame(response, 13)
    tagged_header = plain[4:8] + b"\x01\x09\x02hi" + plain[9:]
    frame = len(tagged_header).to_bytes(4) + tagged_header
    rewriter = find_rewriter(3, 13)
    assert rewriter is not None
    rewritten = rewriter.rewrite(frame, add_1000_to_ports)
    assert rewritten[8:13] == b"\x01\x09\x02hi"
    after = parse_response_frame(
        (len(rewritten) - 8).to_bytes(4) + rewritten[4:8] + b"\0" + rewritten[13:], 3, 13
    )
    assert after.unknown_tags == {77: b"new"}
    assert after.brokers[0].unknown_tags == {5: b"newer"}


def test_every_api_with_broker_addresses_is_in_the_table() -> None:
    """Except DescribeQuorum, because no client connects to its voters."""
    apis_with_addresses = {
        spec.key
        for spec in load_specs()
        if spec.kind == "response"
        and any(
            {"Host", "Port"} <= (names := {field.name for field in fields})
            and names & {"NodeId", "BrokerId"}
            for fields in (spec.fields, *(struct.fields for struct in spec.structs.values()))
        )
    }
    assert apis_with_addresses == set(ADDRESS_FIELDS)


def test_api_without_addresses_has_no_rewriter_in_any_version() -> None:
    assert find_rewriter(12, 4) is None
    assert find_rewriter(12, 99) is None
    assert find_rewriter(32_000, 0) is None
    assert find_rewriter(1, 15) is None
    assert find_rewriter(0, 0) is None


def test_unknown_version_of_an_api_with_addresses_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match=r"Metadata v14.*versions 0-13"):
        find_rewriter(3, 14)
    with pytest.raises(ProtocolViolation, match="ShareFetch v0"):
        find_rewriter(78, 0)


def api_versions(*ranges: tuple[int, int, int]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, lowest, highest in ranges
        ],
        finalized_features_epoch=3,
    )


@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_only_versions_that_can_be_rewritten(version: int) -> None:
    sent = api_versions((0, 0, 14), (1, 4, 18), (3, 0, 99), (12, 0, 99), (18, 0, 7), (78, 0, 0))
    rewriter = find_rewriter(18, version)
    assert rewriter is not None
    rewritten = rewriter.rewrite(response_frame(sent, version), add_1000_to_ports)
    versions = {
        row.api_key: (row.min_version, row.max_version)
        for row in parse_response_frame(rewritten, 18, version).api_keys
    }
    assert versions == {0: (0, 13), 1: (4, 18), 3: (0, 13), 12: (0, 99), 18: (0, 5)}


def test_api_versions_without_other_versions_is_the_same_frame() -> None:
    frame = response_frame(api_versions((0, 0, 13), (12, 0, 99)), 4)
    rewriter = find_rewriter(18, 4)
    assert rewriter is not None
    assert rewriter.rewrite(frame, add_1000_to_ports) is frame


def test_newer_api_versions_request_gets_unsupported_version() -> None:
    rewriter = find_rewriter(18, 6)
    assert rewriter is not None
    rewritten = rewriter.rewrite(b"\0\0\0\x0a\0\0\0\x07future", add_1000_to_ports)
    response = parse_response_frame(rewritten, 18, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in response.api_keys] == [(18, 5)]
    assert rewritten[4:8] == b"\0\0\0\x07"


def test_unsupported_version_of_an_older_cluster_is_the_same_frame() -> None:
    refusal = api_versions((18, 0, 3))
    refusal.error_code = ErrorCode.UNSUPPORTED_VERSION
    frame = response_frame(refusal, 0)
    rewriter = find_rewriter(18, 4)
    assert rewriter is not None
    assert rewriter.rewrite(frame, add_1000_to_ports) is frame


def test_malformed_response_is_refused() -> None:
    rewriter = find_rewriter(3, 13)
    assert rewriter is not None
    frame = response_frame(metadata(), 13)
    cut = (len(frame) - 14).to_bytes(4) + frame[4:-10]
    with pytest.raises(ProtocolViolation, match="cannot parse the response to Metadata v13"):
        rewriter.rewrite(cut, add_1000_to_ports)
