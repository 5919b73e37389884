"""ServedBroker: a broker with its control API and identity provider, started in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.broker import Broker
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.control.identity_server import IdentityServer
    from kafkalite.control.server import ControlServer
    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.files import Files
    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log
    from kafkalite.server.settings import Settings
    from kafkalite.server.snapshot import Snapshot
    from kafkalite.server.virtual_clusters import ClusterPlan


class ControlOptions(NamedTuple):
    """The address of the control API, and the values of its options."""

    address: Address
    token: str | None = None
    tls: str | None = None
    schema_registry_url: str | None = None

    def __repr__(self) -> str:
        """Return a text without the token, and without the password of the registry."""
        return f"ControlOptions({self.address!r}, tls={self.tls!r})"


class IdentityOptions(NamedTuple):
    """The address of the identity provider, and its clients; without any, the default client."""

    address: Address
    clients: Sequence[OAuthClient] = ()


class ServedBroker:
    """A broker with a control API and an identity provider, each if it has options.

    It can be started again after a stop. What a broker does not need is not imported.
    """

    def __init__(
        self, log: Log, control: ControlOptions | None, identity: IdentityOptions | None
    ) -> None:
        self._log = log
        self._control_options = control
        self._identity_options = identity
        self._broker: Broker | None = None
        self._identity: IdentityServer | None = None
        self.control: ControlServer | None = None
        """The control API while the broker runs."""
        self.recorder: Recorder | None = None
        """The recorder of all traffic; a stop closes it."""

    async def start(
        self,
        settings: Settings,
        clock: Clock,
        *,
        start_recording: Callable[[Callable[[], int]], Recorder] | None,
        prepare: Callable[[Broker], None] | None,
        snapshot: Snapshot | None = None,
        files: Files | None = None,
    ) -> Broker:
        """Return a running broker, which begins with `snapshot` if there is one.

        `start_recording` starts a recording; its argument returns the time. `prepare` is called
        before clients can connect. Raises the exceptions of `Broker.start`, AddressError,
        and SettingsError if the libraries for tokens are not installed; then nothing remains open.
        """
        try:
            provider = self._bind_identity(clock)
            if start_recording is not None:
                self.recorder = start_recording(clock.now_ns)
            self._broker = broker = Broker(
                settings,
                self._log,
                clock=clock,
                recorder=self.recorder,
                prepare=prepare,
                identity=provider,
                snapshot=snapshot,
                files=files,
            )
            broker.start_fork = self.start_fork
            # Its port is bound first, because an added node must not listen on it.
            self.control = self._bind_control(broker)
            await broker.start()
            for server in (self._identity, self.control):
                if server is not None:
                    await server.start()
        except BaseException:
            await self.stop()
            raise
        return broker

    async def start_fork(self, plan: ClusterPlan) -> ServedBroker:
        """Start and return another cluster in this process; raises the exceptions of `start`."""
        fork = self.new_fork()
        await fork.start(
            plan.settings,
            plan.clock,
            start_recording=None,
            prepare=None,
            snapshot=plan.snapshot,
            files=plan.files,
        )
        return fork

    @property
    def control_url(self) -> str | None:
        """The URL of the control API; None without one."""
        return None if self.control is None else self.control.url

    def new_fork(self) -> ServedBroker:
        """Return one for a fork: it has a control API on a free port if this one has any."""
        options = self._control_options
        if options is not None:
            options = options._replace(address=options.address._replace(port=0))
        return ServedBroker(self._log, options, None)

    @property
    def broker(self) -> Broker | None:
        """The broker while it runs."""
        return self._broker

    async def stop(self, grace_s: float = 1.0) -> bool:
        """Stop everything, and return whether the data was closed cleanly.

        Pending answers may take `grace_s` seconds to be sent.
        """
        servers, self.control, self._identity = (self.control, self._identity), None, None
        for server in servers:
            if server is not None:
                await server.stop()
        broker, self._broker = self._broker, None
        try:
            return broker is None or await broker.stop(grace_s)
        finally:
            self.close_recorder()

    def close_recorder(self) -> None:
        """End the recording; does nothing without one."""
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.close()

    def _bind_identity(self, clock: Clock) -> IdentityProvider | None:
        options = self._identity_options
        if options is None:
            return None
        try:
            from kafkalite.control.identity_server import IdentityServer  # noqa: PLC0415 - heavy
        except ImportError as error:
            from kafkalite.security.key_stores import SECURITY_EXTRA  # noqa: PLC0415 - as above

            raise SettingsError(f"--oidc needs {SECURITY_EXTRA}") from error
        self._identity = IdentityServer(options.address, options.clients, clock, self._log)
        return self._identity.provider

    def _bind_control(self, broker: Broker) -> ControlServer | None:
        options = self._control_options
        if options is None:
            return None
        from kafkalite.control.server import ControlSecurity, ControlServer  # noqa: PLC0415 - heavy

        security = ControlSecurity(options.token, options.tls)
        return ControlServer(
            broker,
            options.address,
            self._log,
            security=security,
            schema_registry_url=options.schema_registry_url,
        )
