"""Broker: a whole cluster inside a test, on a thread of its own.

It has its own event loop on its own thread, even under `async with`: a test that blocks, as
librdkafka's and kafka-python's calls do, must not stop the broker it waits for.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from kafkalite.control.address import control_address
from kafkalite.control.commands import (
    DEFAULT_EXPLAINED,
    REAL,
    Explain,
    new_clock,
    perform_explain,
    perform_on_clock,
    perform_transactions,
)
from kafkalite.ports.clock import DrivenClock
from kafkalite.server.addresses import Address
from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings
from kafkalite.testing.driving import BrokerClock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from concurrent.futures import Future
    from os import PathLike
    from types import TracebackType

    from kafkalite.capture.recorder import Recorder
    from kafkalite.control.commands import ClockCommand, ClockState
    from kafkalite.control.fencing import Fenced
    from kafkalite.control.listening import ControlServer
    from kafkalite.coordinator.journal import Entry
    from kafkalite.replay.staging import Match, OnMiss
    from kafkalite.server.stage import Stage
    from kafkalite.transactions.state import Transaction

T = TypeVar("T")

_GRACE_S = 0.2


class Broker:
    """A Kafka cluster for the length of a `with` or `async with` block.

    `topics` maps names to numbers of partitions; `config` holds broker settings by Kafka's names,
    as text or as numbers and booleans; without `data_directory` nothing is left at the end. `port`
    is the first node's, by default a free one, and each further node takes the next. `log_level` is
    debug, info, warning or error, and lines go to stderr. `clock` is how time goes at first, and
    begins anew with no restart: "real", "manual" (it stands until advanced) or "accelerated:60",
    with "@TIME" behind it to begin at a time in ISO 8601. With `control` the broker can be driven
    over HTTP as well, at a free port or at the `[HOST:]PORT` given. `as_version`, such as "3.9", is
    the release of Kafka that it speaks as. `capture` is a directory to record all traffic in, as
    pcapng files; secrets are blanked. With `replay`, a capture file or a directory of them, it is
    the cluster that was recorded: requests find their answers by `match`, "strict", "lenient" or
    "seeded", and by `on_miss` one that finds none ends its connection ("fail") or is answered by
    the live broker ("live"). ValueError for a word that is none of those, or that `replay` would
    have to go with.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str | float] | None = None,
        *,
        data_directory: str | PathLike[str] | None = None,
        port: int = 0,
        log_level: str = "warning",
        clock: str = REAL,
        control: bool | str = False,
        as_version: str | None = None,
        capture: str | PathLike[str] | None = None,
        replay: str | PathLike[str] | None = None,
        match: str = "strict",
        on_miss: str = "fail",
    ) -> None:
        self._settings = Settings(
            listen=(f"127.0.0.1:{port}",),
            brokers=brokers,
            topics=dict(topics or {}),
            config={key: _as_text(value) for key, value in (config or {}).items()},
            data_directory=None if data_directory is None else str(data_directory),
            as_version=as_version,
        )
        if log_level.upper() not in Level.__members__:
            raise ValueError(f"log_level {log_level!r} is none of {', '.join(Level.__members__)}")
        self._log = Log(Level[log_level.upper()])
        self._time = new_clock(clock)
        self._capture = None if capture is None else str(capture)
        self._recorder: Recorder | None = None
        self._replay = _replayed(replay, match, on_miss)
        self._control_address: Address | None = None
        if control is not False:
            self._control_address = control_address(control if isinstance(control, str) else "0")
        self._control: ControlServer | None = None
        self.clock = BrokerClock(self._drive)
        """The time of the cluster, to tell and to drive."""
        self._broker: ServerBroker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._asked: set[Future[Any]] = set()
        """What other threads wait for."""
        self._owner = 0

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given to find the cluster: `host:port,…`, one for each node."""
        return self._running().bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._running().cluster_id

    @property
    def control_url(self) -> str:
        """Where the broker can be driven over HTTP, if it was made with `control`."""
        self._running()
        if self._control is None:
            raise RuntimeError("the broker cannot be driven over HTTP: make it with control=True")
        return self._control.url

    def explain(
        self,
        group: str | None = None,
        limit: int = DEFAULT_EXPLAINED,
        *,
        transactional_id: str | None = None,
    ) -> list[Entry]:
        """Return what befell a group or a transactional id, or all of them, and why.

        The latest `limit` entries come, oldest first; each has a `kind`, such as "refused" or
        "rebalance", a `text`, and its `facts`. ValueError for a wish to hear of both.
        """
        command = Explain(group, limit, transactional_id)

        async def ask() -> list[Entry]:
            return list(perform_explain(broker, command).entries)

        broker = self._running()
        return self._on_loop(ask())

    def transactions(self) -> list[Transaction]:
        """Return where every transactional id stands, sorted by id.

        Of each: its `state`, such as TransactionState.ONGOING, the `partitions` in its transaction,
        its `producer_id` and `producer_epoch`, and more.
        """

        async def ask() -> list[Transaction]:
            return perform_transactions(broker)

        broker = self._running()
        return self._on_loop(ask())

    def fence_producers(self, *transactional_ids: str) -> list[Fenced]:
        """Fence the producers of these ids, and end what they left open, as Java's Admin does.

        Each id has a new producer id or epoch when this returns. RuntimeError when one of them
        could not be fenced.
        """
        from kafkalite.control.fencing import fence_producers  # noqa: PLC0415 - rarely used

        addresses = [Address.parse(each) for each in self.bootstrap_servers.split(",")]
        results = self._on_loop(fence_producers(addresses, transactional_ids))
        failed = [f"{each.transactional_id!r}: {each.error}" for each in results if each.error]
        if failed:
            raise RuntimeError(f"cannot fence {', '.join(failed)}")
        return results

    def start(self) -> None:
        """Start the cluster; it serves when this returns.

        Raises what `kafkalite.server.broker.Broker.start` raises.
        """
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        self._loop = loop = new_event_loop(self._log)
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="kafkalite", daemon=True
        )
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._serve(), loop).result()
        except BaseException:
            self._end()
            raise
        self._owner = os.getpid()
        atexit.register(self._stop_at_exit)

    def stop(self) -> None:
        """Stop the cluster; harmless when it does not run.

        A cluster that nobody stopped is stopped when the process ends.
        """
        atexit.unregister(self._stop_at_exit)
        broker, self._broker = self._broker, None
        loop = self._loop
        if broker is None or loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._leave(broker), loop).result()
        finally:
            self._end()

    async def _serve(self) -> None:
        # Time goes on where it was; what the last run left on its agenda is not done any more.
        self._time = DrivenClock(self._time.rate, self._time.now_ms())
        if self._capture is not None:
            from kafkalite.capture.recorder import Recorder  # noqa: PLC0415 - rarely used

            self._recorder = Recorder(self._capture, self._time.now_ns, tell=self._log.error)
        try:
            settings, stage = self._staged()
            broker = ServerBroker(
                settings, self._log, clock=self._time, recorder=self._recorder, stage=stage
            )
            await broker.start()
        except BaseException:
            self._end_capture()
            raise
        if self._control_address is not None:
            try:
                from kafkalite.control.listening import ControlServer  # noqa: PLC0415 - rarely used

                self._control = ControlServer(broker, self._control_address, self._log)
                await self._control.start()
            except BaseException:
                await self._leave(broker)
                raise
        self._broker = broker

    def _staged(self) -> tuple[Settings, Stage | None]:
        """Return the settings of the broker, and what stands in for it."""
        if self._replay is None:
            return self._settings, None
        from kafkalite.replay.staging import staged  # noqa: PLC0415 - rarely used

        found = staged([self._replay.path], self._replay.match, self._replay.on_miss, self._log)
        settings = self._settings._replace(
            brokers=max(self._settings.brokers, len(found.nodes)),
            topics={**found.topics, **self._settings.topics},
        )
        return settings, found.stage

    async def _leave(self, broker: ServerBroker) -> None:
        control, self._control = self._control, None
        if control is not None:
            await control.stop()
        await broker.stop(_GRACE_S)
        self._end_capture()

    def _end_capture(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _stop_at_exit(self) -> None:
        # A forked process has this object but not its thread: nobody would answer there.
        if self._owner == os.getpid():
            self.stop()

    def _running(self) -> ServerBroker:
        if self._broker is None:
            raise RuntimeError("the broker is not running: use it in a `with` block")
        return self._broker

    def _drive(self, command: ClockCommand) -> ClockState:
        """Carry out a command on the broker's own loop, and wait for it."""
        return self._on_loop(perform_on_clock(self._running(), command))

    def _on_loop(self, work: Coroutine[None, None, T]) -> T:
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the broker cannot wait for itself: call from another thread")
        asked = asyncio.run_coroutine_threadsafe(work, loop)
        self._asked.add(asked)
        try:
            return asked.result()
        except CancelledError:
            raise RuntimeError("the broker was stopped meanwhile") from None
        finally:
            self._asked.discard(asked)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _end(self) -> None:
        """Stop the loop and wait for its thread."""
        loop, thread = self._loop, self._thread
        self._broker = self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            for asked in tuple(self._asked):
                asked.cancel()


def _as_text(value: str | float) -> str:
    """Return a setting as a properties file writes it: Kafka's booleans are lower case."""
    return f"{value}".lower() if isinstance(value, bool) else f"{value}"


class _Replayed(NamedTuple):
    """A capture to be, and how."""

    path: str
    match: Match
    on_miss: OnMiss


def _replayed(replay: str | PathLike[str] | None, match: str, on_miss: str) -> _Replayed | None:
    """Return what is to be replayed, if anything; ValueError for what does not go together."""
    if replay is None:
        for name, value, default in (("match", match, "strict"), ("on_miss", on_miss, "fail")):
            if value != default:
                raise ValueError(f"{name}={value!r} needs replay, which says what to replay")
        return None
    from kafkalite.replay.staging import Match, OnMiss  # noqa: PLC0415 - rarely used

    asked = _Replayed(str(replay), Match(match), OnMiss(on_miss))
    if asked.match is Match.SEEDED and asked.on_miss is not OnMiss.FAIL:
        raise ValueError("on_miss: a seeded broker answers everything itself")
    return asked
