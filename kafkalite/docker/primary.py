"""The primary of a cluster of several containers: the nodes of the others, and their clients.

The process of the primary runs all nodes. Another container joins by a connection to a port of the
primary, and introduces each client that connects to it by another one. The end of the first
connection stops the node, its silence isolates it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kafkalite import __version__
from kafkalite.cluster.node_control import NodeError
from kafkalite.config.broker import is_of_sasl, is_of_tls
from kafkalite.config.definitions import ConfigError
from kafkalite.config.node_keys import LISTENERS, can_differ
from kafkalite.config.typed_json import JsonError
from kafkalite.docker.cluster_messages import (
    MAX_LINE_BYTES,
    MAX_SILENCE_S,
    SIGN_INTERVAL_S,
    Admission,
    Application,
    Challenge,
    FirstLine,
    Refusal,
    RequestedTopic,
    Sign,
    is_proof,
    line_of,
    read_line,
)
from kafkalite.docker.membership import SECRET
from kafkalite.gateway.error_messages import printable
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.server.addresses import AddressError
from kafkalite.server.listener import accept
from kafkalite.server.relayed_transport import RelayedTransport
from kafkalite.server.settings import Settings, SettingsError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from kafkalite.docker.cluster_messages import Greeting, Introduction, Registration
    from kafkalite.docker.membership import Membership
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

_BUFFER: Final = bytearray(64 * 1024)
"""The buffer of all gates: received bytes are copied at once, and there may be many clients."""
_ANSWER_ITERATIONS: Final = 3
_FIRST_LINE_TIMEOUT_S: Final = 10.0
_MAX_FIRST_LINE_BYTES: Final = 1 << 14
_MAX_UNKNOWN: Final = 64
"""Connections of which no container or client is known yet; more close the oldest."""
_MAX_NODES: Final = 100
"""Nodes, and containers of controllers, that a cluster of several containers can have."""
_MAX_TOPICS: Final = 1000
"""Requested topics that may wait for more nodes."""
_OF_CONTAINER: Final = frozenset(
    (
        "advertised.listeners", "broker.id", "controller.quorum.bootstrap.servers",
        "controller.quorum.voters", "listeners", "node.id", "process.roles",
    )
)  # fmt: skip
"""Settings that each container of a cluster may have of its own."""


def _is_of_node(key: str) -> bool:
    """Return whether a setting applies to the node of its container."""
    return can_differ(key) and not (key in LISTENERS or is_of_tls(key) or is_of_sasl(key))


class RefusedError(Exception):
    """An application that is refused; the text is the reason, one sentence."""

    def __init__(self, reason: str, *, is_temporary: bool = False) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary


class Owner(Protocol):
    """What a gate needs of the primary."""

    async def join(self, registration: Registration, gate: Gate) -> Admission:
        """Let a container join; raises RefusedError."""

    def sign(self, member: Member, sign: Sign) -> None:
        """Note a sign of life of a container."""

    def lost(self, member: Member) -> None:
        """Stop the node of a container whose connection has ended."""

    def protocol_for(
        self, introduction: Introduction
    ) -> Callable[[], asyncio.BufferedProtocol] | None:
        """Return the function that creates the protocol of a client; None if it is refused."""

    def report_refusal(self, peer: str, reason: str) -> None:
        """Log that a container is refused."""

    def report_bug(self, error: Exception) -> None:
        """Log an unexpected exception."""


class Member:
    """A container that has joined."""

    def __init__(self, registration: Registration, gate: Gate, sign_s: float) -> None:
        self.registration = registration
        self.gate = gate
        self.token = SystemEntropy().uuid().hex()
        self.sign_s = sign_s
        """When the last sign arrived, by the time of the event loop."""
        self.is_isolated = False

    @property
    def node_id(self) -> int:
        """The id of its node."""
        return self.registration.node_id


class Primary:
    """The containers that have joined the cluster of a broker."""

    def __init__(
        self,
        membership: Membership,
        broker: Broker,
        log: Log,
        topics: Iterable[RequestedTopic] = (),
    ) -> None:
        """`topics` are created when the cluster has enough nodes for them."""
        self._membership = membership
        self._broker = broker
        self._log = log
        self._topics = list(topics)
        self._members: dict[int, Member] = {}
        self._tokens: dict[str, Member] = {}
        self._changes = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked_s = 0.0
        self._servers: list[asyncio.Server] = []
        self._gates = Gates(self, membership.secret)
        self._timer: asyncio.TimerHandle | None = None

    def stop_absent_nodes(self) -> None:
        """Stop the nodes whose containers have not joined yet."""
        cluster = self._broker.cluster
        assert cluster is not None
        for node in cluster.nodes.values():
            if self._broker.nodes.is_relayed(node.id):
                cluster.node_control.stop(node.id)

    def start(
        self, bound: Sequence[socket.socket], controllers: Sequence[socket.socket] = ()
    ) -> None:
        """Accept other containers, and clients of the controller, in later iterations."""
        self._run(self._start(bound, controllers))

    async def _start(
        self, bound: Sequence[socket.socket], controllers: Sequence[socket.socket]
    ) -> None:
        loop = asyncio.get_running_loop()
        await accept(loop, self._new_controller_client, controllers, self._servers)
        await accept(loop, self._gates.new, bound, self._servers)
        self._check_members()
        self._create_topics()

    def close(self) -> None:
        """End all memberships: the cluster ends."""
        for server in self._servers:
            server.close()
        if self._timer is not None:
            self._timer.cancel()
        self._tokens.clear()
        for member in self._members.values():
            member.gate.close()
        self._members.clear()

    # Membership

    async def join(self, registration: Registration, gate: Gate) -> Admission:
        """Let a container join; raises RefusedError."""
        async with self._changes:
            self._check(registration)
            other = self._members.get(registration.node_id)
            if other is not None:
                if not other.is_isolated:
                    # A silent container may have been replaced by this one.
                    silence_s = asyncio.get_running_loop().time() - other.sign_s
                    raise RefusedError(
                        f"node {registration.node_id} is taken by {other.registration.host}",
                        is_temporary=silence_s > 2 * SIGN_INTERVAL_S,
                    )
                await self._stop(other)
                other.gate.close()
            without_effect: tuple[str, ...] = ()
            if registration.is_broker:
                without_effect = await self._start_node(registration)
            member = Member(registration, gate, asyncio.get_running_loop().time())
            self._members[member.node_id] = self._tokens[member.token] = member
            gate.member = member
            if gate.is_lost:
                await self._stop(member)
        self._log.info(
            "container joined", host=printable(registration.host), node=registration.node_id
        )
        requested = {topic.name for topic in self._topics}
        self._topics += [topic for topic in registration.topics if topic.name not in requested]
        del self._topics[_MAX_TOPICS:]
        self._create_topics()
        broker = self._broker
        assert broker.cluster is not None
        return Admission(
            broker.cluster_id, broker.cluster.config.release.name, member.token, without_effect
        )

    def _check(self, registration: Registration) -> None:
        broker, node_id = self._broker, registration.node_id
        if broker.cluster is None:
            raise RefusedError("the cluster stops", is_temporary=True)
        check_cluster_id(registration, broker.cluster_id, self._membership)
        is_own = node_id in broker.cluster.nodes and not broker.nodes.is_relayed(node_id)
        if is_own or (not registration.is_broker and node_id in broker.cluster.nodes):
            raise RefusedError(f"node {node_id} is taken by {self._membership.host}")
        known = broker.cluster.nodes.keys() | self._members.keys()
        if node_id not in known and len(known) >= _MAX_NODES:
            raise RefusedError(f"the cluster has {_MAX_NODES} nodes, the most that it can have")

    async def _start_node(self, registration: Registration) -> tuple[str, ...]:
        cluster = self._broker.cluster
        assert cluster is not None
        config = registration.config
        try:
            specs = listeners_of(registration)
            own = {key: value for key, value in config.items() if _is_of_node(key)}
            tls = {key: value for key, value in config.items() if is_of_tls(key)}
            await self._broker.nodes.join(registration.node_id, own, specs, tls)
        except (NodeError, ConfigError, AddressError, KafkaError, ProtocolViolation) as error:
            raise RefusedError(str(error)) from error
        except SettingsError as error:
            advice = f"; {self._membership.host} needs the files of its key stores, too"
            raise RefusedError(f"{error}{advice}") from error
        known = cluster.config.static_text
        return tuple(
            key
            for key, value in sorted(config.items())
            if not (key in _OF_CONTAINER or _is_of_node(key) or is_of_tls(key))
            and known.get(key) != value
        )

    def sign(self, member: Member, sign: Sign) -> None:
        """Note a sign of life of a container."""
        member.sign_s = asyncio.get_running_loop().time()
        if sign.stop:
            self._run(self._leave(member, is_controlled=True))
        elif member.is_isolated:
            self._run(self._reconnect(member))

    def lost(self, member: Member) -> None:
        """Stop the node of a container whose connection has ended."""
        self._run(self._leave(member, is_controlled=False))

    async def _leave(self, member: Member, *, is_controlled: bool) -> None:
        async with self._changes:
            await self._stop(member, is_controlled=is_controlled)
        member.gate.close()

    async def _stop(self, member: Member, *, is_controlled: bool = False) -> None:
        """Stop the node of a container, which is no member any more."""
        if self._tokens.pop(member.token, None) is None or self._broker.cluster is None:
            return
        del self._members[member.node_id]
        how = "stopped" if is_controlled else "lost"
        host = printable(member.registration.host)
        self._log.info(f"container {how}", host=host, node=member.node_id)
        if member.registration.is_broker:
            with_shutdown = is_controlled and not member.is_isolated
            await self._change(
                member, self._broker.nodes.stop(member.node_id, controlled=with_shutdown)
            )

    async def _reconnect(self, member: Member) -> None:
        async with self._changes:
            if member.token in self._tokens and member.is_isolated:
                member.is_isolated = False
                await self._change(member, self._start_isolated_node(member))

    async def _isolate(self, member: Member) -> None:
        async with self._changes:
            if member.token in self._tokens and not member.is_isolated:
                member.is_isolated = True
                await self._change(member, self._isolate_node(member))

    async def _isolate_node(self, member: Member) -> None:
        if member.registration.is_broker:
            self._broker.nodes.isolate(member.node_id)

    async def _start_isolated_node(self, member: Member) -> None:
        if member.registration.is_broker:
            await self._broker.nodes.start(member.node_id)

    async def _change(self, member: Member, change: Coroutine[Any, Any, None]) -> None:
        """Await the change of a node; a change that is impossible is logged."""
        try:
            await change
        except (NodeError, AddressError, KafkaError) as error:
            self._log.warning("a node remains as it is", node=member.node_id, reason=str(error))

    def _check_members(self) -> None:
        """Isolate the nodes of silent containers; repeat later."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        # After a pause of this process, signs wait in the sockets.
        is_late = now_s - self._checked_s > 2 * SIGN_INTERVAL_S
        self._checked_s = now_s
        for member in self._members.values():
            is_silent = now_s - member.sign_s > MAX_SILENCE_S
            if is_silent and not member.is_isolated and not is_late:
                self._run(self._isolate(member))
        self._timer = loop.call_later(SIGN_INTERVAL_S, self._check_members)

    def _run(self, change: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Clients

    def protocol_for(
        self, introduction: Introduction
    ) -> Callable[[], asyncio.BufferedProtocol] | None:
        """Return the function that creates the protocol of a client; None if it is refused."""
        member = self._tokens.get(introduction.token)
        if member is None or self._broker.cluster is None:
            return None
        if not member.registration.is_broker:
            return self._broker.nodes.controller_protocol_factory()
        return self._broker.nodes.protocol_factory(member.node_id, introduction.listener)

    def _new_controller_client(self) -> asyncio.BaseProtocol:
        cluster, nodes = self._broker.cluster, self._broker.nodes
        new_protocol = None if cluster is None else nodes.controller_protocol_factory()
        return _Closed() if new_protocol is None else new_protocol()

    # Topics

    def _create_topics(self) -> None:
        """Create those of the requested topics for which there are enough nodes."""
        cluster = self._broker.cluster
        assert cluster is not None
        metadata = cluster.metadata
        pending = []
        for topic in self._topics:
            if topic.name in metadata.image.topics:
                continue
            new = NewTopic(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replicas,
                configs=topic.configs,
            )
            try:
                error = metadata.create_topics([new])[0].error
            except KafkaError as failure:
                error = failure
            if error is not None and error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
                pending.append(topic)
            elif error is not None:
                reason = error.message or error.code.name
                self._log.warning("cannot create a topic", topic=topic.name, reason=reason)
        self._topics = pending

    def report_refusal(self, peer: str, reason: str) -> None:
        """Log that a container is refused."""
        self._log.warning("container refused", peer=peer, reason=printable(reason))

    def report_bug(self, error: Exception) -> None:
        """Log an unexpected exception."""
        self._log.error("a container cannot join", error)


class _Closed(asyncio.Protocol):
    """The protocol of a client that no node serves."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Disconnect the client."""
        transport.close()


class FirstBroker:
    """The first broker that applies to a primary which is no broker; the cluster has its settings.

    It is asked to apply again, and so are all others meanwhile.
    """

    def __init__(
        self, membership: Membership, log: Log, cluster_id: str | None, node_id: int | None
    ) -> None:
        """`node_id` is the first broker of stored data; None if any broker may be the first."""
        self._membership = membership
        self._log = log
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._found: asyncio.Future[Registration]

    async def wait(
        self, bound: Sequence[socket.socket], stop_requested: asyncio.Event
    ) -> Registration | None:
        """Return the registration of the first broker; None if a stop is requested before."""
        loop = asyncio.get_running_loop()
        self._found = loop.create_future()
        gates = Gates(self, self._membership.secret)
        servers: list[asyncio.Server] = []
        await accept(loop, gates.new, [each.dup() for each in bound], servers)
        stop = asyncio.ensure_future(stop_requested.wait())
        await asyncio.wait((self._found, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        for server in servers:
            server.close()
        # The refusal of the broker is sent in the next iterations.
        for _ in range(_ANSWER_ITERATIONS):
            await asyncio.sleep(0)
        return self._found.result() if self._found.done() else None

    async def join(self, registration: Registration, gate: Gate) -> Admission:
        """Refuse a container; it applies again when the cluster has started."""
        del gate
        check_cluster_id(registration, self._cluster_id, self._membership)
        if not registration.is_broker or self._node_id not in (None, registration.node_id):
            raise RefusedError("the cluster waits for its first broker", is_temporary=True)
        if not self._found.done():
            self._found.set_result(registration)
        raise RefusedError("the cluster starts", is_temporary=True)

    def sign(self, member: Member, sign: Sign) -> None:
        """Do nothing: no container has joined."""

    def lost(self, member: Member) -> None:
        """Do nothing: no container has joined."""

    def protocol_for(
        self, introduction: Introduction
    ) -> Callable[[], asyncio.BufferedProtocol] | None:
        """Return None: there are no nodes."""
        del introduction
        return None

    def report_refusal(self, peer: str, reason: str) -> None:
        """Log that a container is refused."""
        self._log.warning("container refused", peer=peer, reason=printable(reason))

    def report_bug(self, error: Exception) -> None:
        """Log an unexpected exception."""
        self._log.error("a container cannot join", error)


def check_cluster_id(
    registration: Registration, cluster_id: str | None, membership: Membership
) -> None:
    """Raise RefusedError if a container belongs to another cluster; None is any cluster."""
    if None not in (registration.cluster_id, cluster_id) and registration.cluster_id != cluster_id:
        raise RefusedError(
            f"its cluster id is {registration.cluster_id}, but that of the cluster of "
            f"{membership.host} is {cluster_id}"
        )


class Gates:
    """The connections on the port for other containers of which nothing is known yet.

    Other programs of the network can open any number of them. A container or a client is known
    after a round trip, so that it is not among the oldest.
    """

    def __init__(self, owner: Owner, secret: str) -> None:
        self._owner = owner
        self._secret = secret
        self._unknown: dict[Gate, None] = {}
        """In the order of arrival."""

    def new(self) -> Gate:
        """Return the protocol of a new connection."""
        return Gate(self._owner, self._secret, self)

    def add(self, gate: Gate) -> None:
        """Add a connection; disconnect the oldest if there are too many."""
        self._unknown[gate] = None
        if len(self._unknown) > _MAX_UNKNOWN:
            next(iter(self._unknown)).abort()

    def remove(self, gate: Gate) -> None:
        """Remove a connection that is known or lost."""
        self._unknown.pop(gate, None)


class Gate(asyncio.BufferedProtocol):
    """A connection of another container, until a client is introduced by it."""

    def __init__(self, owner: Owner, secret: str, gates: Gates) -> None:
        self._owner = owner
        self._secret = secret
        self._gates = gates
        self._received = bytearray()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._greeting: Greeting | None = None
        self._challenge = Challenge(SystemEntropy().uuid().hex())
        self._joining: asyncio.Task[None] | None = None
        self.member: Member | None = None
        """The container, if it has joined by this connection."""
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first line."""
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(_FIRST_LINE_TIMEOUT_S, self.abort)
        self._gates.add(self)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - one size for all reads
        """Return the buffer for received bytes."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the lines that are complete."""
        searched = len(self._received)
        self._received += memoryview(_BUFFER)[:nbytes]
        while not self._transport.is_closing():
            end = self._received.find(b"\n", searched)
            if end < 0:
                if len(self._received) > self._max_line_bytes:
                    self.abort()
                return
            line, searched = self._received[:end], 0
            del self._received[: end + 1]
            try:
                self._handle(bytes(line))
            except JsonError as error:
                self._refuse(RefusedError(str(error)))

    @property
    def _max_line_bytes(self) -> int:
        """The limit of the next line: only an application is long."""
        is_application = self._greeting is not None and self._joining is None
        return MAX_LINE_BYTES if is_application else _MAX_FIRST_LINE_BYTES

    def _handle(self, line: bytes) -> None:
        if self.member is not None:
            self._owner.sign(self.member, read_line(Sign, line))
        elif self._greeting is not None:
            self._apply(read_line(Application, line))
        else:
            first = read_line(FirstLine, line)
            if first.introduction is not None:
                self._connect(first.introduction)
            elif first.greeting is not None:
                self._greet(first.greeting)
            else:
                raise JsonError("a line needs one of these fields: greeting, introduction")

    def _greet(self, greeting: Greeting) -> None:
        if greeting.version != __version__:
            self._refuse(
                RefusedError(f"it has kafkalite {greeting.version}, the primary {__version__}")
            )
            return
        self._greeting = greeting
        self._transport.write(line_of(self._challenge))

    def _apply(self, application: Application) -> None:
        assert self._greeting is not None
        if self._joining is not None:
            raise JsonError("an application is sent twice")
        self._timer.cancel()
        if not is_proof(application.proof, self._secret, self._greeting, self._challenge):
            self._refuse(RefusedError(f"it has another {SECRET} than the primary"))
            return
        self._gates.remove(self)
        self._joining = asyncio.ensure_future(self._join(application.registration))

    async def _join(self, registration: Registration) -> None:
        try:
            admission = await self._owner.join(registration, self)
        except RefusedError as error:
            self._refuse(error)
            return
        except Exception as error:  # noqa: BLE001 - a bug, which must not leave the container waiting
            self._owner.report_bug(error)
            self._refuse(RefusedError("the primary failed: its log has the reason"))
            return
        self._transport.write(line_of(admission))

    def _refuse(self, error: RefusedError) -> None:
        self._transport.write(line_of(Refusal(str(error), error.is_temporary)))
        self._transport.close()
        if not error.is_temporary:
            peer = self._transport.get_extra_info("peername") or ("?",)
            self._owner.report_refusal(peer[0], str(error))

    def _connect(self, introduction: Introduction) -> None:
        """Let the client have this connection from now on."""
        if self._received:
            raise JsonError("bytes of a client arrived before it is accepted")
        self._timer.cancel()
        new_protocol = self._owner.protocol_for(introduction)
        if new_protocol is None:
            self._transport.close()
            return
        self._gates.remove(self)
        peer = (introduction.host, introduction.port)
        protocol = new_protocol()
        self._transport.write(b"\n")
        self._transport.set_protocol(protocol)
        protocol.connection_made(RelayedTransport(self._transport, {"peername": peer}))

    def eof_received(self) -> None:
        """Return None, so that the transport is closed."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Stop the node of the container."""
        self._timer.cancel()
        self._gates.remove(self)
        self.is_lost = True
        if self.member is not None:
            self._owner.lost(self.member)

    def close(self) -> None:
        """End the membership."""
        self._transport.close()

    def abort(self) -> None:
        """Disconnect at once: what is not sent yet is lost."""
        self._gates.remove(self)
        self._transport.abort()


def listeners_of(registration: Registration) -> list[ListenerSpec]:
    """Return the listeners of a registration; raises AddressError or SettingsError."""
    settings = Settings(
        listen=registration.listen, advertise=registration.advertise, config=registration.config
    )
    return [spec._replace(is_relayed=True) for spec in settings.listeners]
