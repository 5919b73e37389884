"""DeleteRecords: the start of a log, moved up to an offset (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext

_NO_WATERMARK = -1


def handle_delete_records(
    context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete what lies below each offset, and say where each log starts now.

    Of a partition that is named twice, what is said last counts.
    """
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        for asked in topic.partitions:
            offsets[asked.partition_index] = asked.offset
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name,
                partitions=[_delete(context, name, *one) for one in offsets.items()],
            )
            for name, offsets in wanted.items()
        ]
    )
    try:
        # Records that were deleted must not come back after a crash.
        context.services.partitions.checkpoint()
    except OSError:
        # Nobody reads them any more, but whether they are gone for good is not known: a client
        # that is told so asks again, and then the next checkpoint says it for both.
        _take_back(response)
    return response


def _take_back(response: DeleteRecordsResponse) -> None:
    """Let no partition be answered as if its deletion were safe."""
    for topic in response.topics:
        topic.partitions = [
            answer
            if answer.error_code
            else _refused(answer.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
            for answer in topic.partitions
        ]


def _delete(
    context: RequestContext, topic_name: str, index: int, offset: int
) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    topic = context.services.partitions.topic(topic_name)
    try:
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.is_internal:
            return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.admit(context.node_id)
        low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        return _refused(index, error.code)
    except OSError:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark
    )


def _refused(index: int, code: ErrorCode) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    return DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=_NO_WATERMARK, error_code=code
    )


def refuse_delete_records(
    request: DeleteRecordsRequest,
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> DeleteRecordsResponse:
    """Say one error for every partition of a request."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_refused(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


APIS = (
    Api(
        key=DeleteRecordsRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_delete_records,
        refuse=refuse_delete_records,
    ),
)
