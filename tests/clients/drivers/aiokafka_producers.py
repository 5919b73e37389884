"""Transactional producers of aiokafka; see `drivers.producers`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from aiokafka import AIOKafkaProducer

from tests.clients.drivers.protocol import serve

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")
_TIMEOUT_S = 30.0


class AiokafkaProducers:
    """See `tests.clients.drivers.producers.Producers`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, AIOKafkaProducer] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def init(
        self, name: str, transactional_id: str, timeout_ms: int, request_timeout_ms: int
    ) -> None:
        self._wait(self._init(name, transactional_id, timeout_ms, request_timeout_ms))

    def begin(self, name: str) -> None:
        self._wait(self._producers[name].begin_transaction())

    def send(self, name: str, topic: str, value: str) -> None:
        sent = self._producers[name].send_and_wait(topic, value.encode(), partition=0)
        self._wait(sent)

    def commit(self, name: str) -> None:
        self._wait(self._producers[name].commit_transaction())

    def abort(self, name: str) -> None:
        self._wait(self._producers[name].abort_transaction())

    def close(self) -> None:
        # A producer that was fenced cannot be stopped.
        os._exit(0)

    async def _init(
        self, name: str, transactional_id: str, timeout_ms: int, request_timeout_ms: int
    ) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        await producer.start()
        self._producers[name] = producer

    def _wait(self, work: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)


if __name__ == "__main__":
    serve(AiokafkaProducers(sys.argv[1]))
