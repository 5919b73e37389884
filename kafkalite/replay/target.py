"""The target of a replay: what it serves, where its nodes are, and which of them stands for which.

A recorded connection goes to the node of the same id; where the target has no such node, to the one
of the same rank, and on a target of one node all go there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_response
from kafkalite.control.kafka_client import KafkaClient, UnreachableError
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.versions import Versions
from kafkalite.replay.mapping import Kind, Scope
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import split_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.replay.fetched import Partition
    from kafkalite.replay.mapping import Mapping as Meaning

_METADATA = Versions(1, 12)
_METADATA_WITH_IDS = Versions(10, 12)
_BY_NAME = Versions(4, 12)
"""Versions of Fetch that name topics."""
_TELL_OF_NODES = {3: "node_id", 60: "broker_id"}
"""Metadata and DescribeCluster, and where they have the ids of nodes."""
_MOST_FETCHED = 8 * 1024 * 1024
_API_VERSIONS = 18
_PLAIN = Versions(0, 2)
"""Versions of ApiVersions that do not want to know who asks."""


class Target:
    """A cluster that a capture is replayed on."""

    def __init__(
        self, bootstrap: Address, nodes: Mapping[int, Address], served: Mapping[int, Versions]
    ) -> None:
        self.bootstrap = bootstrap
        self.nodes = nodes
        self._served = served

    @classmethod
    async def find(cls, bootstrap: Address) -> Target:
        """Ask a broker for its cluster; raises UnreachableError."""
        async with KafkaClient([bootstrap]) as client:
            told = await client.ask_any(ApiVersionsRequest(), _PLAIN)
            served = {
                row.api_key: Versions(row.min_version, row.max_version) for row in told.api_keys
            }
            cluster = await client.ask_any(MetadataRequest(topics=[]), _METADATA)
        nodes = {row.node_id: Address(row.host, row.port) for row in cluster.brokers}
        return cls(bootstrap, nodes, served)

    def serves(self, api_key: int, version: int) -> bool:
        """Whether the target knows a version of an API; it answers any of ApiVersions."""
        served = self._served.get(api_key)
        return api_key == _API_VERSIONS or (served is not None and version in served)

    async def topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ids of those of these topics that there are."""
        rows = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        asked = MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        async with KafkaClient([self.bootstrap]) as client:
            told = await client.ask_any(asked, _METADATA_WITH_IDS)
        return {row.name: row.topic_id for row in told.topics if not row.error_code}

    async def records(self, partition: Partition, first: int, last: int) -> list[bytes]:
        """Return record batches of a partition from one offset to another, as far as there are."""
        found: list[bytes] = []
        addresses = list(dict.fromkeys((*self.nodes.values(), self.bootstrap)))
        async with KafkaClient(addresses) as client:
            for address in addresses:
                offset = first
                while offset <= last:
                    data = await _fetched(client, address, partition, offset)
                    end = _end_of(data)
                    if end is None or end <= offset:
                        break
                    found.append(data)
                    offset = end
                if found:
                    break
        return found


async def _fetched(
    client: KafkaClient, address: Address, partition: Partition, offset: int
) -> bytes:
    asked = FetchRequest.FetchPartition(
        partition=partition.number, fetch_offset=offset, partition_max_bytes=_MOST_FETCHED
    )
    topic = FetchRequest.FetchTopic(topic=partition.topic, partitions=[asked])
    try:
        told: Any = await client.ask(
            address, FetchRequest(max_bytes=_MOST_FETCHED, topics=[topic]), _BY_NAME
        )
    except UnreachableError:
        return b""
    return b"".join(
        bytes(row.records or b"") for answer in told.responses for row in answer.partitions
    )


def _end_of(data: bytes) -> int | None:
    try:
        batches = split_batches(data)
    except KafkaError:
        return None  # as where there is nothing: neither is there to be compared
    return batches[-1].last_offset + 1 if batches else None


class Routes:
    """Which node of the target each recorded connection goes to."""

    def __init__(self, target: Target, meaning: Meaning) -> None:
        self._target = target
        self._meaning = meaning
        self._by_port: dict[int, int] = {}
        self._by_endpoint: dict[tuple[str, int], int] = {}
        self._recorded: tuple[int, ...] = ()

    def look_at(self, exchange: Exchange) -> None:
        """Take the nodes that a recorded answer names, if it does."""
        if exchange.api_key not in _TELL_OF_NODES or exchange.response is None:
            return
        try:
            told: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        name = _TELL_OF_NODES[exchange.api_key]
        self.learn([(getattr(row, name), row.host, row.port) for row in told.brokers])

    def learn(self, brokers: Sequence[tuple[int, str, int]]) -> None:
        """Take the nodes that a recorded answer names: id, host and port."""
        for node_id, host, port in brokers:
            self._by_endpoint[host, port] = node_id
            self._by_port[port] = node_id
        recorded = tuple(sorted({node_id for node_id, _, _ in brokers}))
        if recorded and recorded != self._recorded:
            self._recorded = recorded
            there = sorted(self._target.nodes)
            if len(recorded) != len(there):
                self._meaning.nodes = len(recorded), len(there)
            for rank, node_id in enumerate(recorded):
                same = node_id if node_id in self._target.nodes else None
                stands_in = there[min(rank, len(there) - 1)] if there else node_id
                self._meaning.tell(Kind.NODE, node_id, stands_in if same is None else same)

    def address(self, connection: Connection) -> Address:
        """Return where a recorded connection goes."""
        nodes = self._target.nodes
        if len(nodes) == 1:
            return self._target.bootstrap
        node_id = self._node(connection)
        if node_id is None:
            return self._target.bootstrap
        if node_id not in nodes:
            meant = self._meaning.translate(Kind.NODE, Scope(), node_id)
            assert isinstance(meant, int)
            node_id = meant
        return nodes.get(node_id, self._target.bootstrap)

    def _node(self, connection: Connection) -> int | None:
        if connection.node_id is not None and connection.node_id >= 0:
            return connection.node_id
        broker = connection.broker
        return self._by_endpoint.get((broker.host, broker.port), self._by_port.get(broker.port))
