"""Transactional producers of kafka-python; see `drivers.producers`."""

from __future__ import annotations

import sys

from kafka import KafkaProducer

from tests.clients.drivers.protocol import serve

_TIMEOUT_S = 30.0


class KafkaPythonProducers:
    """See `tests.clients.drivers.producers.Producers`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, KafkaProducer] = {}

    def init(
        self, name: str, transactional_id: str, timeout_ms: int, request_timeout_ms: int
    ) -> None:
        self._producers[name] = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        self._producers[name].init_transactions()

    def begin(self, name: str) -> None:
        self._producers[name].begin_transaction()

    def send(self, name: str, topic: str, value: str) -> None:
        self._producers[name].send(topic, value.encode(), partition=0).get(_TIMEOUT_S)

    def commit(self, name: str) -> None:
        self._producers[name].commit_transaction()

    def abort(self, name: str) -> None:
        self._producers[name].abort_transaction()

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(0)


if __name__ == "__main__":
    serve(KafkaPythonProducers(sys.argv[1]))
