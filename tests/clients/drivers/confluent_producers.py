"""Transactional producers of confluent-kafka (librdkafka); see `drivers.producers`."""

from __future__ import annotations

import sys

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.clients.drivers.protocol import serve

_TIMEOUT_S = 30.0


class ConfluentProducers:
    """See `tests.clients.drivers.producers.Producers`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, Producer] = {}

    def init(
        self, name: str, transactional_id: str, timeout_ms: int, request_timeout_ms: int
    ) -> None:
        self._producers[name] = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                # Not below the transaction's timeout, if that is short.
                "message.timeout.ms": timeout_ms,
                "socket.timeout.ms": request_timeout_ms,
                "linger.ms": 0,
            }
        )
        self._producers[name].init_transactions(_TIMEOUT_S)

    def begin(self, name: str) -> None:
        self._producers[name].begin_transaction()

    def send(self, name: str, topic: str, value: str) -> None:
        errors: list[KafkaError | None] = []
        producer = self._producers[name]
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _message: errors.append(error)
        )
        producer.flush(_TIMEOUT_S)
        if errors != [None]:
            raise KafkaException(*errors)

    def commit(self, name: str) -> None:
        self._producers[name].commit_transaction(_TIMEOUT_S)

    def abort(self, name: str) -> None:
        self._producers[name].abort_transaction(_TIMEOUT_S)

    def close(self) -> None:
        for producer in self._producers.values():
            producer.purge()


if __name__ == "__main__":
    serve(ConfluentProducers(sys.argv[1]))
