"""The process of a broker: settings, event loop, signals, memory, and the order of shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalite.cluster.cluster import TopicError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import CLOCK, CONTROL, CONTROL_TLS, CONTROL_TOKEN
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.memory import COLLECTOR, FrozenObjects, keep_freed_memory
from kafkalite.ports.signals import REQUIRED_STOPS, call_on_signal, stop_signals
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import (
    SECRET_KEY_PARTS,
    Settings,
    SettingsError,
    parse_config,
    parse_node_config,
    parse_topics,
    parse_users,
)

try:
    import resource
except ImportError:  # only Unix has this module
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.control.identity_server import IdentityServer
    from kafkalite.control.server import ControlServer
    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.ports.clock import Clock
    from kafkalite.security.sasl.users import User
    from kafkalite.server.addresses import Address

T = TypeVar("T")

REAL_CLOCK = str(CLOCK.default)


START_ERRORS = (AddressError, ConfigError, BrokerDirectoryError, SettingsError, TopicError)
"""Errors that prevent a start; the text of each is one line."""

_MAX_DESCRIPTORS = 100_000

_GENERATION_0_THRESHOLD = 20_000
"""Number of new objects after which the garbage collector examines them; few are in cycles."""

_GENERATION_1_THRESHOLD = 4
"""Number of such collections after which their survivors are examined, in 20 ms at most."""

_GENERATION_2_THRESHOLD = 1_000_000_000
"""Never reached: `_run_full_collections` collects long-lived objects instead."""

_FULL_COLLECTION_INTERVAL_S = 2.0
"""So short that few objects are new, because timers and requests wait for a full collection.

