"""A worker of kafka-python; see `tests.clients.drivers.worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    ProducerFencedError,
    RebalanceInProgressError,
    TransactionAbortableError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

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

_FENCED = (ProducerFencedError, InvalidProducerEpochError)
_ABORTABLE = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    TransactionAbortableError,
    UnknownMemberIdError,
)
_POLL_MS = 100
_REQUEST_TIMEOUT_MS = 2_000


class KafkaPythonWorker:
    """See `tests.clients.drivers.worker.Link`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._producer = KafkaProducer(
            bootstrap_servers=task.bootstrap,
            transactional_id=task.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            # It waits this long for a coordinator that it discarded while the broker was down.
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
        )
        _let_it_ask_again(self._producer)
        _call(self._producer.init_transactions)
        self._consumer = KafkaConsumer(
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_records=task.batch,
        )
        self._consumer.partitions_for_topic(task.source)
        self._consumer.subscribe([task.source])

    def poll(self) -> list[ReadRow]:
        try:
            polled = self._consumer.poll(timeout_ms=_POLL_MS)
        except KafkaConnectionError:
            # The broker is down; other clients raise no exception and wait.
            return []
        return [
            (message.partition, message.offset, message.key.decode(), message.value.decode())
            for messages in polled.values()
            for message in messages
        ]

    def begin(self) -> None:
        _call(self._producer.begin_transaction)

    def write(self, rows: list[ReadRow]) -> None:
        sent = [
            self._producer.send(
                self._task.sink, transformed(value).encode(), (key or "").encode(), None, partition
            )
            for partition, _offset, key, value in rows
        ]
        self._producer.flush()
        for each in sent:
            _call(each.get)

    def send_offsets(self, rows: list[ReadRow]) -> None:
        offsets = {
            TopicPartition(self._task.source, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in after_these(rows).items()
        }
        metadata = self._consumer.group_metadata()
        _call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata))

    def commit(self) -> None:
        _call(self._producer.commit_transaction)

    def abort(self) -> None:
        _call(self._producer.abort_transaction)
        for owned in self._consumer.assignment():
            self._consumer.seek(owned, self._consumer.committed(owned) or 0)

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


def _let_it_ask_again(producer: KafkaProducer) -> None:
    """Make it retry a transactional request while its coordinator is down.

    kafka-python 3.0.12 retries if a node is not ready, but its check raises an exception
    instead. Then the request is lost, and its caller waits forever.
    """
    client = producer._sender._client
    await_ready = client.await_ready

    def is_ready(node_id: object, timeout_ms: int = _REQUEST_TIMEOUT_MS) -> bool:
        try:
            return bool(await_ready(node_id, timeout_ms))
        except KafkaConnectionError:
            return False

    client.await_ready = is_ready


def _call(call: Callable[[], object]) -> None:
    """Call, and convert the library's exceptions to those of `worker`."""
    try:
        call()
    except _FENCED as error:
        raise FencedError(type(error).__name__) from None
    except _ABORTABLE as error:
        raise AbortableError(repr(error)) from None
    except KafkaError as error:
        if any(isinstance(cause, _FENCED) for cause in (error.__cause__, *error.args)):
            raise FencedError(repr(error)) from None
        raise


if __name__ == "__main__":
    try:
        work(KafkaPythonWorker(given_task()))
    except BaseException as failure:  # noqa: BLE001 - reported to the test
        last_words(failure)
