"""GroupWire: group requests as bytes through the dispatcher, to a coordinator in memory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafkalite.apis.context import Endpoint, RequestContext, Services
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.journal import Journal
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.creation import NewTopic
from kafkalite.partitions.table import PartitionTable
from kafkalite.protocol import codec
from kafkalite.shares.coordinator import ShareCoordinator
from kafkalite.shares.table import SharePartitions
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.testing.entropy import SeededEntropy
from kafkalite.transactions.coordinator import TransactionCoordinator
from kafkalite.wire.session import Owed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from kafkalite.protocol.message import Message


class Late:
    """An answer that is owed."""

    def __init__(self, owed: Owed, key: int, version: int) -> None:
        self._owed = owed
        self._key, self._version = key, version

    @property
    def is_there(self) -> bool:
        return self._owed.waiting.is_resolved

    @property
    def response(self) -> Any:  # noqa: ANN401 - any response class
        out: list[bytes | memoryview] = []
        self._owed.finish(self._owed.waiting.value, out)
        return parsed(b"".join(out), self._key, self._version)


class GroupWire:
    """Nodes that coordinate groups, and a client of each."""

    def __init__(self, nodes: int = 1, config: Mapping[str, str] | None = None) -> None:
        self.clock = ManualClock()
        self.journal = Journal()
        entropy = SeededEntropy()
        broker = BrokerConfig.from_text(config)
        self.metadata_log = MemoryCoordinatorLog()
        self.metadata = MetadataController(
            log=self.metadata_log, config=broker, clock=self.clock, entropy=entropy
        )
        self.logs: dict[int, MemoryCoordinatorLog] = {}
        self.groups = GroupCoordinator(
            clock=self.clock,
            entropy=entropy,
            config=broker,
            image=self.metadata.image,
            open_log=lambda index: self.logs.setdefault(index, MemoryCoordinatorLog()),
            journal=self.journal,
        )
        self.transactions = TransactionCoordinator(
            clock=self.clock,
            config=broker,
            metadata=self.metadata,
            draw_producer_id=lambda: 0,
            open_log=lambda _: MemoryCoordinatorLog(),
            journal=self.journal,
        )
        self.metadata.subscribe(self.groups.on_image)
        self.metadata.subscribe(self.transactions.on_image)
        self.metadata.start(dict.fromkeys(range(1, nodes + 1)))
        services = Services(
            clock=self.clock,
            entropy=entropy,
            cluster_id="cluster",
            config=broker,
            metadata=self.metadata,
            partitions=PartitionTable.__new__(PartitionTable),  # groups have no use for it
            groups=self.groups,
            journal=self.journal,
            shares=ShareCoordinator.__new__(ShareCoordinator),
            share_partitions=SharePartitions.__new__(SharePartitions),
            transactions=self.transactions,
            endpoints=lambda _: [
                Endpoint(node, "localhost", 9000 + node) for node in range(1, nodes + 1)
            ],
        )
        self.contexts = {
            node: RequestContext(
                services=services, node_id=node, listener="PLAINTEXT", client_host="/127.0.0.1"
            )
            for node in range(1, nodes + 1)
        }
        self._dispatcher = Dispatcher(find_api, self._fault)

    def create(self, name: str, partitions: int = 1) -> bytes:
        """Make a topic and return its id."""
        (made,) = self.metadata.create_topics(
            [NewTopic(name=name, partitions=partitions, replication_factor=1)]
        )
        assert made.error is None
        return made.topic_id

    def ask(self, request: Message, version: int, node: int = 1) -> Any:  # noqa: ANN401 - any class
        """Send a request; its response, or Late when it is owed."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        body: list[bytes | memoryview] = []
        codec.request_builder(key, version)(request, body)
        tags = b"\0" if codec.is_flexible(key, version) else b""
        frame = bytearray(
            struct.pack(">hhih", key, version, 7, 6) + b"client" + tags + b"".join(body)
        )
        out: list[bytes | memoryview] = []
        answer = self._dispatcher.dispatch(self.contexts[node], frame, 0, len(frame), out)
        if isinstance(answer, Owed):
            return Late(answer, key, version)
        return parsed(b"".join(out), key, version)

    @staticmethod
    def _fault(_: object, fault: Exception) -> NoReturn:
        raise fault


def parsed(frame: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any response class
    """Read a response frame."""
    start = 9 if codec.is_flexible(key, version) else 8
    response, end = codec.response_parser(key, version)(frame, start, len(frame))
    assert end == len(frame)
    return response
