"""Producer: sends records to partitions, and finds the leaders again if they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from kafkalite.client.access import PLAINTEXT
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.exchanges import error_text
from kafkalite.client.metadata import DEFAULT_MAX_AGE_MS, Metadata
from kafkalite.client.producer_transaction import (
    PRODUCE_VERSIONS,
    ProducerSequences,
    ProducerTransaction,
)
from kafkalite.client.records import ProducerRecord, encode_batch
from kafkalite.client.retries import DEFAULT_BACKOFF, Backoff, Retries
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.compression import CODEC_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kafkalite.client.access import Access
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.ports.clock import Clock

Acks = Literal["all", 1, 0]

_ACKS: Final = {"all": -1, 1: 1, 0: 0}
_NO_OFFSET: Final = -1
_LOST_SEQUENCES: Final = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
)
"""Errors after which an idempotent producer needs another id."""


class ProducedBatch(NamedTuple):
    """A batch in the log: the partition and the offsets of its records; -1 if they are unknown."""

    partition: TopicPartition
    first_offset: int
    last_offset: int


class Producer:
    """Sends records to the leaders of partitions.

    - `bootstrap_servers`: addresses of any brokers of the cluster, as `host:port,…`.
    - `acks`: "all" waits for all in-sync replicas, 1 for the leader, 0 for no broker.
    - `compression`: "none", "gzip", "snappy", "lz4" or "zstd".
    - `is_idempotent`: gives batches sequence numbers, so that brokers write a repeated one once.
    - `transactional_id`: sends all records in transactions of this id, between `begin` and `end`.
    - `access`: TLS and login.
    - `timeout_ms`: maximum time of a `send`, with its retries.
    - `request_timeout_ms`: maximum time of one request.
    - `metadata_max_age_ms`: time after which metadata is requested again, even without an error.
    - `backoff`: waiting times between retries.
    - `clock`: the clock for timestamps and waiting times; None for the system's.

    The producer is interested in all partitions of its topics: it rejects metadata that is older
    for one of them. Unless it is idempotent or has a transactional id, a retry after a lost
    response can write a batch twice.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        acks: Acks = "all",
        compression: str = "none",
        is_idempotent: bool = False,
        transactional_id: str | None = None,
        access: Access = PLAINTEXT,
        timeout_ms: int = 30_000,
        request_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = DEFAULT_MAX_AGE_MS,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Clock | None = None,
    ) -> None:
        if acks not in _ACKS:
            raise ValueError(f'acks is "all", 1 or 0, not {acks!r}')
        if compression not in CODEC_NUMBERS:
            raise ValueError(
                f"compression is one of {', '.join(CODEC_NUMBERS)}, not {compression!r}"
            )
        if transactional_id is not None and acks != "all":
            raise ValueError('a producer with a transactional id has acks "all"')
        if is_idempotent and acks != "all":
            raise ValueError('an idempotent producer has acks "all"')
        self._acks = _ACKS[acks]
        self._compression = compression
        self._clock = AdjustableClock() if clock is None else clock
        self._timeout_ms = timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._backoff = backoff
        addresses = bootstrap_addresses(bootstrap_servers)
        self._client = KafkaClient(addresses, access, response_timeout_s=request_timeout_ms / 1_000)
        self.metadata = Metadata(self._client, self._clock, backoff, metadata_max_age_ms)
        """The cached metadata."""
        sequences = ProducerSequences()
        self._transaction = (
            None
            if transactional_id is None
            else ProducerTransaction(self._client, transactional_id, sequences)
        )
        self._sequences = None if transactional_id is None and not is_idempotent else sequences

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    @property
    def is_transactional(self) -> bool:
        """Whether records are sent in transactions."""
        return self._transaction is not None

    async def begin(self) -> None:
        """Begin a transaction; raises BrokerError, TimedOutError, or RuntimeError without an id."""
        await self._checked_transaction().begin(self._retries())

    async def end(self, *, commits: bool) -> None:
        """Commit or abort the transaction; raises as `begin` does."""
        await self._checked_transaction().end(self._retries(), commits=commits)

    def _checked_transaction(self) -> ProducerTransaction:
        if self._transaction is None:
            raise RuntimeError("the producer has no transactional id")
        return self._transaction

    def _retries(self) -> Retries:
        return Retries(self._clock, self._backoff, self._timeout_ms)

    async def send(
        self,
        partition: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> ProducedBatch:
        """Send one record; see `send_batch`."""
        return await self.send_batch(partition, [ProducerRecord(value, key, tuple(headers))])

    async def send_batch(
        self, partition: TopicPartition, records: Sequence[ProducerRecord]
    ) -> ProducedBatch:
        """Send records as one batch, and return their offsets once they are acknowledged.

        If the leader is unknown, unreachable or refuses for now, the metadata is refreshed and the
        batch is sent again. Raises BrokerError for other errors, TimedOutError after `timeout_ms`,
        ValueError without records.
        """
        retries = self._retries()
        sequences, producer = self._sequences, None
        if self._transaction is not None:
            await self._transaction.add(partition, retries)
        elif sequences is not None:
            await sequences.request_id(self._client, retries)
        if sequences is not None:
            producer = sequences.next_batch(partition, len(records))
        data = encode_batch(
            records,
            self._clock.now_ms(),
            compression=self._compression,
            producer=producer,
            is_transactional=self.is_transactional,
        )
        try:
            offset = await self._write(partition, data, retries)
        except BrokerError as error:
            if sequences is not None:
                sequences.withdraw(partition, len(records))
                if error.code in _LOST_SEQUENCES and not self.is_transactional:
                    sequences.forget()
            raise
        except BaseException:
            # It is unknown whether a broker has written the batch.
            if sequences is not None and not self.is_transactional:
                sequences.forget()
            raise
        last = offset if offset == _NO_OFFSET else offset + len(records) - 1
        return ProducedBatch(partition, offset, last)

    async def _write(self, partition: TopicPartition, data: bytes, retries: Retries) -> int:
        """Send a batch until it is acknowledged, and return its first offset; -1 if unknown."""
        self.metadata.add_topic(partition.topic)
        if self.metadata.must_refresh and not await self.metadata.refresh(retries.deadline_ms):
            raise TimedOutError(f"cannot produce to {partition}: {self.metadata.failure}")
        while True:
            used = self.metadata.current
            try:
                code, offset, message = await self._produce(partition, data, retries)
            except UnreachableError as error:
                reason = str(error)
            else:
                # The first attempt of a retried batch may be in the log, at an unknown offset.
                if not code or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return offset
                if not code.retriable:
                    raise BrokerError(code, f"cannot produce to {partition}", message)
                reason = error_text(code)
            if not await retries.wait():
                raise TimedOutError(f"cannot produce to {partition}: {reason}")
            if not await self.metadata.refresh(retries.deadline_ms, replacing=used):
                raise TimedOutError(f"cannot produce to {partition}: {self.metadata.failure}")

    async def _produce(
        self, partition: TopicPartition, data: bytes, retries: Retries
    ) -> tuple[ErrorCode, int, str | None]:
        """Send one request; return the error code, the first offset and the broker's reason."""
        leader = self.metadata.leader_address(partition)
        known = self.metadata.partition(partition)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_OFFSET, None
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE, _NO_OFFSET, None
        row = ProduceRequest.PartitionProduceData(index=partition.partition, records=data)
        # The version of the request selects the name or the id.
        topic = ProduceRequest.TopicProduceData(
            name=partition.topic, topic_id=known.topic_id, partition_data=[row]
        )
        transaction = self._transaction
        versions = PRODUCE_VERSIONS if transaction is None else transaction.produce_versions
        request = ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=self._acks,
            timeout_ms=min(self._request_timeout_ms, retries.remaining_ms),
            topic_data=[topic],
        )
        timeout_s = retries.request_timeout_s
        if not self._acks:
            await self._client.send(leader, request, versions, timeout_s=timeout_s)
            return ErrorCode.NONE, _NO_OFFSET, None
        response = await self._client.ask(leader, request, versions, timeout_s=timeout_s)
        result = response.responses[0].partition_responses[0]
        # As in Java's producer, the reason of a record is that of its batch.
        reasons = [each.batch_index_error_message for each in result.record_errors]
        message = next(filter(None, [*reasons, result.error_message]), None)
        return ErrorCode(result.error_code), result.base_offset, message
