"""The process of a broker: settings, event loop, signals, memory, and the order of shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING, TypeVar

from kafkalite.cluster.cluster import TopicError
from kafkalite.config.broker import is_known_key, unknown_key_message
from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import dynamic_broker_keys
from kafkalite.config.options import (
    CLOCK,
    CONTROL,
    CONTROL_TLS,
    CONTROL_TOKEN,
    SCHEMA_REGISTRY_URL,
)
from kafkalite.control.served_broker import ControlOptions, IdentityOptions, ServedBroker
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.memory import COLLECTOR, FrozenObjects, keep_freed_memory
from kafkalite.ports.signals import REQUIRED_STOPS, called_on_signals, stop_signals
from kafkalite.server.addresses import AddressError
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
    from kafkalite.control.server import ControlServer
    from kafkalite.ports.clock import Clock
    from kafkalite.security.sasl.users import User
    from kafkalite.server.broker import Broker
    from kafkalite.server.snapshot import Snapshot

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

_KEEP_MEMORY_AFTER_S = 0.2
"""The time after which a process keeps freed memory: first clients should be answered."""


def settings_from(arguments: Namespace, log: Log) -> Settings:
    """Return the settings that the arguments of `serve` define.

    A `--config` takes precedence over the properties file. Raises SettingsError for an invalid
    value; logs a warning for a key of the file that is ignored.
    """
    _hide_secret_settings((*arguments.config, *arguments.node_config))
    path, as_version = arguments.properties, arguments.as_version
    from_file = {} if path is None else _read_properties(path, log, as_version)
    settings = Settings(
        listen=arguments.listen,
        advertise=arguments.advertise,
        controller_listen=arguments.controller_listen,
        brokers=arguments.brokers,
        data_directory=None if arguments.data_dir is None else _directory(arguments.data_dir),
        topics=parse_topics(arguments.topic),
        config={**from_file, **_known_config(arguments.config, as_version)},
        node_config=parse_node_config(arguments.node_config),
        as_version=as_version,
        defaults=arguments.defaults,
        users=_users_from(arguments.user),
        tls=arguments.tls,
        cluster_id=arguments.cluster_id,
        controller_id=arguments.controller_id,
        request_log=arguments.request_log,
        seed=arguments.seed,
        is_in_memory=arguments.memory,
        memory_limit=arguments.memory_limit,
        clusters=arguments.clusters,
        max_clusters=arguments.max_clusters,
        cluster_idle_timeout=arguments.cluster_idle_timeout,
        cluster_memory_limit=arguments.cluster_memory_limit,
        keeps_history=arguments.keep_history,
        pace=arguments.pace,
    )
    return settings if arguments.jaas is None else with_login_file(settings, arguments.jaas)


def with_login_file(settings: Settings, option: str | None, java_options: str = "") -> Settings:
    """Return settings with the users of a JAAS file; see `cli.login_file.with_login_file`."""
    from kafkalite.cli import login_file  # noqa: PLC0415 - rarely used

    return login_file.with_login_file(settings, option, java_options)


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


def control_options_from(arguments: Namespace) -> ControlOptions | None:
    """Return the options of the control API, and hide its secrets from other processes.

    Raises SettingsError if the control API has options, but no address, and AddressError.
    """
    token, tls = arguments.control_token, arguments.control_tls
    registry_url = arguments.schema_registry_url
    secrets = {CONTROL_TOKEN: token, SCHEMA_REGISTRY_URL: registry_url}
    for option, secret in secrets.items():
        if secret is not None:
            from kafkalite.ports.command_line import hide_option  # noqa: PLC0415 - rarely used

            hide_option(f"--{option.name}", secret)
    for option, value in (*secrets.items(), (CONTROL_TLS, tls)):
        if value is not None and arguments.control is None:
            raise SettingsError(f"{option.flag} needs {CONTROL.flag}, which serves the control API")
    if arguments.control is None:
        return None
    from kafkalite.control.address import control_address  # noqa: PLC0415 - rarely used

    return ControlOptions(control_address(arguments.control), token, tls, registry_url)


def run(
    settings: Settings,
    log: Log,
    print_ready: Callable[[Broker, ControlServer | None], None],
    *,
    control: ControlOptions | None = None,
    clock: str = REAL_CLOCK,
    oidc: IdentityOptions | None = None,
    start_recording: Callable[[Callable[[], int]], Recorder] | None = None,
    prepare: Callable[[Broker], None] | None = None,
    snapshot: Snapshot | None = None,
) -> bool:
    """Serve until a signal arrives; return whether the data was closed cleanly.

    `control` has the options of the control API. `clock` is the mode of the clock at startup.
    `oidc` has the settings of the identity provider, if any. `start_recording` starts a recording
    of all traffic; its argument returns the time. `prepare` is called before clients can connect.
    The broker begins with `snapshot`, whose clock it has unless `clock` has another mode.

    Raises one of START_ERRORS if the broker cannot start.
    """
    served = ServedBroker(log, control, oidc)

    def prepare_broker(broker: Broker) -> None:
        if snapshot is not None:
            broker.populate()
        if prepare is not None:
            prepare(broker)

    initial_clock = _clock_from(clock) if snapshot is None else _clock_of(snapshot, clock)

    async def serve(stop_requested: asyncio.Event) -> bool:
        broker = await served.start(
            settings,
            initial_clock,
            start_recording=start_recording,
            prepare=prepare_broker,
            snapshot=snapshot,
        )
        try:
            _collect_rarely(broker)
            print_ready(broker, served.control)
            await stop_requested.wait()
        finally:
            is_clean = await served.stop()
        return is_clean

    return run_until_signalled(serve, log)


def _clock_from(text: str) -> Clock:
    """Return the clock with the value of `--clock`; raises SettingsError."""
    if text == REAL_CLOCK:
        return AdjustableClock()
    from kafkalite.control.command_table import CommandError  # noqa: PLC0415 - rarely used
    from kafkalite.control.commands.clock import new_clock  # noqa: PLC0415 - as above

    try:
        return new_clock(text)
    except CommandError as error:
        raise SettingsError(f"--clock: {error}") from error


def _clock_of(snapshot: Snapshot, text: str) -> Clock:
    """Return the clock of a snapshot, or the one with the value of `--clock` if that is given."""
    from kafkalite.server.snapshot import clock_of  # noqa: PLC0415 - rarely used

    return clock_of(snapshot) if text == REAL_CLOCK else _clock_from(text)


def snapshot_from(arguments: Namespace, settings: Settings) -> tuple[Snapshot | None, Settings]:
    """Return the snapshot of `--snapshot`, and the settings of a broker that begins with it.

    Without the option, the settings are those that are given. Raises SettingsError for a file that
    cannot be read, and for settings that it contradicts.
    """
    if arguments.snapshot is None:
        return None, settings
    if arguments.replay:
        raise SettingsError("--snapshot and --replay cannot be combined")
    from kafkalite.server import snapshot as snapshots  # noqa: PLC0415 - rarely used

    try:
        snapshot = snapshots.with_memory(arguments.snapshot, settings.memory_limit)
    except snapshots.SnapshotError as error:
        raise SettingsError(f"--snapshot {error}") from error
    return snapshot, snapshots.start_settings(settings, snapshot)


def run_until_signalled(serve: Callable[[asyncio.Event], Coroutine[None, None, T]], log: Log) -> T:
    """Run `serve` in a new event loop, and return its result.

    A signal sets the event that is the argument of `serve`. Errors in callbacks of the loop are
    logged. The process keeps freed memory and raises its limit of open files.
    """
    allow_many_descriptors()
    loop = new_event_loop(log)
    # It takes 3 ms to call the C library. Only long messages need this.
    loop.call_later(_KEEP_MEMORY_AFTER_S, keep_freed_memory)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_until_signalled(serve))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _until_signalled(serve: Callable[[asyncio.Event], Coroutine[None, None, T]]) -> T:
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    # A process started by nohup ignores SIGHUP and keeps running, as Java processes do.
    numbers = [
        number
        for number in stop_signals()
        if number in REQUIRED_STOPS or signal.getsignal(number) is not signal.SIG_IGN
    ]
    with called_on_signals(loop, numbers, stop_requested.set):
        return await serve(stop_requested)


def oidc_from(arguments: Namespace) -> IdentityOptions | None:
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
    return IdentityOptions(control_address(arguments.oidc), clients)


def _collect_rarely(broker: Broker) -> None:
    """Collect garbage rarely from now on, and never the objects of the start.

    They live as long as the process.
    """
    objects = FrozenObjects()
    COLLECTOR.collect_all = objects.collect
    gc.set_threshold(_GENERATION_0_THRESHOLD, _GENERATION_1_THRESHOLD, _GENERATION_2_THRESHOLD)
    gc.enable()
    _run_full_collections(broker, objects)


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


def _known_config(texts: Sequence[str], as_version: str | None) -> Mapping[str, str]:
    """Return the settings of `--config`; raises SettingsError for an unknown one."""
    config = parse_config(texts)
    for name in config:
        if not is_known_key(name, as_version):
            hint = "; unknown keys of other programs may be in a file: --properties FILE"
            is_of_brokers = name in dynamic_broker_keys()
            raise SettingsError(unknown_key_message(name) + ("" if is_of_brokers else hint))
    return config


def _read_properties(path: str, log: Log, as_version: str | None) -> Mapping[str, str]:
    # Imported here: a broker without a properties file does not need it.
    from kafkalite.cli.properties import read_properties  # noqa: PLC0415

    return read_properties(path, log, as_version)
