"""A worker of confluent-kafka (librdkafka); see `tests.clients.drivers.worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.clients.drivers.worker import (
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    AbortableError,
    FencedError,
    Task,
    after_these,
    given_task,
    last_words,
    transformed,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.drivers.protocol import ReadRow

_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_WITHOUT_COORDINATOR = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
}
"""Errors while the coordinator moves; the library sends its own requests again."""
_TIMEOUT_S = 60.0


class ConfluentWorker:
    """See `tests.clients.drivers.worker.Link`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._producer = Producer(
            {
                "bootstrap.servers": task.bootstrap,
                "transactional.id": task.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                # Without a broker it would rebootstrap, and then send offsets to the dropped broker
                # that it still uses as the group's coordinator, endlessly.
                "metadata.recovery.strategy": "none",
            }
        )
        _call(self._producer.init_transactions)
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "group.protocol": task.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        if task.protocol == "classic":
            config |= {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        self._consumer = Consumer(config)
        self._consumer.subscribe([task.source])

    def poll(self) -> list[ReadRow]:
        messages = self._consumer.consume(self._task.batch, 0.1)
        return [_row(message) for message in messages if not _is_repeated(message)]

    def begin(self) -> None:
        _call(self._producer.begin_transaction)

    def write(self, rows: list[ReadRow]) -> None:
        for partition, _offset, key, value in rows:
            self._producer.produce(self._task.sink, transformed(value), key, partition)
        self._producer.flush()

    def send_offsets(self, rows: list[ReadRow]) -> None:
        source = self._task.source
        offsets = [TopicPartition(source, *after) for after in after_these(rows).items()]
        metadata = self._consumer.consumer_group_metadata()
        _call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata))

    def commit(self) -> None:
        _call(self._producer.commit_transaction)

    def abort(self) -> None:
        _call(self._producer.abort_transaction)
        for at in self._committed():
            self._consumer.seek(at)

    def _committed(self) -> list[TopicPartition]:
        while True:
            try:
                return self._consumer.committed(self._consumer.assignment(), _TIMEOUT_S)
            except KafkaException as raised:
                if raised.args[0].code() not in _WITHOUT_COORDINATOR:
                    raise

    def close(self) -> None:
        self._consumer.close()


def _call(call: Callable[[], object]) -> None:
    """Repeat a call until it succeeds; convert the library's exceptions to those of `worker`."""
    while True:
        try:
            call()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.code() in _FENCED:
                raise FencedError(f"{error.name()} fatal={error.fatal()}") from None
            if error.txn_requires_abort():
                raise AbortableError(str(error)) from None
            if not error.retriable():
                raise
        else:
            return


def _is_repeated(message: Message) -> bool:
    """Whether a message reports a request for committed offsets that the library sends again."""
    error = message.error()
    return error is not None and error.code() in _WITHOUT_COORDINATOR


def _row(message: Message) -> ReadRow:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset, _text(key), _text(value)


def _text(data: str | bytes | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data


if __name__ == "__main__":
    try:
        work(ConfluentWorker(given_task()))
    except BaseException as failure:  # noqa: BLE001 - reported to the test
        last_words(failure)
