"""TransactionRegistry: the states of all transactional ids of a shard; only replay changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.end import abort_and_fence
from kafkalite.transactions.refusals import empty_id_refusal, refusal, unknown_id_refusal
from kafkalite.transactions.state import Transaction, TransactionState
from kafkalite.transactions.transaction_records import written_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataImage


class TransactionRegistry:
    """The transactional ids of one shard, with settings and checks for decisions."""

    __slots__ = (
        "config",
        "generate_producer_id",
        "open_ids",
        "transaction_version",
        "transactions",
    )

    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: MetadataImage,
        generate_producer_id: Callable[[], int],
    ) -> None:
        self.config = config
        self.generate_producer_id = generate_producer_id
        self.transactions: dict[str, Transaction] = {}
        self.open_ids: dict[str, None] = {}
        """Ids in state Ongoing, in the order in which their transactions began."""
        self.apply_image(image)

    def apply_image(self, image: MetadataImage) -> None:
        """Apply the cluster's level of `transaction.version`."""
        self.transaction_version = image.features.get(TRANSACTION_VERSION, 0)

    # For deciders

    def get(self, transactional_id: str) -> Transaction:
        """Return the state of an id.

        Raises KafkaError INVALID_PRODUCER_ID_MAPPING, or INVALID_REQUEST for an empty id.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise unknown_id_refusal(transactional_id) if transactional_id else empty_id_refusal()
        return transaction

    def check_writable(self, transactional_id: str, client_transaction_version: int) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION for a client whose version the log cannot store.

        The older record format does not have the client's transaction version. Kafka detects that
        only when it writes, and then waits forever; here nothing has changed yet.
        """
        if client_transaction_version and not written_version(self.transaction_version):
            raise refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                transactional_id,
                "transaction-version",
                f"transaction.version is {self.transaction_version}, "
                f"too low for clients of version {client_transaction_version}",
                level=self.transaction_version,
                client_version=client_transaction_version,
            )

    def abort_and_fence(self, transaction: Transaction, now_ms: int) -> Transaction:
        """Return the PrepareAbort state of an open transaction; see `end.abort_and_fence`."""
        return abort_and_fence(
            transaction,
            transaction_version=self.transaction_version,
            generate_producer_id=self.generate_producer_id,
            now_ms=now_ms,
        )

    # Replaying

    def replay_transaction(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record; a null value is a tombstone."""
        transactional_id, transaction = record
        assert isinstance(transactional_id, str)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            self.open_ids.pop(transactional_id, None)
            return
        assert isinstance(transaction, Transaction)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.open_ids[transactional_id] = None
        else:
            self.open_ids.pop(transactional_id, None)
