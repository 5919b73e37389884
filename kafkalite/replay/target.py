"""The target of a replay: what it serves, where its nodes are, and what leads where on them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.control.kafka_client import UnreachableError, versions_told
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import split_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.kafka_client import KafkaClient
    from kafkalite.protocol.message import Message
    from kafkalite.replay.fetched import Partition

_METADATA = Versions(1, 12)
_METADATA_WITH_IDS = Versions(10, 12)
_COORDINATOR_OF_ONE = Versions(1, 3)
"""Versions of FindCoordinator that ask for one key."""
_BY_NAME = Versions(4, 12)
"""Versions of Fetch that name topics."""
_MOST_FETCHED = 8 * 1024 * 1024
_API_VERSIONS = 18
_PLAIN = Versions(0, 2)
"""Versions of ApiVersions that do not want to know who asks."""


class Leader(NamedTuple):
    """Who leads a partition of the target."""

    node_id: int
    epoch: int
    """-1 where the target does not say."""


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
    async def find(cls, client: KafkaClient, bootstrap: Address) -> Target:
        """Ask a broker for its cluster; raises UnreachableError."""
        told = await client.ask(bootstrap, ApiVersionsRequest(), _PLAIN)
        cluster = await client.ask(bootstrap, MetadataRequest(topics=[]), _METADATA)
        nodes = {row.node_id: Address(row.host, row.port) for row in cluster.brokers}
        return cls(client, bootstrap, nodes, versions_told(told))

    @property
    def is_of_several(self) -> bool:
        """Whether it has several nodes, so that it matters whom a request goes to."""
        return len(self.nodes) > 1

    def address(self, node_id: int | None) -> Address:
        """Return where a node is; where the target is found, for one that it does not have.

        The only node is where it was said to be, whatever it calls itself.
        """
        if node_id is None or not self.is_of_several:
            return self.bootstrap
        return self.nodes.get(node_id, self.bootstrap)

    async def reach(self) -> None:
        """See whether the target is there; UnreachableError."""
        async with self._client.alike() as client:
            await client.reach()

    async def catch_up(self, node_id: int) -> None:
        """Let a node take all that was sent to it.

        When it answers what is asked last, on a connection of its own, it has gone once through all
        connections; one of many threads has had the time to. A node that is gone, or answers
        nothing, is found out by what was recorded.
        """
        with suppress(UnreachableError):
            await self._client.ask(self.address(node_id), ApiVersionsRequest(), _PLAIN)

    def serves(self, api_key: int, version: int) -> bool:
        """Whether the target knows a version of an API; it answers any of ApiVersions."""
        served = self._served.get(api_key)
        return api_key == _API_VERSIONS or (served is not None and version in served)

    async def topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ids of those of these topics that there are."""
        told = await self._described(names, _METADATA_WITH_IDS)
        return {row.name: row.topic_id for row in told.topics if not row.error_code}

    async def leaders(self, topics: Sequence[str | bytes]) -> dict[tuple[str | bytes, int], Leader]:
        """Return who leads the partitions of topics, which are named, or meant by their ids."""
        found: dict[tuple[str | bytes, int], Leader] = {}
        for kind, known in ((str, _METADATA), (bytes, Versions(12, 12))):
            named = [each for each in topics if isinstance(each, kind)]
            told = await self._described(named, known) if named else None
            for topic in () if told is None else told.topics:
                key = topic.name if kind is str else topic.topic_id
                for row in topic.partitions:
                    found[key, row.partition_index] = Leader(row.leader_id, row.leader_epoch)
        return found

    async def _described(self, topics: Sequence[str | bytes], known: Versions) -> Any:  # noqa: ANN401 - a MetadataResponse
        row = MetadataRequest.MetadataRequestTopic
        rows = [
            row(name=each) if isinstance(each, str) else row(topic_id=each, name=None)
            for each in topics
        ]
        asked = MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        return await self._ask(asked, known)

    async def _ask(self, request: Message, known: Versions) -> Any:  # noqa: ANN401 - any response
        return await self._client.ask(self.bootstrap, request, known)

    async def coordinator(self, key: str, key_type: int) -> int | None:
        """Return which node coordinates a group, or a transactional id; None as long as none."""
        asked = FindCoordinatorRequest(key=key, key_type=key_type)
        told = await self._ask(asked, _COORDINATOR_OF_ONE)
        node_id: int = told.node_id
        return None if told.error_code else node_id

    async def records(self, partition: Partition, first: int, last: int) -> list[bytes]:
        """Return record batches of a partition from one offset to another, as far as there are."""
        found: list[bytes] = []
        for address in dict.fromkeys((*self.nodes.values(), self.bootstrap)):
            offset = first
            while offset <= last:
                data = await self._fetched(address, partition, offset)
                end = _end_of(data)
                if end is None or end <= offset:
                    break
                found.append(data)
                offset = end
            if found:
                break
        return found

    async def _fetched(self, address: Address, partition: Partition, offset: int) -> bytes:
        asked = FetchRequest.FetchPartition(
            partition=partition.number, fetch_offset=offset, partition_max_bytes=_MOST_FETCHED
        )
        topic = FetchRequest.FetchTopic(topic=partition.topic, partitions=[asked])
        try:
            told: Any = await self._client.ask(
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
