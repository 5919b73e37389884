"""TransactionShard: the transactional ids of one partition of `__transaction_state`.

Each change is one record with the complete state of its id. Markers are requested when the decision
is in the log, and requested again after loading if they were not completed. The previous epoch is
soft state, as in Kafka: after loading, a repeated InitProducerId is refused like one of a fenced
producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.end import (
    are_markers_of,
    complete_transaction,
    end_transaction,
    markers_of,
)
from kafkalite.transactions.expiration import TransactionExpiration
from kafkalite.transactions.partition_addition import add_partitions_to, verify_partitions_of
from kafkalite.transactions.producer_initialization import (
    InitializationResult,
    check_producer,
    check_request,
    initialize_producer,
)
from kafkalite.transactions.refusals import empty_id_refusal, refusal
from kafkalite.transactions.registry import TransactionRegistry
from kafkalite.transactions.state import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    PREPARED_STATES,
    Transaction,
    TransactionState,
)
from kafkalite.transactions.transaction_records import transaction_record, transaction_tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.transactions.intents import WriteMarkers
    from kafkalite.transactions.producer_initialization import ProducerRequest
    from kafkalite.transactions.state import ProducerIdAndEpoch, TopicPartition


class TransactionShard:
    """The transactional ids of one partition of the log, as a state machine."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: MetadataImage,
        generate_producer_id: Callable[[], int],
    ) -> None:
        self._registry = TransactionRegistry(
            config=config, image=image, generate_producer_id=generate_producer_id
        )
        self._expiration = TransactionExpiration(self._registry)

    # The contract with the runtime

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record of the log to the state."""
        self._registry.replay_transaction(record)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Request the markers of transactions that were decided and are not complete."""
        return CoordinatorResult(
            response=None,
            timers=self._expiration.on_loaded(now_ms),
            intents=[
                markers_of(each) for each in self.transactions() if each.state in PREPARED_STATES
            ],
        )

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Abort transactions that timed out, or remove unused ids."""
        return self._expiration.timers[type(event)](event, now_ms)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Reduce the size of sweep steps, if the records were from a sweep."""
        del now_ms
        self._expiration.on_append_failed(records, error)
        return CoordinatorResult(response=None)

    def on_image(self, image: MetadataImage) -> None:
        """Apply the cluster's level of `transaction.version`."""
        self._registry.apply_image(image)

    # Deciders

    def init_producer_id(
        self,
        transactional_id: str,
        request: ProducerRequest,
        now_ms: int,
    ) -> CoordinatorResult[InitializationResult]:
        """Assign a transactional id to its next producer; an open transaction is aborted first.

        Raises KafkaError CONCURRENT_TRANSACTIONS, PRODUCER_FENCED or an error of `check_request`.
        """
        check_request(self._registry.config, transactional_id, request)
        timeout_ms, expected = request.resolved_timeout_ms, request.expected
        transaction = self._registry.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(
                transactional_id,
                self._registry.generate_producer_id(),
                NO_PRODUCER_EPOCH,
                timeout_ms,
            )
        check_producer(transaction, expected)
        if transaction.state is TransactionState.ONGOING:
            prepared = self._registry.abort_and_fence(transaction, now_ms)
            return CoordinatorResult(
                InitializationResult(NO_PRODUCER, ErrorCode.CONCURRENT_TRANSACTIONS),
                [transaction_record(prepared)],
                events=[_fenced_event(transaction, prepared)],
                intents=[markers_of(prepared)],
            )
        initialized = initialize_producer(
            transaction, timeout_ms, expected, self._registry.generate_producer_id, now_ms
        )
        return CoordinatorResult(
            InitializationResult(initialized.producer),
            [transaction_record(initialized)],
            timers=self._expiration.schedule_removal(now_ms),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_transaction_version: int,
        now_ms: int,
    ) -> CoordinatorResult[None]:
        """Add partitions to a producer's transaction, which begins with the first of them.

        Raises KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
        PRODUCER_FENCED or UNSUPPORTED_VERSION.
        """
        changed = add_partitions_to(
            self._registry.get(transactional_id),
            producer,
            frozenset(partitions),
            client_transaction_version,
            now_ms,
        )
        if changed is None:
            return CoordinatorResult(None)
        self._registry.check_writable(transactional_id, client_transaction_version)
        return CoordinatorResult(
            None, [transaction_record(changed)], timers=self._expiration.schedule_abort(now_ms)
        )

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        client_transaction_version: int,
        now_ms: int,
    ) -> CoordinatorResult[ProducerIdAndEpoch]:
        """End a transaction; the response is the producer to use next.

        Before transaction version 2 the response is NO_PRODUCER: id and epoch stay the same. Raises
        KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
        PRODUCER_FENCED, INVALID_TXN_STATE or UNSUPPORTED_VERSION.
        """
        prepared, next_producer = end_transaction(
            self._registry.get(transactional_id),
            producer,
            is_commit=is_commit,
            client_transaction_version=client_transaction_version,
            generate_producer_id=self._registry.generate_producer_id,
            now_ms=now_ms,
        )
        if prepared is None:
            return CoordinatorResult(next_producer)
        self._registry.check_writable(transactional_id, client_transaction_version)
        return CoordinatorResult(
            next_producer, [transaction_record(prepared)], intents=[markers_of(prepared)]
        )

    def complete_transaction(self, intent: WriteMarkers, now_ms: int) -> CoordinatorResult[None]:
        """Complete a transaction whose markers are written, unless it has changed since."""
        transaction = self._registry.transactions.get(intent.transactional_id)
        if transaction is None or not are_markers_of(intent, transaction):
            return CoordinatorResult(None)
        return CoordinatorResult(
            None, [transaction_record(complete_transaction(transaction, now_ms))]
        )

    def fence(
        self, transactional_id: str, cause: str, now_ms: int
    ) -> CoordinatorResult[ProducerIdAndEpoch]:
        """Give an id its next epoch, as for a new producer; an open transaction is aborted.

        The response is the producer with this epoch, which no client has. `cause` names what
        fences. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND, and CONCURRENT_TRANSACTIONS while
        markers are being written.
        """
        transaction = self.describe(transactional_id)
        check_producer(transaction, None)
        if transaction.state is TransactionState.ONGOING:
            fenced = self._registry.abort_and_fence(transaction, now_ms)
            intents, timers = [markers_of(fenced)], []
        else:
            fenced = initialize_producer(
                transaction,
                transaction.timeout_ms,
                None,
                self._registry.generate_producer_id,
                now_ms,
            )
            intents, timers = [], self._expiration.schedule_removal(now_ms)
        event = Event(
            transactional_id,
            "fenced",
            f"producer {transaction.producer_id} of id {transactional_id} fenced at epoch "
            f"{transaction.producer_epoch}: by {cause}",
            {
                "rule": "incident",
                "producer_id": transaction.producer_id,
                "fenced_epoch": transaction.producer_epoch,
                "epoch": fenced.producer_epoch,
            },
            Entity.TRANSACTIONAL_ID,
        )
        return CoordinatorResult(
            fenced.producer,
            [transaction_record(fenced)],
            timers=timers,
            events=[event],
            intents=intents,
        )

    def reset(self, transactional_id: str, now_ms: int) -> CoordinatorResult[bool]:
        """Remove an id because the broker is reset; an open transaction is aborted before.

        The response is whether the id is removed. Otherwise its markers are being written, also
        those that were requested before, and this must be called again when the transaction is
        complete. Raises KafkaError if no producer id is available.
        """
        transaction = self._registry.transactions.get(transactional_id)
        if transaction is None:
            return CoordinatorResult(response=True)
        if transaction.state is TransactionState.ONGOING:
            prepared = self._registry.abort_and_fence(transaction, now_ms)
            return CoordinatorResult(
                False,
                [transaction_record(prepared)],
                events=[_reset_event(transaction, "its transaction is aborted")],
                intents=[markers_of(prepared)],
            )
        if transaction.state in PREPARED_STATES:
            return CoordinatorResult(response=False, intents=[markers_of(transaction)])
        return CoordinatorResult(
            True,
            [transaction_tombstone(transactional_id)],
            events=[_reset_event(transaction, "it is removed")],
        )

    # Queries

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in a producer's transaction.

        Raises KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
        CONCURRENT_TRANSACTIONS.
        """
        return verify_partitions_of(self._registry.get(transactional_id), producer, partitions)

    def describe(self, transactional_id: str) -> Transaction:
        """Return an id's state; raises KafkaError INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            raise empty_id_refusal()
        transaction = self._registry.transactions.get(transactional_id)
        if transaction is None:
            raise refusal(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id, "unknown-id", "unknown here"
            )
        return transaction

    def transactions(self) -> Iterable[Transaction]:
        """Return the state of every id."""
        return self._registry.transactions.values()


def _reset_event(transaction: Transaction, consequence: str) -> Event:
    name = transaction.transactional_id
    return Event(
        name,
        "reset",
        f"the broker was reset: {consequence}",
        {
            "rule": "reset",
            "state": transaction.state.label,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
        },
        Entity.TRANSACTIONAL_ID,
    )


def _fenced_event(transaction: Transaction, prepared: Transaction) -> Event:
    return Event(
        transaction.transactional_id,
        "fenced",
        f"transaction of id {transaction.transactional_id} aborted: its producer "
        f"{transaction.producer_id} is fenced at epoch {transaction.producer_epoch}, "
        "because another producer was initialized with this id",
        {
            "rule": "new-producer",
            "producer_id": transaction.producer_id,
            "fenced_epoch": transaction.producer_epoch,
            "epoch": prepared.producer_epoch,
        },
        Entity.TRANSACTIONAL_ID,
    )
