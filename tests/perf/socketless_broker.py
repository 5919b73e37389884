"""A broker without sockets that processes requests as bytes, with codec, machine and log.

It is for benchmarks with a thousand members or a million records. They measure only the CPU time of
the broker and control its virtual time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.apis.table import find_api
from kafkalite.cluster.cluster import Cluster
from kafkalite.config.broker import BrokerConfig
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.faults import Faults
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.internal_topics import offsets_topic
from kafkalite.ports.files import OsFiles
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol import codec
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.session import PendingAnswer
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.gateway.exchanges import Observer
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import Pieces

_LENGTH_BYTES = 4
_CORRELATION_BYTES = 4
_NODE = 0


class SocketlessBroker:
    """A cluster of one node on a data directory; `call` sends a request as a client does."""

    def __init__(self, directory: str, settings: Mapping[str, str] | None = None) -> None:
        config = BrokerConfig.from_text(settings or {})
        self.clock = ManualClock()
        self._directory = DataDirectory(OsFiles(), directory)
        self.cluster = Cluster(
            cluster_id="cluster",
            directory=self._directory,
            clock=self.clock,
            entropy=SeededEntropy(),
            config=config,
            node_ids=(_NODE,),
        )
        self.cluster.metadata.create_topics([offsets_topic(config)])
        self._gateway = Gateway(find_api, _raise)
        self.cluster.open(InterBrokerCalls(self._gateway))
        node = self.cluster.nodes[_NODE]
        node.set_endpoint("PLAINTEXT", "h", 9092)
        self._context = ConnectionContext(
            node=node,
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )

    def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        """Process one request with all of the broker except its sockets."""
        return self.parse(type(request), version, self.serve(frame(request, version)))

    def parse(self, request_type: type[Message], version: int, data: bytes) -> Any:  # noqa: ANN401 - see call
        """Parse the response to a request of this class."""
        key: int = request_type.API_KEY  # type: ignore[attr-defined]  # every request class has one
        is_flexible = codec.is_flexible(key, version)
        position = _LENGTH_BYTES + _CORRELATION_BYTES + is_flexible
        response, _ = codec.response_parser(key, version)(data, position, len(data))
        return response

    def serve(self, request: bytes) -> bytes:
        """Return the encoded response to an encoded request."""
        answer = self.send(request)()
        assert answer is not None, "the response is still pending"
        return answer

    def send(self, request: bytes) -> Callable[[], bytes | None]:
        """Process a frame; returns a function that returns the response, or None while pending."""
        out: Pieces = []
        buffer = bytearray(request)
        result = self._gateway.serve_in_worker(
            self._context, buffer, _LENGTH_BYTES, len(buffer), out
        )

        def answer() -> bytes | None:
            if isinstance(result, PendingAnswer) and not out:
                if not result.waiting.is_resolved:
                    # Run what is already due, such as a delay of 0 ms.
                    self.clock.advance(0)
                if not result.waiting.is_resolved:
                    return None
                result.encode(result.waiting.value, out)
            return b"".join(out)

        return answer

    def subscribe(self, observer: Observer) -> None:
        """Give the exchange of each request to an observer."""
        self._gateway.subscribe(observer)

    def faults(self) -> Faults:
        """Return the faults of its requests."""
        return Faults(
            self.cluster.nodes,
            {"PLAINTEXT": self._gateway},
            SeededEntropy(),
            report=lambda *_: None,
            report_bug=_raise,
            install=partial(self._gateway.set_step, StepOrder.FAULTS),
        )

    def reload_groups(self) -> None:
        """Let the group coordinator reload its log, as after a restart."""
        coordinator = self.cluster.groups
        coordinator.set_leaders(())
        coordinator.set_leaders((_NODE,))
        assert not coordinator.unreadable

    def group_shard(self) -> ActiveShard[GroupShard]:
        """Return the first shard of the group coordinator."""
        return self.cluster.groups.shards()[0]

    def close(self) -> None:
        """Close the directory with a clean shutdown."""
        self.cluster.stop()
        self._directory.close(self.cluster.partitions.logs())


def _raise(_: str, fault: Exception) -> None:
    raise fault
