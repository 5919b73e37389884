"""InitProducerId: a number for every producer that wants its batches counted (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext

_NONE = -1


def handle_init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give an idempotent producer an id of its own, at epoch 0.

    A transactional producer is refused with the one error that every client takes as final:
    transactions are not served, and retrying will not change that.
    """
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
    services = context.services
    node_id = context.node_id
    producer_id = services.partitions.producer_ids.draw(
        node_id, lambda: services.metadata.allocate_producer_ids(node_id)
    )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def refuse_init_producer_id(
    request: InitProducerIdRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,  # noqa: ARG001
) -> InitProducerIdResponse:
    """Say an error, and that there is no producer id."""
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


APIS = (
    Api(
        key=InitProducerIdRequest.API_KEY,
        versions=Versions(0, 5),
        handler=handle_init_producer_id,
        refuse=refuse_init_producer_id,
    ),
)
