"""ScriptedClient and SkippingClock: brokers as functions, and a clock that skips waiting times."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from kafkalite.client.client import Coordinator, KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import TopicPartition
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.ports.clock import Timer
    from kafkalite.protocol.message import Message

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
NODES = {node_id: Address("node", 9000 + node_id) for node_id in (1, 2, 3)}
VERSIONS = Versions(4, 12)


class SkippingClock(ManualClock):
    """A manual clock that moves to each deadline as soon as the event loop is idle."""

    __slots__ = ("waits_ms",)

    def __init__(self) -> None:
        super().__init__(0)
        self.waits_ms: list[int] = []

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        timer = super().call_at(deadline_ms, callback)
        self.waits_ms.append(deadline_ms - self.now_ms())

        def skip() -> None:
            if deadline_ms > self.now_ms():
                self.advance(deadline_ms - self.now_ms())

        asyncio.get_running_loop().call_soon(skip)
        return timer


Answer = Any  # a response, or an exception to raise


class ScriptedClient(KafkaClient):
    """A client whose brokers answer with the results of functions.

    `metadata_of` has the metadata that each node reports; a node without an entry is unreachable.
    `answers` maps the name of a request class to a function of the node and the request.
    """

    def __init__(
        self,
        metadata_of: Mapping[int, MetadataResponse] | None = None,
        answers: Mapping[str, Callable[[int, Any], Answer]] | None = None,
        bootstrap: Sequence[int] = (1, 2, 3),
    ) -> None:
        super().__init__([NODES[node_id] for node_id in bootstrap])
        self.metadata_of = dict(metadata_of or {})
        self.answers = dict(answers or {})
        self.asked: list[tuple[int, str]] = []
        """Node and request class of each request."""
        self.timeouts_s: list[float | None] = []
        """The remaining time of each request."""

    async def metadata(
        self,
        topics: Sequence[str | bytes] = (),
        at: Address | None = None,
        client_versions: Versions = VERSIONS,
        *,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - as the base class
        assert at is not None
        assert client_versions == VERSIONS
        node_id = self._node_at(at)
        self.asked.append((node_id, "MetadataRequest"))
        self.timeouts_s.append(timeout_s)
        if node_id not in self.metadata_of:
            raise UnreachableError(f"node {node_id} is down")
        response = self.metadata_of[node_id]
        return MetadataResponse(
            brokers=response.brokers,
            topics=[topic for topic in response.topics if topic.name in topics],
            max_incarnation_epoch=response.max_incarnation_epoch,
        )

    async def ask(
        self,
        address: Address,
        request: Message,
        client_versions: Versions,  # noqa: ARG002 - as the base class
        *,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - as the base class
        node_id = self._node_at(address)
        name = type(request).__name__
        self.asked.append((node_id, name))
        self.timeouts_s.append(timeout_s)
        answer = self.answers[name](node_id, request)
        if isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send(
        self,
        address: Address,
        request: Message,
        client_versions: Versions,
        *,
        timeout_s: float | None = None,
    ) -> None:
        await self.ask(address, request, client_versions, timeout_s=timeout_s)

    async def find_coordinator(
        self,
        key: str,
        key_type: int,
        at: Address | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Coordinator:
        assert at is not None
        assert key_type == 0
        node_id = self._node_at(at)
        self.asked.append((node_id, "FindCoordinatorRequest"))
        self.timeouts_s.append(timeout_s)
        answer = self.answers["FindCoordinatorRequest"](node_id, key)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ErrorCode):
            return Coordinator(answer, -1, Address("", -1))
        return Coordinator(ErrorCode.NONE, answer, NODES[answer])

    @staticmethod
    def _node_at(address: Address) -> int:
        return next(node_id for node_id, known in NODES.items() if known == address)


def metadata_response(
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    partition_epoch: int = -1,
    max_partition_epoch: int = -1,
    partition: TopicPartition = ORDERS,
    topic_id: bytes = bytes(16),
    nodes: Sequence[int] = (1, 2, 3),
) -> MetadataResponse:
    """Return a response with one partition."""
    row = MetadataResponse.MetadataResponsePartition(
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=leader_epoch,
        incarnation_epoch=partition_epoch,
    )
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node_id, host=NODES[node_id].host, port=NODES[node_id].port
            )
            for node_id in nodes
        ],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name=partition.topic, topic_id=topic_id, partitions=[row]
            )
        ],
        max_incarnation_epoch=max_partition_epoch,
    )
