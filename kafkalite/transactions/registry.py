"""TransactionRegistry: what a shard keeps of transactional ids; replaying alone changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.ending import rolled_back
from kafkalite.transactions.records import written_version
from kafkalite.transactions.refusing import no_id, refusal, unknown_id
from kafkalite.transactions.state import Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataImage


class TransactionRegistry:
    """The transactional ids of one shard, and what all who decide about them need."""

    __slots__ = ("config", "draw_producer_id", "level", "open", "transactions")

    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: MetadataImage,
        draw_producer_id: Callable[[], int],
    ) -> None:
        self.config = config
        self.draw_producer_id = draw_producer_id
        self.transactions: dict[str, Transaction] = {}
        self.open: dict[str, None] = {}
        """Ids in Ongoing, in the order in which their transactions began."""
        self.see(image)

    def see(self, image: MetadataImage) -> None:
        """Follow the level of `transaction.version` that the cluster has agreed on."""
        self.level = image.features.get(TRANSACTION_VERSION, 0)

    # For deciders

    def known(self, transactional_id: str) -> Transaction:
        """Return what is kept of an id.

        KafkaError INVALID_PRODUCER_ID_MAPPING, or INVALID_REQUEST for one that is empty.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise unknown_id(transactional_id) if transactional_id else no_id()
        return transaction

    def check_writable(self, transactional_id: str, client_transaction_version: int) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION for a client that the log has no place for.

        Its older form does not hold by which version a transaction was begun. Kafka finds that out
        last, and then waits for ever for what it could not write; here nothing has happened.
        """
        if client_transaction_version and not written_version(self.level):
            raise refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                transactional_id,
                "transaction-version",
                f"transaction.version is {self.level}, "
                f"too low for clients of version {client_transaction_version}",
                level=self.level,
                client_version=client_transaction_version,
            )

    def rolled_back(self, transaction: Transaction, now_ms: int) -> Transaction:
        """Return an open transaction as the coordinator itself aborts it."""
        return rolled_back(
            transaction,
            transaction_version=self.level,
            draw_producer_id=self.draw_producer_id,
            now_ms=now_ms,
        )

    # Replaying

    def replay_transaction(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record true; a null value is a tombstone."""
        transactional_id, transaction = record
        assert isinstance(transactional_id, str)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            self.open.pop(transactional_id, None)
            return
        assert isinstance(transaction, Transaction)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.open[transactional_id] = None
        else:
            self.open.pop(transactional_id, None)
