"""ShareAcknowledge: acknowledgements without a fetch (KIP-932)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kafkalite.apis.shares.acknowledgements import (
    SHARE_ERAS,
    acknowledge,
    fill_in_leaders,
    lock_duration_ms,
    session_key,
)
from kafkalite.apis.shares.groups import check_group_id, check_share_groups_enabled
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.ports.waiting import chain
from kafkalite.protocol._generated.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafkalite.protocol.versions import Versions
from kafkalite.shares.sessions import FINAL_EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.shares.acknowledgements import AcknowledgeResult
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting
    from kafkalite.shares.sessions import SessionKey, TopicPartition

PartitionData = ShareAcknowledgeResponse.PartitionData


def handle_share_acknowledge(
    call: Call, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Waiting[ShareAcknowledgeResponse]:
    """Acknowledge records; the final epoch also ends the session and releases its records."""
    node = call.node
    check_share_groups_enabled(node)
    key = session_key(request)
    sessions = node.share_partitions.sessions(node.id)
    sessions.begin_acknowledge(key, request.share_session_epoch)
    return chain(
        acknowledge(call, request, request.topics, key),
        lambda results: _response(call, request, key, results),
    )


def _response(
    call: Call,
    request: ShareAcknowledgeRequest,
    key: SessionKey,
    results: Mapping[TopicPartition, AcknowledgeResult],
) -> ShareAcknowledgeResponse:
    node = call.node
    if request.share_session_epoch == FINAL_EPOCH:
        node.share_partitions.end_session(node.id, key)
    rows = [
        (
            partition.topic_id,
            PartitionData(
                partition_index=partition.index,
                error_code=result.code,
                error_message=result.message,
            ),
        )
        for partition, result in sorted(results.items())
    ]
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_duration_ms(node, key.group_id),
        node_endpoints=[
            ShareAcknowledgeResponse.NodeEndpoint(
                node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in fill_in_leaders(node, call.listener, rows)
        ],
        responses=[
            ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(
                topic_id=topic_id, partitions=[row for _, row in topic_rows]
            )
            for topic_id, topic_rows in groupby(rows, key=lambda row: row[0])
        ],
    )


APIS = (
    Api(
        key=ShareAcknowledgeRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(1, 2),
        handler=handle_share_acknowledge,
        check_first=check_group_id,
        eras=SHARE_ERAS,
    ),
)
