"""DescribeTransactions and ListTransactions: transactional ids, for administrators.

KIP-664. ListTransactions has filters by duration (KIP-994) and by an expression for ids (KIP-1152).
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.apis.transactions.transactional_producers import shard_of
from kafkalite.gateway.api import Api
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.groups.consumer.regex import compile_regex
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.describe_transactions import (
    DescribeTransactionsResponse,
)
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsResponse
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.gateway.call import Call
    from kafkalite.protocol._generated.messages.describe_transactions import (
        DescribeTransactionsRequest,
    )
    from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
    from kafkalite.transactions.state import TopicPartition, Transaction

Described = DescribeTransactionsResponse.TransactionState
Listed = ListTransactionsResponse.TransactionState

_STATES = {state.label: state for state in TransactionState}


def handle_describe_transactions(
    call: Call, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe transactional ids; each succeeds or fails on its own."""
    states = []
    duplicate_limit = DuplicateLimit()
    for index, transactional_id in enumerate(request.transactional_ids):
        try:
            duplicate_limit.check(transactional_id)
            shard = shard_of(call, transactional_id)
            states.append(_description(shard.machine.describe(transactional_id)))
        except KafkaError as error:
            if index < MAX_REPORTED:
                kind = Entity.TRANSACTIONAL_ID
                report_refusal(call, "DescribeTransactions", transactional_id, error, kind=kind)
            states.append(Described(transactional_id=transactional_id, error_code=error.code))
    return DescribeTransactionsResponse(transaction_states=states)


def _description(transaction: Transaction) -> Described:
    return Described(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=_by_topic(transaction.partitions),
    )


def _by_topic(
    partitions: Iterable[TopicPartition],
) -> list[DescribeTransactionsResponse.TopicData]:
    return [
        DescribeTransactionsResponse.TopicData(
            topic=topic, partitions=[index for _, index in topic_partitions]
        )
        for topic, topic_partitions in groupby(sorted(partitions), key=itemgetter(0))
    ]


def handle_list_transactions(
    call: Call, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List the ids that this node coordinates and that match all filters."""
    matches_filters = _build_filter(call.node.clock.now_ms(), request)
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in _STATES
        ],
        transaction_states=[
            Listed(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for shard in call.node.transactions.shards_led_by(call.node.id)
            for transaction in in_steps(list(shard.machine.transactions()))
            if matches_filters(transaction)
        ],
    )


def _build_filter(now_ms: int, request: ListTransactionsRequest) -> Callable[[Transaction], bool]:
    """Return a predicate for the filters; raises KafkaError INVALID_REGULAR_EXPRESSION.

    Unknown states match nothing. An id without a transaction counts as an id whose transaction
    began long ago.
    """
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = frozenset(request.producer_id_filters)
    min_duration_ms = request.duration_filter
    pattern = request.transactional_id_pattern
    match_id = compile_regex(pattern).fullmatch if pattern else None

    def matches_filters(transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not request.state_filters or transaction.state in states)
            and (min_duration_ms < 0 or now_ms - transaction.start_timestamp_ms > min_duration_ms)
            and (match_id is None or match_id(transaction.transactional_id) is not None)
        )

    return matches_filters


APIS = (
    Api(
        key=ApiKey.DESCRIBE_TRANSACTIONS,
        versions=Versions(0, 0),
        handler=handle_describe_transactions,
        inline_bytes=0,
    ),
    Api(
        key=ApiKey.LIST_TRANSACTIONS,
        other_pausing_lists=frozenset(("state_filters", "producer_id_filters")),
        versions=Versions(0, 2),
        handler=handle_list_transactions,
        inline_bytes=0,
    ),
)
