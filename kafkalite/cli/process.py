"""The process around a broker: settings, event loop, signals, memory, and the order of the end."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError
from kafkalite.ports.clock import DrivenClock
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker
from kafkalite.server.cluster import TopicError
from kafkalite.server.home import HomeError
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings, SettingsError

try:
    import resource
except ImportError:  # only Unix counts descriptors this way
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from kafkalite.capture.recorder import Recorder
    from kafkalite.control.listening import ControlServer
    from kafkalite.ports.clock import Clock
    from kafkalite.server.addresses import Address
    from kafkalite.server.stage import Stage

REAL = "real"
"""The clock of a broker that nobody drives."""

CANNOT_START = (AddressError, ConfigError, HomeError, SettingsError, TopicError)
"""What keeps a broker from starting as asked; each prints as one line."""

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h
_MIB = 1024 * 1024
_DESCRIPTORS = 100_000

_YOUNG_OBJECTS = 20_000
"""How many more objects there must be before any are looked at for cycles, which hardly any are in.
What lives long is looked at in proportion, all at once: with 100,000 groups, for 60 ms."""


def settings_from(
    *,
    listen: Sequence[str],
    advertise: Sequence[str],
    brokers: int,
    data_directory: str | None,
    topics: Sequence[str],
    config: Sequence[str],
    properties: str | None,
    as_version: str | None,
    log: Log,
) -> Settings:
    """Return what the options of `serve` ask for; a `--config` outweighs the properties file.

    What can be left aside is logged as a warning; SettingsError for what cannot be understood.
    """
    settings = Settings(
        listen=listen,
        advertise=advertise,
        brokers=brokers,
        data_directory=None if data_directory is None else _directory(data_directory),
        topics=_topics(topics),
        config={
            **({} if properties is None else _read_properties(properties, log)),
            **dict(_setting(text) for text in config),
        },
        as_version=as_version,
    )
    for key, consequence in settings.unmet.items():
        log.warning(consequence, key=key, value=settings.config[key])
    return settings


def log_from(level: str, log_format: str) -> Log:
    """Return the log that `--log-level` and `--log-format` ask for."""
    return Log(Level[level.upper()], log_format)


def run(
    settings: Settings,
    log: Log,
    announce: Callable[[Broker, str | None], None],
    *,
    control: str | None = None,
    clock: str = REAL,
    record: Callable[[Callable[[], int]], Recorder] | None = None,
    stage: Stage | None = None,
) -> None:
    """Serve until a signal ends it; raises one of CANNOT_START when it cannot begin.

    `control` is where to be driven, None for nowhere; `clock` is how time goes at first; `record`
    begins a recording of all traffic, given what tells the time; `stage` stands in for the broker.
    """
    driven = _Driven(control, clock, log)
    run_until_told(
        lambda told: _serve(settings, log, announce, driven, told, record=record, stage=stage), log
    )


def run_until_told(serve: Callable[[asyncio.Event], Coroutine[None, None, None]], log: Log) -> None:
    """Run what serves until an event that a signal sets, with the memory and descriptors it wants.

    It has a loop of its own, which tells `log` of faults.
    """
    keep_freed_memory()
    allow_many_descriptors()
    loop = new_event_loop(log)
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_until_told(serve))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _until_told(serve: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    # A terminal that is closed hangs up; what is temporary should go with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever started us with nohup wants us to stay, as Java's processes do.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, told_to_stop.set)
    await serve(told_to_stop)


class _Driven:
    """What a broker needs that is driven from outside; imported for such brokers alone."""

    def __init__(self, control: str | None, clock: str, log: Log) -> None:
        """Understand both texts; AddressError or SettingsError when that cannot be."""
        self._log = log
        self._server: ControlServer | None = None
        self._address: Address | None = None
        self.clock: Clock | None = None
        if control is not None:
            from kafkalite.control.address import control_address  # noqa: PLC0415

            self._address = control_address(control)
        if clock != REAL:
            from kafkalite.control.commands import CommandError, new_clock  # noqa: PLC0415

            try:
                self.clock = new_clock(clock)
            except CommandError as error:
                raise SettingsError(f"--clock: {error}") from error

    async def start(self, broker: Broker) -> str | None:
        """Let `broker` be driven, and return where; None when nobody wants to."""
        if self._address is None:
            return None
        from kafkalite.control.listening import ControlServer  # noqa: PLC0415

        self._server = ControlServer(broker, self._address, self._log)
        await self._server.start()
        return self._server.url

    async def stop(self) -> None:
        """Take no more commands."""
        if self._server is not None:
            await self._server.stop()


async def _serve(
    settings: Settings,
    log: Log,
    announce: Callable[[Broker, str | None], None],
    driven: _Driven,
    told_to_stop: asyncio.Event,
    *,
    record: Callable[[Callable[[], int]], Recorder] | None,
    stage: Stage | None,
) -> None:
    clock = driven.clock or DrivenClock()
    recorder = None if record is None else record(clock.now_ns)
    broker = Broker(settings, log, clock=clock, recorder=recorder, stage=stage)
    try:
        await broker.start()
        control_url = await driven.start(broker)
        # What start-up left behind stays for good: no collection need look at it, now or later.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
        gc.enable()
        announce(broker, control_url)
        await told_to_stop.wait()
    finally:
        await driven.stop()
        await broker.stop()
        if recorder is not None:
            recorder.close()


def keep_freed_memory() -> None:
    """Have glibc keep what large requests free: giving it back costs page faults for the next."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library, with a heap of its own
    mallopt(_M_MMAP_THRESHOLD, 64 * _MIB)
    mallopt(_M_TRIM_THRESHOLD, 256 * _MIB)
    mallopt(_M_TOP_PAD, 32 * _MIB)


def allow_many_descriptors() -> None:
    """Take all the descriptors the system lets us have: each client and each segment is one."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _topics(texts: Sequence[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, partitions = _topic(text)
        if found.setdefault(name, partitions) != partitions:
            raise SettingsError(f"--topic {text!r}: {name} has {found[name]} already")
    return found


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.rpartition(":")
    if not colon or not name or not count.isascii() or not count.isdigit() or not int(count):
        raise SettingsError(f"--topic {text!r}: write NAME:PARTITIONS, with at least one partition")
    return name, int(count)


def _setting(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise SettingsError(f"--config {text!r}: write KEY=VALUE")
    return key.strip(), value.strip()


def _directory(text: str) -> str:
    """Return the directory that is meant: a shell does not resolve `--data-dir=~/data`."""
    if not text.strip():
        raise SettingsError("--data-dir is empty: name a directory, or leave the option out")
    return os.path.expanduser(text)  # noqa: PTH111 - Path adds nothing here


def _read_properties(path: str, log: Log) -> Mapping[str, str]:
    # Imported here, for a broker started without a file does without all of it.
    from kafkalite.cli.properties import read_properties  # noqa: PLC0415

    return read_properties(path, log)
