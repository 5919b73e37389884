"""The requests by which brokers keep the state of share partitions (KIP-932).

Here nodes share their state and need not ask each other, but clients are shown these requests by
Kafka, and tools send them. Each partition of a request is answered for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.contract import Api
from kafkalite.apis.refusals import note_refusal
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from kafkalite.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kafkalite.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from kafkalite.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kafkalite.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions
from kafkalite.shares.state import ShareKey, StateBatch, StateChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.shares.coordinator import ShareCoordinator

_MOST_NOTED = 10
"""Refusals of one request that are kept for whoever asks why."""


def _each(
    context: RequestContext,
    request: Any,  # noqa: ANN401 - five families of messages that differ in names alone
    answer: Callable[[ShareCoordinator, ShareKey, Any], Any],
    failed: Callable[..., Any],
) -> list[tuple[bytes, list[Any]]]:
    """Answer each partition of a request; by topic, those of one that is named twice together."""
    if not request.group_id:
        return []
    coordinator = context.services.shares
    found: dict[bytes, list[Any]] = {}
    noted = 0
    for topic in request.topics:
        for row in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, row.partition)
            try:
                _check_leads(context, key)
                result = answer(coordinator, key, row)
            except KafkaError as error:
                if noted < _MOST_NOTED:
                    noted += 1
                    _note(context, request, key, error)
                result = failed(
                    partition=row.partition,
                    error_code=error.code,
                    error_message=error.message or error.code.message,
                )
            found.setdefault(topic.topic_id, []).append(result)
    return list(found.items())


def _note(context: RequestContext, request: object, key: ShareKey, error: KafkaError) -> None:
    """Keep why a partition of a request was refused, for whoever asks."""
    partition = f"{uuid_to_text(key.topic_id)}-{key.partition}"
    told = KafkaError(error.code, error.message, {"topic_partition": partition})
    api = type(request).__name__.removesuffix("Request")
    note_refusal(context, api, key.group_id, told, request)


def _check_leads(context: RequestContext, key: ShareKey) -> None:
    """Raise KafkaError NOT_COORDINATOR unless this node speaks for the state's partition."""
    context.services.shares.locate(key.text, context.node_id)


def handle_initialize_share_group_state(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Begin the state of partitions."""
    result = InitializeShareGroupStateResponse.PartitionResult

    def answer(
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
            for topic_id, rows in _each(context, request, answer, result)
        ]
    )


def handle_read_share_group_state(
    context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    """Tell the state of partitions, and fence their leaders of older epochs."""
    result = ReadShareGroupStateResponse.PartitionResult

    def answer(
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
            for topic_id, rows in _each(context, request, answer, result)
        ]
    )


def handle_write_share_group_state(
    context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Add to the state of partitions."""
    result = WriteShareGroupStateResponse.PartitionResult

    def answer(
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
        # As in Kafka, one topic without partitions makes the whole request say nothing.
        return WriteShareGroupStateResponse()
    return WriteShareGroupStateResponse(
        results=[
            WriteShareGroupStateResponse.WriteStateResult(topic_id=topic_id, partitions=rows)
            for topic_id, rows in _each(context, request, answer, result)
        ]
    )


def handle_delete_share_group_state(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Forget the state of partitions."""
    result = DeleteShareGroupStateResponse.PartitionResult

    def answer(
        coordinator: ShareCoordinator,
        key: ShareKey,
        _: DeleteShareGroupStateRequest.PartitionData,
    ) -> DeleteShareGroupStateResponse.PartitionResult:
        coordinator.delete_state(*key)
        return result(partition=key.partition)

    return DeleteShareGroupStateResponse(
        results=[
            DeleteShareGroupStateResponse.DeleteStateResult(topic_id=topic_id, partitions=rows)
            for topic_id, rows in _each(context, request, answer, result)
        ]
    )


def handle_read_share_group_state_summary(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Tell where partitions stand."""
    result = ReadShareGroupStateSummaryResponse.PartitionResult

    def answer(
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
            for topic_id, rows in _each(context, request, answer, result)
        ]
    )


def _refuse(response: Any, topic_result: Any) -> Callable[..., Any]:  # noqa: ANN401 - see _each
    """Return what says one error of every partition asked for."""

    def refuse(request: Any, code: ErrorCode, message: str | None) -> Any:  # noqa: ANN401
        return response(
            results=[
                topic_result(
                    topic_id=topic.topic_id,
                    partitions=[
                        response.PartitionResult(
                            partition=row.partition, error_code=code, error_message=message
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return refuse


APIS = (
    Api(
        key=InitializeShareGroupStateRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_initialize_share_group_state,
        refuse=_refuse(
            InitializeShareGroupStateResponse,
            InitializeShareGroupStateResponse.InitializeStateResult,
        ),
    ),
    Api(
        key=ReadShareGroupStateRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_read_share_group_state,
        refuse=_refuse(ReadShareGroupStateResponse, ReadShareGroupStateResponse.ReadStateResult),
    ),
    Api(
        key=WriteShareGroupStateRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_write_share_group_state,
        refuse=_refuse(WriteShareGroupStateResponse, WriteShareGroupStateResponse.WriteStateResult),
    ),
    Api(
        key=DeleteShareGroupStateRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_delete_share_group_state,
        refuse=_refuse(
            DeleteShareGroupStateResponse, DeleteShareGroupStateResponse.DeleteStateResult
        ),
    ),
    Api(
        key=ReadShareGroupStateSummaryRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_read_share_group_state_summary,
        refuse=_refuse(
            ReadShareGroupStateSummaryResponse,
            ReadShareGroupStateSummaryResponse.ReadStateSummaryResult,
        ),
    ),
)