It runs only between requests, and not if all new objects are young."""


def settings_from(arguments: Namespace, log: Log) -> Settings:
    """Return the settings that the arguments of `serve` define.

    A `--config` takes precedence over the properties file. Raises SettingsError for an invalid
    value; logs a warning for a key of the file that is ignored.
    """
    _hide_secret_settings((*arguments.config, *arguments.node_config))
    from_file = {} if arguments.properties is None else _read_properties(arguments.properties, log)
    return Settings(
        listen=arguments.listen,
        advertise=arguments.advertise,
        controller_listen=arguments.controller_listen,
        brokers=arguments.brokers,
        data_directory=None if arguments.data_dir is None else _directory(arguments.data_dir),
        topics=parse_topics(arguments.topic),
        config={**from_file, **parse_config(arguments.config)},
        node_config=parse_node_config(arguments.node_config),
        as_version=arguments.as_version,
        defaults=arguments.defaults,
        users=_users_from(arguments.user),
        tls=arguments.tls,
        cluster_id=arguments.cluster_id,
        request_log=arguments.request_log,
    )


def _hide_secret_settings(texts: Sequence[str]) -> None:
    """Hide the values of settings with passwords and keys from other processes."""
    secret = [
        text for text in texts if any(part in text.partition("=")[0] for part in SECRET_KEY_PARTS)
    ]
    if secret:
        from kafkalite.ports.command_line import hide_passwords  # noqa: PLC0415 - rarely used

        hide_passwords(secret, "=")


def _users_from(texts: Sequence[str]) -> Sequence[User]:
    """Return the users of `--user`, and hide their passwords from other processes."""
    users = parse_users(texts)
    if users:
        from kafkalite.ports.command_line import hide_passwords  # noqa: PLC0415 - rarely used

        hide_passwords(texts)
    return users


def log_from(level: str, log_format: str) -> Log:
    """Return a log with the values of `--log-level` and `--log-format`."""
    return Log(Level[level.upper()], log_format)


class ControlOptions(NamedTuple):
    """The options of the control API."""

    address: str | None = None
    """None for no control API."""
    token: str | None = None
    tls: str | None = None

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"ControlOptions({self.address!r}, tls={self.tls!r})"


NO_CONTROL = ControlOptions()


def control_options_from(arguments: Namespace) -> ControlOptions:
    """Return the options of the control API, and hide the token from other processes.

    Raises SettingsError if the control API has options, but no address.
    """
    options = ControlOptions(arguments.control, arguments.control_token, arguments.control_tls)
    if options.token is not None:
        from kafkalite.ports.command_line import hide_option  # noqa: PLC0415 - rarely used

        hide_option(f"--{CONTROL_TOKEN.name}", options.token)
    for option, value in ((CONTROL_TOKEN, options.token), (CONTROL_TLS, options.tls)):
        if value is not None and options.address is None:
            raise SettingsError(f"{option.flag} needs {CONTROL.flag}, which serves the control API")
    return options


def run(
    settings: Settings,
    log: Log,
    print_ready: Callable[[Broker, ControlServer | None], None],
    *,
    control: ControlOptions = NO_CONTROL,
    clock: str = REAL_CLOCK,
    oidc: OidcSettings | None = None,
    start_recording: Callable[[Callable[[], int]], Recorder] | None = None,
    prepare: Callable[[Broker], None] | None = None,
) -> bool:
    """Serve until a signal arrives; return whether the data was closed cleanly.

    `control` has the options of the control API. `clock` is the mode of the clock at startup.
    `oidc` has the settings of the identity provider, if any. `start_recording` starts a recording
    of all traffic; its argument returns the time. `prepare` is called before clients can connect.
    Raises one of START_ERRORS if the broker cannot start.
    """
    controls = _Controls(control, clock, oidc, log)
    return run_until_signalled(
        lambda stop_requested: _serve(
            settings,
            log,
            print_ready,
            controls,
            stop_requested,
            start_recording=start_recording,
            prepare=prepare,
        ),
        log,
    )


def run_until_signalled(serve: Callable[[asyncio.Event], Coroutine[None, None, T]], log: Log) -> T:
    """Run `serve` in a new event loop, and return its result.

    A signal sets the event that is the argument of `serve`. Errors in callbacks of the loop are
    logged. The process keeps freed memory and raises its limit of open files.
    """
    keep_freed_memory()
    allow_many_descriptors()
    loop = new_event_loop(log)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_until_signalled(serve))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _until_signalled(serve: Callable[[asyncio.Event], Coroutine[None, None, T]]) -> T:
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in stop_signals():
        # A process started by nohup ignores SIGHUP and keeps running, as Java processes do.
        if number in REQUIRED_STOPS or signal.getsignal(number) is not signal.SIG_IGN:
            call_on_signal(loop, number, stop_requested.set)
    return await serve(stop_requested)


class OidcSettings(NamedTuple):
    """The identity provider of `--oidc`: its address, and the clients of `--oidc-client`."""

    address: Address
    clients: Sequence[OAuthClient]


def oidc_from(arguments: Namespace) -> OidcSettings | None:
    """Return the settings of the identity provider; None without `--oidc`.

    The secrets of its clients are hidden from other processes. Raises SettingsError or AddressError
    for invalid values.
    """
    if arguments.oidc is None:
        if arguments.oidc_client:
            raise SettingsError("--oidc-client needs --oidc, which serves the identity provider")
        return None
    from kafkalite.control.address import control_address  # noqa: PLC0415 - rarely used
    from kafkalite.identity.clients import parse_clients  # noqa: PLC0415 - as above
    from kafkalite.identity.errors import IdentityError  # noqa: PLC0415 - as above
    from kafkalite.ports.command_line import hide_passwords  # noqa: PLC0415 - as above

    try:
        clients = parse_clients(arguments.oidc_client)
    except IdentityError as error:
        raise SettingsError(f"--oidc-client: {error}") from None
    hide_passwords(arguments.oidc_client)
    return OidcSettings(control_address(arguments.oidc), clients)


class _Controls:
    """The clock, the control API and the identity provider of a broker.

    Each is imported only for brokers that need it.
    """

    def __init__(
        self, control: ControlOptions, clock: str, oidc: OidcSettings | None, log: Log
    ) -> None:
        """Parse `control` and `clock`; raises AddressError or SettingsError."""
        self._log = log
        self._options = control
        self._oidc = oidc
        self._identity: IdentityServer | None = None
        self._server: ControlServer | None = None
        self._address: Address | None = None
        self.clock: Clock | None = None
        if control.address is not None:
            from kafkalite.control.address import control_address  # noqa: PLC0415

            self._address = control_address(control.address)
        if clock != REAL_CLOCK:
            from kafkalite.control.command_table import CommandError  # noqa: PLC0415
            from kafkalite.control.commands.clock import new_clock  # noqa: PLC0415

            try:
                self.clock = new_clock(clock)
            except CommandError as error:
                raise SettingsError(f"--clock: {error}") from error

    def bind_identity(self, clock: Clock) -> IdentityProvider | None:
        """Bind the port of the identity provider, and return it; None if it was not requested.

        Raises AddressError, and SettingsError if the libraries for tokens are not installed.
        """
        if self._oidc is None:
            return None
        try:
            from kafkalite.control.identity_server import IdentityServer  # noqa: PLC0415 - heavy
        except ImportError as error:
            from kafkalite.security.key_stores import SECURITY_EXTRA  # noqa: PLC0415 - as above

            raise SettingsError(f"--oidc needs {SECURITY_EXTRA}") from error
        self._identity = IdentityServer(self._oidc.address, self._oidc.clients, clock, self._log)
        return self._identity.provider

    def bind(self, broker: Broker) -> None:
        """Bind the port of the control API if it was requested; raises AddressError.

        Called before the broker starts, because an added node must not listen on this port.
        """
        if self._address is not None:
            from kafkalite.control.server import ControlSecurity, ControlServer  # noqa: PLC0415

            security = ControlSecurity(self._options.token, self._options.tls)
            self._server = ControlServer(broker, self._address, self._log, security=security)

    async def start(self) -> ControlServer | None:
        """Start all servers; return the control API, None if it was not requested."""
        if self._identity is not None:
            await self._identity.start()
        if self._server is not None:
            await self._server.start()
        return self._server

    async def stop(self) -> None:
        """Stop all servers."""
        for server in (self._server, self._identity):
            if server is not None:
                await server.stop()


async def _serve(
    settings: Settings,
    log: Log,
    print_ready: Callable[[Broker, ControlServer | None], None],
    controls: _Controls,
    stop_requested: asyncio.Event,
    *,
    start_recording: Callable[[Callable[[], int]], Recorder] | None,
    prepare: Callable[[Broker], None] | None,
) -> bool:
    clock = controls.clock or AdjustableClock()
    identity = controls.bind_identity(clock)
    recorder = None if start_recording is None else start_recording(clock.now_ns)
    broker = Broker(
        settings, log, clock=clock, recorder=recorder, prepare=prepare, identity=identity
    )
    try:
        controls.bind(broker)
        await broker.start()
        control = await controls.start()
        # Objects made during startup live as long as the process: collections skip them.
        objects = FrozenObjects()
        COLLECTOR.collect_all = objects.collect
        gc.set_threshold(_GENERATION_0_THRESHOLD, _GENERATION_1_THRESHOLD, _GENERATION_2_THRESHOLD)
        gc.enable()
        _run_full_collections(broker, objects)
        print_ready(broker, control)
        await stop_requested.wait()
    finally:
        await controls.stop()
        is_clean = await broker.stop()
        if recorder is not None:
            recorder.close()
    return is_clean


def _run_full_collections(broker: Broker, objects: FrozenObjects) -> None:
    """Run a full garbage collection if it is due and no request is in progress; repeat later."""
    if gc.get_count()[2] and not broker.nodes.is_busy:
        objects.collect()
    asyncio.get_running_loop().call_later(
        _FULL_COLLECTION_INTERVAL_S, _run_full_collections, broker, objects
    )


def allow_many_descriptors() -> None:
    """Raise the limit of open files: each client and each segment needs a descriptor."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _directory(text: str) -> str:
    """Return the path with `~` expanded: a shell does not expand it in `--data-dir=~/data`."""
    if not text.strip():
        raise SettingsError("--data-dir is empty: name a directory, or leave the option out")
    return os.path.expanduser(text)  # noqa: PTH111 - Path adds nothing here


def _read_properties(path: str, log: Log) -> Mapping[str, str]:
    # Imported here: a broker without a properties file does not need it.
    from kafkalite.cli.properties import read_properties  # noqa: PLC0415

    return read_properties(path, log)
