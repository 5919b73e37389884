"""SaslCluster: one node with a SASL listener, and sessions of clients without sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.metadata.controller import MetadataController
from kafkalite.ports.executors import InlineExecutor
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
)
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.sasl.users import users_of
from kafkalite.server.sasl_listener import SaslListener, SaslSettings
from kafkalite.server.scram_users import store_users
from kafkalite.server.token_validator import TokenValidator, read_signed_token_settings
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import Session, SessionSettings
from tests.unit.frames import framed, request_frame
from tests.unit.nodes import node_of
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from kafkalite.cluster.node import Node
    from kafkalite.protocol.message import Message
    from kafkalite.security.sasl.scram_credentials import ScramMechanism
    from kafkalite.security.sasl.users import User

PASSWORD = "secret"  # noqa: S105 - of a test
USERS = {"alice": PASSWORD}
DELAY_MS = 100
"""The default of connection.failed.authentication.delay.ms."""
MAX_REQUEST_BYTES = 1_000_000


class SaslCluster:
    """One node with a SASL listener; `connect` returns a client of it."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        users: Mapping[str, str] | Sequence[User] = USERS,
        seed: int = 0,
    ) -> None:
        self.clock = ManualClock()
        self.entropy = SeededEntropy(seed)
        self.config = BrokerConfig.from_text(config)
        self.metadata = MetadataController(
            log=MemoryCoordinatorLog(),
            config=self.config,
            clock=self.clock,
            entropy=self.entropy,
        )
        self.metadata.start({1: None})
        self.users = users_of(users)
        store_users(self.metadata, self.users, self.entropy)
        self.node: Node = node_of(
            clock=self.clock, config=self.config, metadata=self.metadata, entropy=self.entropy
        )
        self.metadata.subscribe(self.node.on_image)
        self.gateway = Gateway(find_api, _raise)
        self.reports: list[str] = []
        """Reasons why changed settings are not used."""
        self.listener = self.new_listener()

    def new_listener(self) -> SaslListener:
        """Return the listener with its settings; raises ConfigError."""
        security = ListenerSecurity("OUTSIDE", SecurityProtocol.SASL_PLAINTEXT, self.config)
        secret = self.entropy.uuid() + self.entropy.uuid()
        self.sasl_settings = SaslSettings(
            security, self.users, secret, self.reports.append, self._new_validator
        )
        self.config.dynamic_checks = [self.sasl_settings.check_change]
        return SaslListener(self.node, self.sasl_settings, self.gateway)

    def _new_validator(
        self, security: ListenerSecurity, options: Mapping[str, str]
    ) -> TokenValidator:
        return TokenValidator.open(
            read_signed_token_settings(security, options, requires_names=False),
            clock=self.clock,
            new_executor=InlineExecutor,
            report=self.reports.append,
        )

    def connect(self) -> SaslClient:
        """Return a new client."""
        return SaslClient(self)


class SaslClient:
    """One connection."""

    def __init__(self, wire: SaslCluster) -> None:
        self.wire = wire
        self.context = ConnectionContext(
            node=wire.node, listener="OUTSIDE", client_host="/127.0.0.1"
        )
        self.settings = SessionSettings(
            buffers=ReceiveBuffers(),
            serve=wire.gateway.serve,
            serve_in_worker=wire.gateway.serve_in_worker,
            wake=self._wake,
            max_request_bytes=MAX_REQUEST_BYTES,
            max_buffered_bytes=MAX_REQUEST_BYTES,
            flush=wire.gateway.flush,
        )
        self.session = Session(self.settings, self.context, self)
        wire.listener.new_gate(self.context, self.settings).attach(self.session)

    def _wake(self, owner: object) -> None:
        assert owner is self

    @property
    def violation(self) -> str | None:
        """The reason why the connection was closed."""
        return self.session.violation

    @property
    def is_gated(self) -> bool:
        """Whether the session serves by other settings than those of an authenticated client."""
        return self.session._settings is not self.settings

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return the answers that are available."""
        while data:
            space = self.session.get_buffer()
            count = min(len(space), len(data))
            space[:count], data = data[:count], data[count:]
            self.session.buffer_updated(count)
            self.session.serve()
            self._serve_pending()
        return self.answers()

    def _serve_pending(self) -> None:
        """Do what the connection does when an answer has arrived, or requests remain."""
        session = self.session
        while session.needs_worker or self._has_arrived or session.is_interrupted:
            session.serve_in_worker()

    @property
    def _has_arrived(self) -> bool:
        pending = self.session._pending
        return pending is not None and pending.waiting.is_resolved

    def answers(self) -> bytes:
        """Return the answers that have arrived."""
        self._serve_pending()
        return b"".join(self.session.take_answers())

    def request(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        """Send a request, and return its response; None without one."""
        answer = self.send(request_frame(request, version))
        return parsed(answer, request, version) if answer else None

    def handshake(self, mechanism: str, version: int = 1) -> Any:  # noqa: ANN401 - any response
        """Send SaslHandshake, and return its response; None without one."""
        return self.request(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:  # noqa: ANN401 - any response
        """Send SaslAuthenticate, and return its response; None without one."""
        return self.request(SaslAuthenticateRequest(auth_bytes=token), version)

    def send_token(self, token: bytes) -> bytes:
        """Send a token without a header, and return the answer with its length."""
        return self.send(framed(token))

    def log_in_by_scram(
        self, mechanism: ScramMechanism, name: str = "alice", password: str = PASSWORD
    ) -> Any:  # noqa: ANN401 - any response
        """Authenticate by SCRAM, and return the response to the last token."""
        client = ScramClient(mechanism, name, password)
        self.handshake(mechanism.name)
        first = self.authenticate(client.first())
        return self.authenticate(client.final(bytes(first.auth_bytes)))

    def log_in(self, password: str = PASSWORD, name: str = "alice", version: int = 2) -> Any:  # noqa: ANN401 - any response
        """Authenticate by PLAIN, and return the response to the token."""
        self.handshake("PLAIN")
        return self.authenticate(f"\0{name}\0{password}".encode(), version)

    def fail_later(self) -> bytes:
        """Let the delay of a failure pass, and return the answers."""
        assert self.answers() == b""
        assert self.violation is None
        self.wire.clock.advance(DELAY_MS - 1)
        assert self.answers() == b""
        assert self.violation is None
        self.wire.clock.advance(1)
        return self.answers()


def parsed(frame: bytes, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
    """Return the only response in a frame."""
    key = request.API_KEY  # type: ignore[attr-defined]
    body_start = 8 + (codec.is_flexible(key, version) and key != 18)
    response, end = codec.response_parser(key, version)(bytearray(frame), body_start, len(frame))
    assert end == len(frame)
    return response


def _raise(api: object, error: Exception) -> NoReturn:
    raise AssertionError(api) from error
