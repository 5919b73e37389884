"""ShareAcknowledge: what became of records, when there is nothing to fetch with it (KIP-932)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.apis.share_acks import (
    SHARE_ERAS,
    acknowledge,
    lock_ms,
    session_key,
    tell_leaders,
)
from kafkalite.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafkalite.protocol.versions import Versions
from kafkalite.shares.sessions import FINAL_EPOCH

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.error_codes import ErrorCode

PartitionData = ShareAcknowledgeResponse.PartitionData


def handle_share_acknowledge(
    context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Settle records; with the last epoch also end the session, and take back what is left."""
    services = context.services
    key = session_key(request)
    sessions = services.share_partitions.sessions(context.node_id)
    sessions.begin_acknowledge(key, request.share_session_epoch)
    outcomes = acknowledge(context, request, request.topics, key)
    if request.share_session_epoch == FINAL_EPOCH:
        services.share_partitions.end_session(context.node_id, key)
    rows = [
        (
            partition.topic_id,
            PartitionData(
                partition_index=partition.index,
                error_code=outcome.code,
                error_message=outcome.message,
            ),
        )
        for partition, outcome in sorted(outcomes.items())
    ]
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms(services, key.group_id),
        node_endpoints=[
            ShareAcknowledgeResponse.NodeEndpoint(
                node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in tell_leaders(services, context.listener, rows)
        ],
        responses=[
            ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(
                topic_id=topic_id, partitions=[row for _, row in same]
            )
            for topic_id, same in groupby(rows, key=lambda row: row[0])
        ],
    )


def refuse_share_acknowledge(
    request: ShareAcknowledgeRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - Kafka says none here
) -> ShareAcknowledgeResponse:
    """Say one error for the whole request."""
    return ShareAcknowledgeResponse(error_code=code)


APIS = (
    Api(
        key=ShareAcknowledgeRequest.API_KEY,
        versions=Versions(1, 2),
        handler=handle_share_acknowledge,
        refuse=refuse_share_acknowledge,
        eras=SHARE_ERAS,
    ),
)
