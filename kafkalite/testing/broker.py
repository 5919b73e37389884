"""Broker: a whole cluster inside a test, on a thread of its own.

It has its own event loop on its own thread, even under `async with`: a test that blocks, as
librdkafka's and kafka-python's calls do, must not stop the broker it waits for.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import TYPE_CHECKING, Self

from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from types import TracebackType

_GRACE_S = 0.2


class Broker:
    """A Kafka cluster for the length of a `with` or `async with` block.

    `topics` maps names to numbers of partitions; `config` holds broker settings by Kafka's names,
    as text or as numbers and booleans; without `data_directory` nothing is left at the end. `port`
    is the first node's, by default a free one, and each further node takes the next. `log_level` is
    debug, info, warning or error, and lines go to stderr. ValueError names another level.
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
    ) -> None:
        self._settings = Settings(
            listen=(f"127.0.0.1:{port}",),
            brokers=brokers,
            topics=dict(topics or {}),
            config={key: _as_text(value) for key, value in (config or {}).items()},
            data_directory=None if data_directory is None else str(data_directory),
        )
        if log_level.upper() not in Level.__members__:
            raise ValueError(f"log_level {log_level!r} is none of {', '.join(Level.__members__)}")
        self._log = Log(Level[log_level.upper()])
        self._broker: ServerBroker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owner = 0

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given to find the cluster: `host:port,…`, one for each node."""
        return self._running().bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._running().cluster_id

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
        self._broker = ServerBroker(self._settings, self._log)
        try:
            asyncio.run_coroutine_threadsafe(self._broker.start(), loop).result()
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
            asyncio.run_coroutine_threadsafe(broker.stop(_GRACE_S), loop).result()
        finally:
            self._end()

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


def _as_text(value: str | float) -> str:
    """Return a setting as a properties file writes it: Kafka's booleans are lower case."""
    return f"{value}".lower() if isinstance(value, bool) else f"{value}"
