"""Requests between brokers that read and write the state of share partitions (KIP-932).

The nodes of a cluster send them to each other; tools can send them too. Each partition of a request
has its own result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, MAX_ELEMENTS_WITH_OWN_LIMITS, Api
from kafkalite.gateway.refusals import report_refusal
from kafkalite.protocol._generated.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from kafkalite.protocol._generated.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kafkalite.protocol._generated.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from kafkalite.protocol._generated.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kafkalite.protocol._generated.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions
from kafkalite.shares.state import ShareKey, StateBatch, StateChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.call import Call
    from kafkalite.shares.coordinator import ShareCoordinator

_MAX_REPORTED = 10
"""Maximum number of refusals of one request that are added to the history."""


def _handle_partitions(
    call: Call,
    request: Any,  # noqa: ANN401 - five message classes with the same fields
    handle_partition: Callable[[ShareCoordinator, ShareKey, Any], Any],
    partition_result: Callable[..., Any],
) -> list[tuple[bytes, list[Any]]]:
    """Handle each partition of a request; return the results by topic id."""
    if not request.group_id:
        return []
    coordinator = call.node.shares
    results: dict[bytes, list[Any]] = {}
    reported = 0
    for topic in request.topics:
        for row in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, row.partition)
            try:
                _check_leads(call, key)
                result = handle_partition(coordinator, key, row)
            except KafkaError as error:
                if reported < _MAX_REPORTED:
                    reported += 1
                    _report(call, request, key, error)
                result = partition_result(
                    partition=row.partition,
                    error_code=error.code,
                    error_message=error.message or error.code.message,
                )
            results.setdefault(topic.topic_id, []).append(result)
    return list(results.items())


def _report(call: Call, request: object, key: ShareKey, error: KafkaError) -> None:
    """Report the refusal of a partition in a client's request.

    Refusals of calls between nodes are reported by the calling node, under the request of its
    client.
    """
    if call.sender is not None:
        return
    partition = f"{uuid_to_text(key.topic_id)}-{key.partition}"
    with_partition = KafkaError(error.code, error.message, {"topic_partition": partition})
    api = type(request).__name__.removesuffix("Request")
    report_refusal(call, api, key.group_id, with_partition, request)


def _check_leads(call: Call, key: ShareKey) -> None:
    """Raise KafkaError NOT_COORDINATOR unless this node leads the partition of the share state."""
    call.node.shares.locate(key.text, call.node.id)


def handle_initialize_share_group_state(
    call: Call, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Initialize the state of partitions."""
    result = InitializeShareGroupStateResponse.PartitionResult

    def handle_partition(
        coordinator: ShareCoordinator,
        key: ShareKey,
        row: InitializeShareGroupStateRequest.PartitionData,
    ) -> InitializeShareGroupStateResponse.PartitionResult:
        coordinator.initialize_state(
            *key, state_epoch=row.state_epoch, start_offset=row.start_offset
        )
        return result(partition=key.partition)

    return InitializeShareGroupStateResponse(
        results=[
            InitializeShareGroupStateResponse.InitializeStateResult(
                topic_id=topic_id, partitions=rows
            )
            for topic_id, rows in _handle_partitions(call, request, handle_partition, result)
        ]
    )


def handle_read_share_group_state(
    call: Call, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    """Return the state of partitions, and fence leaders with older epochs."""
    result = ReadShareGroupStateResponse.PartitionResult

    def handle_partition(
        coordinator: ShareCoordinator,
        key: ShareKey,
        row: ReadShareGroupStateRequest.PartitionData,
    ) -> ReadShareGroupStateResponse.PartitionResult:
        state = coordinator.read_state(key, row.leader_epoch)
        return result(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                ReadShareGroupStateResponse.StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in state.batches
            ],
        )

    return ReadShareGroupStateResponse(
        results=[
            ReadShareGroupStateResponse.ReadStateResult(topic_id=topic_id, partitions=rows)
            for topic_id, rows in _handle_partitions(call, request, handle_partition, result)
        ]
    )


def handle_write_share_group_state(
    call: Call, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Add batches to the state of partitions."""
    result = WriteShareGroupStateResponse.PartitionResult

    def handle_partition(
        coordinator: ShareCoordinator,
        key: ShareKey,
        row: WriteShareGroupStateRequest.PartitionData,
    ) -> WriteShareGroupStateResponse.PartitionResult:
        batches = tuple(
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in row.state_batches
        )
        change = StateChange(
            row.state_epoch,
            row.leader_epoch,
            row.start_offset,
            row.delivery_complete_count,
            batches,
        )
        coordinator.write_state(key, change)
        return result(partition=key.partition)

    if any(not topic.partitions for topic in request.topics):
        # As in Kafka, one topic without partitions makes the response empty.
        return WriteShareGroupStateResponse()
    return WriteShareGroupStateResponse(
        results=[
            WriteShareGroupStateResponse.WriteStateResult(topic_id=topic_id, partitions=rows)
            for topic_id, rows in _handle_partitions(call, request, handle_partition, result)
        ]
    )


def handle_delete_share_group_state(
    call: Call, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Delete the state of partitions."""
    result = DeleteShareGroupStateResponse.PartitionResult

    def handle_partition(
        coordinator: ShareCoordinator,
        key: ShareKey,
        _: DeleteShareGroupStateRequest.PartitionData,
    ) -> DeleteShareGroupStateResponse.PartitionResult:
        coordinator.delete_state(*key)
        return result(partition=key.partition)

    return DeleteShareGroupStateResponse(
        results=[
            DeleteShareGroupStateResponse.DeleteStateResult(topic_id=topic_id, partitions=rows)
            for topic_id, rows in _handle_partitions(call, request, handle_partition, result)
        ]
    )


def handle_read_share_group_state_summary(
    call: Call, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Return a summary of the state of partitions."""
    result = ReadShareGroupStateSummaryResponse.PartitionResult

    def handle_partition(
        coordinator: ShareCoordinator,
        key: ShareKey,
        _: ReadShareGroupStateSummaryRequest.PartitionData,
    ) -> ReadShareGroupStateSummaryResponse.PartitionResult:
        summary = coordinator.summary(*key)
        return result(
            partition=key.partition,
            state_epoch=summary.state_epoch,
            leader_epoch=summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.delivery_complete_count,
        )

    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadShareGroupStateSummaryResponse.ReadStateSummaryResult(
                topic_id=topic_id, partitions=rows
            )
            for topic_id, rows in _handle_partitions(call, request, handle_partition, result)
        ]
    )


APIS = (
    Api(
        key=InitializeShareGroupStateRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_initialize_share_group_state,
    ),
    Api(
        key=ReadShareGroupStateRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_read_share_group_state,
    ),
    Api(
        key=WriteShareGroupStateRequest.API_KEY,
        max_elements=MAX_ELEMENTS_WITH_OWN_LIMITS,
        versions=Versions(0, 1),
        handler=handle_write_share_group_state,
    ),
    Api(
        key=DeleteShareGroupStateRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_delete_share_group_state,
    ),
    Api(
        key=ReadShareGroupStateSummaryRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 1),
        handler=handle_read_share_group_state_summary,
    ),
)
