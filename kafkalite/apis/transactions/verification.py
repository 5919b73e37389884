"""Verification: leaders ask the transaction coordinator before they append transactional records.

They ask only if the transaction is not yet open on the partition, and once for all partitions of a
request (KIP-890). While the previous transaction is being completed, they ask again for a tenth of
a second, so that the client does not have to retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kafkalite.cluster.node import NodeState
from kafkalite.gateway.deferred_request import DeferredRequest
from kafkalite.gateway.refusals import report_refusal
from kafkalite.partitions.producing import VerificationResult
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import ProducerIdAndEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.waiting import Waiting
    from kafkalite.storage.batch import BatchView
    from kafkalite.transactions.state import TopicPartition

T = TypeVar("T")

_COORDINATOR_ERRORS = {
    # Since KIP-588 partition leaders return this error, after which a producer can continue.
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # Producers expect these errors only from coordinators; all retry after NOT_ENOUGH_REPLICAS.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
_COORDINATOR_ERRORS_BEFORE_ADDING = {
    **_COORDINATOR_ERRORS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
}
_COORDINATOR_ERRORS_BEFORE_ABORTABLE = {
    **_COORDINATOR_ERRORS_BEFORE_ADDING,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
}

# Applications see these messages, so they are the same as Kafka's.
_MESSAGES = {
    ErrorCode.INVALID_TXN_STATE: "Partition was not added to the transaction",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "Unable to verify the partition has been added to the transaction. Underlying error: {}"
    ),
}


VERIFICATION_KEY: Final = "transaction.partition.verification.enable"
"""The setting that lets leaders ask about partitions that clients add themselves."""


class VerificationEra(NamedTuple):
    """Traits of a range of Produce versions: how partitions are added, and the known errors."""

    adds_partitions: bool
    """Writing to a partition adds it to the transaction."""
    substitutes: Mapping[ErrorCode, ErrorCode]
    """Error of the coordinator → error for a client of these versions."""


# KIP-890: its first part added TRANSACTION_ABORTABLE; with its second, writes add partitions.
BEFORE_ABORTABLE = VerificationEra(
    adds_partitions=False, substitutes=_COORDINATOR_ERRORS_BEFORE_ABORTABLE
)
KNOWS_ABORTABLE = VerificationEra(
    adds_partitions=False, substitutes=_COORDINATOR_ERRORS_BEFORE_ADDING
)
ADDS_PARTITIONS = VerificationEra(adds_partitions=True, substitutes=_COORDINATOR_ERRORS)


def verify(
    call: Call,
    transactional_id: str,
    batches: Sequence[tuple[Partition, BatchView]],
    era: VerificationEra,
) -> VerificationResult:
    """Ask the coordinator which partitions the transactional batches may be written to.

    Raises KafkaError INVALID_PRODUCER_ID_MAPPING if they have more than one producer.
    """
    producers = {(batch.producer_id, batch.producer_epoch) for _, batch in batches}
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    node = call.node
    if not (era.adds_partitions or node.config.bool(VERIFICATION_KEY)):
        return VerificationResult(frozenset(partition for partition, _ in batches), {})
    unverified, refusals = _start_verification(call, transactional_id, batches, era)
    is_concurrent = False
    if unverified:
        producer = ProducerIdAndEpoch(*producers.pop())
        codes: Mapping[TopicPartition, ErrorCode]
        if node.state is NodeState.ISOLATED:
            codes = dict.fromkeys(unverified, ErrorCode.NETWORK_EXCEPTION)
        else:
            codes = node.transactions.verify_or_add_partitions(
                transactional_id, producer, tuple(unverified), adds_missing=era.adds_partitions
            )
        refusals |= {
            unverified[partition]: _client_error(code, era)
            for partition, code in codes.items()
            if code
        }
        is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
    return VerificationResult(
        frozenset(unverified.values()) - refusals.keys(), refusals, is_concurrent
    )


class VerificationRetries(Generic[T]):
    """Repeats a request whose producer has a previous transaction that is being completed.

    As in Kafka, there are further attempts until the longest backoff has passed.
    """

    __slots__ = ("_attempt", "_backoff_ms", "_deferred", "_node", "_remaining_ms")

    def __init__(
        self, call: Call, attempt: Callable[[VerificationRetries[T]], T | Waiting[T]]
    ) -> None:
        """Prepare the attempts; `attempt(self)` returns `wait_again()` unless `is_last`."""
        config = call.node.config
        self._node = call.node
        self._attempt = attempt
        self._backoff_ms = config.int("add.partitions.to.txn.retry.backoff.ms")
        self._remaining_ms = min(
            config.int("add.partitions.to.txn.retry.backoff.max.ms"),
            config.int("request.timeout.ms"),
        )
        self._deferred: DeferredRequest[T] = DeferredRequest(self._try_again)

    @property
    def is_last(self) -> bool:
        """Whether there is no attempt after the current one."""
        return self._remaining_ms <= 0

    def begin(self, size_bytes: int) -> Waiting[T] | None:
        """Return a Waiting for the answer of a later attempt; None if there is no such attempt.

        There is none while waiting requests use all the memory that they may use.
        """
        budget = self._node.verification_budget
        if self.is_last or not self._deferred.take_memory(budget, size_bytes):
            return None
        return self.wait_again()

    def wait_again(self) -> Waiting[T]:
        """Wait for the next attempt; return a Waiting for the answer of the last one."""
        # The client waits, so the time of the machine counts while the clock is paused.
        clock = self._node.clock
        timer = clock.wait_at(clock.now_ms() + self._backoff_ms, self._deferred.resume)
        self._deferred.wait(timer.cancel)
        return self._deferred.waiting

    def _try_again(self, _: DeferredRequest[T]) -> T | Waiting[T]:
        self._remaining_ms -= self._backoff_ms
        return self._attempt(self)


def _start_verification(
    call: Call,
    transactional_id: str,
    batches: Sequence[tuple[Partition, BatchView]],
    era: VerificationEra,
) -> tuple[dict[TopicPartition, Partition], dict[Partition, KafkaError]]:
    """Return the partitions to ask the coordinator about, and the errors of refused ones."""
    unverified: dict[TopicPartition, Partition] = {}
    refusals: dict[Partition, KafkaError] = {}
    node_id, now_ms = call.node.id, call.node.clock.now_ms()
    for partition, batch in batches:
        view = partition.views.get(node_id) if partition.leader != node_id else None
        if partition.leader != node_id and (view is None or not view.accepts_records):
            continue
        try:
            if view is None:
                must_ask = partition.log.producers.start_verification(
                    batch, adds_partitions=era.adds_partitions, now_ms=now_ms
                )
            else:
                must_ask = not view.is_in_transaction(batch)
        except KafkaError as error:
            if not refusals:
                reported = KafkaError(error.code, error.message, {"partition": partition.name})
                report_refusal(
                    call, "Produce", transactional_id, reported, kind=Entity.TRANSACTIONAL_ID
                )
            refusals[partition] = KafkaError(error.code)
        else:
            if must_ask:
                unverified[partition.topic_name, partition.index] = partition
    return unverified, refusals


def _client_error(code: ErrorCode, era: VerificationEra) -> KafkaError:
    client_code = era.substitutes.get(code, code)
    message = _MESSAGES.get(client_code)
    return KafkaError(client_code, None if message is None else message.format(code.name))
