"""Network: the connections between the nodes of a real Kafka, which a test can cut.

Each node resolves the names of the other nodes on its own: a hosts file of its JVM maps them to
loopback addresses that only this node uses. At such an address, a relay forwards connections to the
other node. So the relay knows both nodes of a connection, and closing the relays of a node isolates
it. Clients use another listener, at the address 127.0.0.1, without a relay.
"""

from __future__ import annotations

import asyncio
import socket
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.oracle.requirements import UnavailableError
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    from tests.oracle.real_kafka import RealKafka

_LOCAL: Final = "127.0.0.1"
_BETWEEN_BROKERS: Final = "INTERNAL"
_CHUNK_BYTES: Final = 65_536


class Network:
    """The connections between some nodes; `directory` holds the hosts files of the nodes."""

    def __init__(self, directory: Path, node_ids: Sequence[int]) -> None:
        self._directory = directory
        self._node_ids = node_ids
        self._ports = {node_id: [free_port()] for node_id in node_ids}
        self._isolated: set[int] = set()
        self._relays: list[_Relay] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="relays", daemon=True)

    def flags(self, node_id: int) -> tuple[str, ...]:
        """Write the hosts file of a node, and return the option of Java that names the file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        hosts = self._directory / f"hosts-{node_id}"
        lines = [f"{_LOCAL} localhost {socket.gethostname()} {_name(node_id)}\n"]
        lines += [
            f"{_address(node_id, other)} {_name(other)}\n"
            for other in self._node_ids
            if other != node_id
        ]
        hosts.write_text("".join(lines))
        return (f"-Djdk.net.hosts.file={hosts}",)

    def controller(self, node_id: int, node: RealKafka) -> str:
        """Return the address of a controller for nodes, `host:port`."""
        port = node.controller.rpartition(":")[2]
        if int(port) not in self._ports[node_id]:
            self._ports[node_id].append(int(port))
        return f"{_name(node_id)}:{port}"

    def settings(self, node_id: int, node: RealKafka, *, is_controller: bool) -> Mapping[str, str]:
        """Return the settings of a node's listeners."""
        port = self._ports[node_id][0]
        listeners = [f"PLAINTEXT://{node.bootstrap}", f"{_BETWEEN_BROKERS}://{_LOCAL}:{port}"]
        advertised = [listeners[0], f"{_BETWEEN_BROKERS}://{_name(node_id)}:{port}"]
        if is_controller:
            listeners.append(f"CONTROLLER://{node.controller}")
            advertised.append(f"CONTROLLER://{self.controller(node_id, node)}")
        names = ("CONTROLLER", "PLAINTEXT", _BETWEEN_BROKERS)
        return {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "inter.broker.listener.name": _BETWEEN_BROKERS,
        }

    def start(self) -> None:
        """Open all relays; raises UnavailableError where loopback has only one address."""
        self._relays = [
            _Relay(sender, receiver, port)
            for sender in self._node_ids
            for receiver in self._node_ids
            for port in self._ports[receiver]
            if sender != receiver
        ]
        self._thread.start()
        try:
            for relay in self._relays:
                self._run(relay.open())
        except OSError as error:
            raise UnavailableError(f"nodes cannot be isolated: {error}") from error

    def isolate(self, node_id: int) -> None:
        """Close the connections between a node and the others, and refuse further ones."""
        for relay in self._relays_of(node_id):
            self._run(relay.close())
        self._isolated.add(node_id)

    def connect(self, node_id: int) -> None:
        """Let a node and the others connect again."""
        self._isolated.discard(node_id)
        for relay in self._relays_of(node_id):
            self._run(relay.open())

    def close(self) -> None:
        """Close all relays."""
        if self._thread.is_alive():
            for relay in self._relays:
                self._run(relay.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _relays_of(self, node_id: int) -> list[_Relay]:
        """Return the relays of a node to and from nodes that are not isolated."""
        return [
            relay
            for relay in self._relays
            if node_id in relay.nodes and not self._isolated.intersection(relay.nodes)
        ]

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _name(node_id: int) -> str:
    return f"node-{node_id}"


def _address(sender: int, receiver: int) -> str:
    """Return the address at which one node finds another."""
    return f"127.0.{sender}.{receiver + 1}"


class _Pair(NamedTuple):
    """Both sides of one connection."""

    sender: asyncio.StreamWriter
    receiver: asyncio.StreamWriter


class _Relay:
    """Forwards connections of one node to one port of another."""

    def __init__(self, sender: int, receiver: int, port: int) -> None:
        self.nodes = frozenset((sender, receiver))
        self._address = _address(sender, receiver)
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[_Pair] = set()

    async def open(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._forward, self._address, self._port)

    async def close(self) -> None:
        """End all connections, and refuse further ones."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for pair in self._connections:
            for writer in pair:
                writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(_LOCAL, self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, other_writer)
        self._connections.add(pair)
        try:
            if self._server is not None:  # not closed meanwhile
                await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        finally:
            self._connections.discard(pair)
            for each in pair:
                each.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until either side ends the connection, and end the other side, too."""
    try:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()
