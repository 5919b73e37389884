"""Produce: appends batches to partitions (KIP-98, KIP-467, KIP-516, KIP-890, KIP-951)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.apis.transactions.verification import (
    ADDS_PARTITIONS,
    BEFORE_ABORTABLE,
    KNOWS_ABORTABLE,
    VerificationRetries,
    verify,
)
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import report_refusal
from kafkalite.partitions.producing import (
    ACKS_NONE,
    ProduceEra,
    may_take_long,
    partition_answers,
    produce,
)
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.message import copy_views
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.producing import VerificationResult
    from kafkalite.storage.batch import BatchView


_FIRST_ERA = ProduceEra(allows_zstd=True, uses_topic_ids=False, verification=BEFORE_ABORTABLE)
PRODUCE_ERAS = Eras(
    # Kafka does not check the records of clients before KIP-98.
    (0, replace(_FIRST_ERA, accepts_message_sets=True)),
    # KIP-110: clients before v7 cannot read zstd, so they must not write it either.
    (3, replace(_FIRST_ERA, allows_zstd=False)),
    (7, _FIRST_ERA),
    (11, replace(_FIRST_ERA, verification=KNOWS_ABORTABLE)),  # KIP-890
    (12, replace(_FIRST_ERA, verification=ADDS_PARTITIONS)),
    (13, replace(_FIRST_ERA, verification=ADDS_PARTITIONS, uses_topic_ids=True)),  # KIP-516
)


def handle_produce(
    call: Call,
    request: ProduceRequest,
    retries: VerificationRetries[ProduceResponse | None] | None = None,
) -> ProduceResponse | Waiting[ProduceResponse | None] | None:
    """Append batches, and return their offsets; None for acks=0.

    `retries` has called the handler again, because the previous transaction of the producer was
    being completed.

    With acks=0 an error closes the connection, as in Kafka, because there is no response. Raises
    KafkaError for a request that is refused as a whole.
    """
    try:
        answer = produce(call, request, lambda: _Transaction(call, request, retries))
    except KafkaError as error:
        if request.acks == ACKS_NONE:
            raise violation_without_acks(error.code) from error
        raise
    if request.acks != ACKS_NONE or isinstance(answer, Waiting):
        return answer
    for row in partition_answers(answer):
        if row.error_code:
            raise violation_without_acks(ErrorCode(row.error_code))
    return None


class _Transaction:
    """The transaction of the producer of a request: see `ProducerTransaction`."""

    __slots__ = ("_call", "_request", "_retries", "_transactional_id")

    def __init__(
        self,
        call: Call,
        request: ProduceRequest,
        retries: VerificationRetries[ProduceResponse | None] | None,
    ) -> None:
        self._call = call
        self._request = request
        self._retries = retries
        self._transactional_id = request.transactional_id or ""

    def verify(self, batches: Sequence[tuple[Partition, BatchView]]) -> VerificationResult:
        """Ask the coordinator which partitions the batches may be written to."""
        return verify(self._call, self._transactional_id, batches, self._call.era.verification)

    def wait_for_previous(self) -> Waiting[ProduceResponse | None] | None:
        """Return a Waiting for the answer of a later attempt; None after the last attempt.

        A long request has one attempt only, because a later one would be handled without a worker
        and block others. Its client sends it again.
        """
        call, request, retries = self._call, self._request, self._retries
        if retries is not None:
            return None if retries.is_last else retries.wait_again()
        if call.may_pause:
            return None
        retries = VerificationRetries(call, partial(handle_produce, call, request))
        waiting = retries.begin(_size_of_records(request))
        if waiting is not None:
            copy_views(request)
        return waiting

    def report(self, error: KafkaError) -> None:
        """Report that a batch was refused."""
        report_refusal(
            self._call, "Produce", self._transactional_id, error, kind=Entity.TRANSACTIONAL_ID
        )


def _size_of_records(request: ProduceRequest) -> int:
    return sum(
        len(data.records or b"") for topic in request.topic_data for data in topic.partition_data
    )


def violation_without_acks(code: ErrorCode) -> ProtocolViolation:
    """Return the violation that closes the connection of a refused request without an answer."""
    return ProtocolViolation(f"produce with acks=0 failed: {code.name}")


APIS = (
    Api(
        key=ProduceRequest.API_KEY,
        versions=Versions(3, 13),
        handler=handle_produce,
        inline_bytes=32 * 1024,
        is_inline_with_short_lists=True,
        may_take_long=may_take_long,
        eras=PRODUCE_ERAS,
    ),
)
