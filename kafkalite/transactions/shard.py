"""TransactionShard: the transactional ids that fall on one partition of `__transaction_state`.

Each change is one record that says all there is to say of its id. What was decided is in the log
when markers are named; what was named and not done is named again after loading. The epoch before
the present one is soft, as in Kafka: a coordinator that was loaded anew takes a repeated
InitProducerId for one of a producer that was fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event, SubjectKind
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.adding import verified, with_partitions
from kafkalite.transactions.ending import completed, ended, is_told_by, markers_of
from kafkalite.transactions.initializing import (
    Initialized,
    check_producer,
    check_wish,
    initialized,
)
from kafkalite.transactions.records import transaction_record
from kafkalite.transactions.refusing import no_id, refusal
from kafkalite.transactions.registry import TransactionRegistry
from kafkalite.transactions.state import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    PREPARED,
    Transaction,
    TransactionState,
)
from kafkalite.transactions.sweeps import TransactionSweeps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.transactions.intents import WriteMarkers
    from kafkalite.transactions.state import Producer, TopicPartition


class TransactionShard:
    """The transactional ids of one partition of the log, as a machine on the runtime."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: MetadataImage,
        draw_producer_id: Callable[[], int],
    ) -> None:
        self._registry = TransactionRegistry(
            config=config, image=image, draw_producer_id=draw_producer_id
        )
        self._sweeps = TransactionSweeps(self._registry)

    # The contract with the runtime

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record of the log true."""
        self._registry.replay_transaction(record)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Name the markers of transactions that were decided and are not complete."""
        return CoordinatorResult(
            response=None,
            timers=self._sweeps.on_loaded(now_ms),
            intents=[markers_of(each) for each in self.transactions() if each.state in PREPARED],
        )

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Sweep: abort what is open for too long, or forget what was not used for long."""
        return self._sweeps.timers[type(event)](event, now_ms)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Take smaller steps in sweeps, if it was one of theirs."""
        del now_ms
        self._sweeps.on_append_failed(records, error)
        return CoordinatorResult(response=None)

    def on_image(self, image: MetadataImage) -> None:
        """Follow the level of `transaction.version` that the cluster has agreed on."""
        self._registry.see(image)

    # Deciders

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        now_ms: int,
    ) -> CoordinatorResult[Initialized]:
        """Give a transactional id to its next producer; an open transaction is aborted first.

        KafkaError INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS or
        PRODUCER_FENCED.
        """
        check_wish(self._registry.config, transactional_id, timeout_ms)
        transaction = self._registry.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(
                transactional_id, self._registry.draw_producer_id(), NO_PRODUCER_EPOCH, timeout_ms
            )
        check_producer(transaction, expected)
        if transaction.state is TransactionState.ONGOING:
            prepared = self._registry.rolled_back(transaction, now_ms)
            return CoordinatorResult(
                Initialized(NO_PRODUCER, ErrorCode.CONCURRENT_TRANSACTIONS),
                [transaction_record(prepared)],
                events=[_fenced_by_newcomer(transaction, prepared)],
                intents=[markers_of(prepared)],
            )
        begun = initialized(
            transaction, timeout_ms, expected, self._registry.draw_producer_id, now_ms
        )
        return CoordinatorResult(
            Initialized(begun.producer),
            [transaction_record(begun)],
            timers=self._sweeps.watch_ids(now_ms),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        client_transaction_version: int,
        now_ms: int,
    ) -> CoordinatorResult[None]:
        """Let partitions join a producer's transaction, which begins with the first of them.

        KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
        PRODUCER_FENCED or UNSUPPORTED_VERSION.
        """
        changed = with_partitions(
            self._registry.known(transactional_id),
            producer,
            frozenset(partitions),
            client_transaction_version,
            now_ms,
        )
        if changed is None:
            return CoordinatorResult(None)
        self._registry.check_writable(transactional_id, client_transaction_version)
        return CoordinatorResult(
            None, [transaction_record(changed)], timers=self._sweeps.watch_open(now_ms)
        )

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        is_commit: bool,
        client_transaction_version: int,
        now_ms: int,
    ) -> CoordinatorResult[Producer]:
        """Decide a transaction as its producer wants; the response is the producer to go on with.

        Before transaction version 2 nobody is named: it is the same as before. KafkaError
        INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED,
        INVALID_TXN_STATE or UNSUPPORTED_VERSION.
        """
        prepared, successor = ended(
            self._registry.known(transactional_id),
            producer,
            is_commit=is_commit,
            client_transaction_version=client_transaction_version,
            draw_producer_id=self._registry.draw_producer_id,
            now_ms=now_ms,
        )
        if prepared is None:
            return CoordinatorResult(successor)
        self._registry.check_writable(transactional_id, client_transaction_version)
        return CoordinatorResult(
            successor, [transaction_record(prepared)], intents=[markers_of(prepared)]
        )

    def markers_written(self, intent: WriteMarkers, now_ms: int) -> CoordinatorResult[None]:
        """Complete a transaction whose partitions know how it ended, unless it is no longer so."""
        transaction = self._registry.transactions.get(intent.transactional_id)
        if transaction is None or not is_told_by(intent, transaction):
            return CoordinatorResult(None)
        return CoordinatorResult(None, [transaction_record(completed(transaction, now_ms))])

    # Queries

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Say of each partition whether it is in a producer's transaction.

        KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
        CONCURRENT_TRANSACTIONS.
        """
        return verified(self._registry.known(transactional_id), producer, partitions)

    def describe(self, transactional_id: str) -> Transaction:
        """Return what is kept of an id; KafkaError INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            raise no_id()
        transaction = self._registry.transactions.get(transactional_id)
        if transaction is None:
            raise refusal(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id, "unknown-id", "unknown here"
            )
        return transaction

    def transactions(self) -> Iterable[Transaction]:
        """Return what is kept of every id."""
        return self._registry.transactions.values()


def _fenced_by_newcomer(transaction: Transaction, prepared: Transaction) -> Event:
    return Event(
        transaction.transactional_id,
        "fenced",
        f"transaction of id {transaction.transactional_id} aborted: its producer "
        f"{transaction.producer_id} is fenced at epoch {transaction.producer_epoch}, "
        "for another begins with this id",
        {
            "rule": "new-producer",
            "producer_id": transaction.producer_id,
            "fenced_epoch": transaction.producer_epoch,
            "epoch": prepared.producer_epoch,
        },
        SubjectKind.TRANSACTIONAL_ID,
    )
