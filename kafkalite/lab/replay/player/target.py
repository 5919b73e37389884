"""`Target`: the cluster that a capture is replayed on, with its versions, nodes and leaders."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkalite.client.connection import DisconnectedError, UnreachableError
from kafkalite.client.exchanges import supported_versions
from kafkalite.lab.replay.player.timeouts import STAND_IN_HINT
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import split_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.lab.replay.comparison.fetched_records import Partition

_METADATA_WITH_IDS = Versions(10, 12)
_FETCH_BY_NAME = Versions(4, 12)
"""Versions of Fetch with topic names."""
_MAX_FETCH_BYTES = 8 * 1024 * 1024
_API_VERSIONS = ApiKey.API_VERSIONS
_WITHOUT_SOFTWARE_NAME = Versions(0, 2)
"""Versions of ApiVersions without the client's software name."""


class Leader(NamedTuple):
    """The leader of a partition of the target."""

    node_id: int
    epoch: int
    """-1 if unknown."""


class Target:
    """A cluster that a capture is replayed on."""

    def __init__(
        self,
        client: KafkaClient,
        bootstrap: Address,
        nodes: Mapping[int, Address],
        served: Mapping[int, Versions],
    ) -> None:
        self._client = client
        self.bootstrap = bootstrap
        self.nodes = nodes
        self._served = served

    @classmethod
    async def discover(cls, client: KafkaClient, bootstrap: Address) -> Target:
        """Ask a broker for its versions and for the nodes of its cluster.

        Raises UnreachableError.
        """
        try:
            versions = await client.ask(bootstrap, ApiVersionsRequest(), _WITHOUT_SOFTWARE_NAME)
            cluster = await client.metadata(at=bootstrap)
        except DisconnectedError as error:
            raise UnreachableError(f"{error}; {STAND_IN_HINT}") from error
        nodes = {row.node_id: Address(row.host, row.port) for row in cluster.brokers}
        return cls(client, bootstrap, nodes, supported_versions(versions))

    @property
    def has_several_nodes(self) -> bool:
        """Whether the target has several nodes, so that requests must be routed."""
        return len(self.nodes) > 1

    def address(self, node_id: int | None) -> Address:
        """Return the address of a node; the bootstrap address if the node is unknown.

        If there is only one node, the bootstrap address is used instead of its advertised address.
        """
        if node_id is None or not self.has_several_nodes:
            return self.bootstrap
        return self.nodes.get(node_id, self.bootstrap)

    async def check_reachable(self) -> None:
        """Check that the target is reachable; raises UnreachableError."""
        async with self._client.copy() as client:
            await client.check_reachable()

    async def wait_until_read(self, node_id: int) -> None:
        """Wait until a node has most likely read all requests that were sent to it.

        When the node responds to a request on another connection, its event loop has read all
        connections once; a node with several threads has most likely done so too. UnreachableError
        is ignored, because the replayed requests report it.
        """
        with suppress(UnreachableError):
            await self._client.ask(
                self.address(node_id), ApiVersionsRequest(), _WITHOUT_SOFTWARE_NAME
            )

    def serves(self, api_key: int, version: int) -> bool:
        """Whether the target serves a version of an API; True for any version of ApiVersions."""
        versions = self._served.get(api_key)
        return api_key == _API_VERSIONS or (versions is not None and version in versions)

    async def fetch_topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return topic name → id for the topics that exist."""
        metadata = await self._client.metadata(names, self.bootstrap, _METADATA_WITH_IDS)
        return {row.name: row.topic_id for row in metadata.topics if not row.error_code}

    async def fetch_leaders(
        self, topics: Sequence[str | bytes]
    ) -> dict[tuple[str | bytes, int], Leader]:
        """Return (topic, partition) → leader for topics given by name or id."""
        leaders: dict[tuple[str | bytes, int], Leader] = {}
        for kind in (str, bytes):
            named = [topic for topic in topics if isinstance(topic, kind)]
            metadata = await self._client.metadata(named, self.bootstrap) if named else None
            for topic in () if metadata is None else metadata.topics:
                key = topic.name if kind is str else topic.topic_id
                for row in topic.partitions:
                    leaders[key, row.partition_index] = Leader(row.leader_id, row.leader_epoch)
        return leaders

    async def find_coordinator(self, key: str, key_type: int) -> int | None:
        """Return the coordinator of a group or transactional id; None if it is not available."""
        answer = await self._client.find_coordinator(key, key_type, self.bootstrap)
        return None if answer.error else answer.node_id

    async def fetch_records(
        self, partition: Partition, first_offset: int, last_offset: int
    ) -> list[bytes]:
        """Return the record batches of a partition from `first_offset` to `last_offset`."""
        batches: list[bytes] = []
        for address in dict.fromkeys((*self.nodes.values(), self.bootstrap)):
            offset = first_offset
            while offset <= last_offset:
                data = await self._fetch(address, partition, offset)
                end = _end_offset(data)
                if end is None or end <= offset:
                    break
                batches.append(data)
                offset = end
            if batches:
                break
        return batches

    async def _fetch(self, address: Address, partition: Partition, offset: int) -> bytes:
        row = FetchRequest.FetchPartition(
            partition=partition.number, fetch_offset=offset, partition_max_bytes=_MAX_FETCH_BYTES
        )
        topic = FetchRequest.FetchTopic(topic=partition.topic, partitions=[row])
        try:
            response: Any = await self._client.ask(
                address, FetchRequest(max_bytes=_MAX_FETCH_BYTES, topics=[topic]), _FETCH_BY_NAME
            )
        except UnreachableError:
            return b""
        return b"".join(
            bytes(row.records or b"") for answer in response.responses for row in answer.partitions
        )


def _end_offset(data: bytes) -> int | None:
    try:
        batches = split_batches(data)
    except KafkaError:
        return None  # undecodable batches cannot be compared either
    return batches[-1].last_offset + 1 if batches else None
