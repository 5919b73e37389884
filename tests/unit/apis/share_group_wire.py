"""ShareGroupWire: share group requests as bytes through the dispatcher, to a cluster on a disk."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafkalite.apis.context import Endpoint, RequestContext
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.records import written_version
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, offsets_topic
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.server.cluster import Cluster
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.entropy import SeededEntropy
from kafkalite.wire.session import Owed
from tests.unit.apis.group_wire import Late, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import NoReturn

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.protocol.message import Message

SMALL = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
}


class ShareGroupWire:
    """A cluster of one node or more, and a client of each."""

    def __init__(
        self,
        path: Path,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._path, self._nodes = str(path), nodes
        self._config = {**SMALL, **(config or {})}
        self.clock = ManualClock()
        self._start()
        self.cluster.metadata.create_topics([offsets_topic(BrokerConfig.from_text(self._config))])

    def _start(self) -> None:
        self._directory = DataDirectory(OsFiles(), self._path)
        nodes = self._nodes
        self.cluster = Cluster(
            directory=self._directory,
            clock=self.clock,
            entropy=SeededEntropy(),
            config=BrokerConfig.from_text(self._config),
            node_ids=range(1, nodes + 1),
        )
        services = self.cluster.services(
            "cluster",
            lambda _: [Endpoint(node, "localhost", 9000 + node) for node in range(1, nodes + 1)],
        )
        self.contexts = {
            node: RequestContext(
                services=services, node_id=node, listener="PLAINTEXT", client_host="/127.0.0.1"
            )
            for node in range(1, nodes + 1)
        }
        self._dispatcher = Dispatcher(find_api, self._fault)

    def restart(self) -> None:
        """Stop, and start again on the same data, at the same time of day."""
        self.end()
        self._start()

    def records(self) -> list[CoordinatorRecord[object, object]]:
        """Return what the groups' log holds."""
        log = open_coordinator_log(self.cluster.partitions, OFFSETS_TOPIC, 0)
        serde = CoordinatorSerde(written_version)
        decoded = [serde.decode(key, value) for key, value in log.read_all()]
        return [record for record in decoded if record is not None]

    def end(self) -> None:
        """Close the cluster."""
        self.cluster.end_waits()
        self._directory.close(self.cluster.partitions.logs())

    def create(self, name: str, partitions: int = 1) -> bytes:
        """Make a topic and return its id."""
        (made,) = self.cluster.metadata.create_topics(
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

    def beat(
        self,
        member: str = "m",
        epoch: int = 0,
        topics: list[str] | None = None,
        *,
        group: str = "g",
        node: int = 1,
        rack: str | None = None,
    ) -> Any:  # noqa: ANN401 - any response class
        """Send a heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=topics,
        )
        return self.ask(request, 1, node)

    def read_and_left(self, topic: str, group: str = "g") -> None:
        """Let a member have come for a topic and gone again."""
        self.beat("m", 0, [topic], group=group)
        self.beat("m", -1, group=group)

    @staticmethod
    def _fault(_: object, fault: Exception) -> NoReturn:
        raise fault
