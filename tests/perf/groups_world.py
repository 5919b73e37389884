"""A broker without sockets: requests go in as bytes, through codec, machine and log, and come out.

For what takes a thousand members or a million records, where the broker's own processor time is
all that counts and virtual time passes as it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.context import Endpoint, RequestContext
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.internal_topics import offsets_topic
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.server.cluster import Cluster
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.entropy import SeededEntropy
from kafkalite.wire.session import Owed
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.contract import Api
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import Pieces

_LENGTH_BYTES = 4
_CORRELATION_BYTES = 4
_NODE = 0


class World:
    """One cluster of one node on a directory of its own; `call` is what clients do."""

    def __init__(self, directory: str, settings: Mapping[str, str] | None = None) -> None:
        config = BrokerConfig.from_text(settings or {})
        self.clock = ManualClock()
        self._directory = DataDirectory(OsFiles(), directory)
        self.cluster = Cluster(
            directory=self._directory,
            clock=self.clock,
            entropy=SeededEntropy(),
            config=config,
            node_ids=(_NODE,),
        )
        self.cluster.metadata.create_topics([offsets_topic(config)])
        self._dispatcher = Dispatcher(find_api, _raise)
        self._context = RequestContext(
            services=self.cluster.services("perf", lambda _: [Endpoint(_NODE, "h", 9092)]),
            node_id=_NODE,
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )

    def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        """Send one request through all of the broker but its sockets."""
        return self.parse(type(request), version, self.serve(frame(request, version)))

    def parse(self, asked: type[Message], version: int, data: bytes) -> Any:  # noqa: ANN401 - see call
        """Read the answer to a request of that class."""
        key: int = asked.API_KEY  # type: ignore[attr-defined]  # every request class has one
        is_flexible = codec.is_flexible(key, version)
        start = _LENGTH_BYTES + _CORRELATION_BYTES + is_flexible
        response, _ = codec.response_parser(key, version)(data, start, len(data))
        return response

    def serve(self, request: bytes) -> bytes:
        """Return the answer to a frame, as bytes both."""
        answer = self.send(request)()
        assert answer is not None, "nobody else is there to wait for"
        return answer

    def send(self, request: bytes) -> Callable[[], bytes | None]:
        """Send a frame, and return what asks for its answer: None while that is not there."""
        out: Pieces = []
        buffer = bytearray(request)
        owed = self._dispatcher.dispatch(self._context, buffer, _LENGTH_BYTES, len(buffer), out)

        def answer() -> bytes | None:
            if isinstance(owed, Owed) and not out:
                if not owed.waiting.is_resolved:
                    # What is due at once, such as a delay of nothing.
                    self.clock.advance(0)
                if not owed.waiting.is_resolved:
                    return None
                owed.finish(owed.waiting.value, out)
            return b"".join(out)

        return answer

    def reload_groups(self) -> None:
        """Let the group coordinator read its log again, as after a restart."""
        coordinator = self.cluster.groups
        coordinator.lead(())
        coordinator.lead((_NODE,))
        assert not coordinator.unreadable

    def group_shard(self) -> ActiveShard[GroupShard]:
        """Return the first shard of the group coordinator."""
        return self.cluster.groups.shards()[0]

    def close(self) -> None:
        """Let the directory go, clean."""
        self.cluster.end_waits()
        self._directory.close(self.cluster.partitions.logs())


def _raise(_: Api, fault: Exception) -> None:
    raise fault
