"""InitProducerId: a number for every producer that wants its batches counted (KIP-98).

With a transactional id it fences whoever had that before; Admin's fenceProducers is this request
and no other (KIP-618).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkalite.apis.contract import Api
from kafkalite.apis.transactional import fencing_eras, lower_fenced, shard_of
from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.initializing import Initialized, check_wish
from kafkalite.transactions.state import Producer

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext

_NONE = -1

ERAS = fencing_eras(knows_fenced_from=4)


def handle_init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give a producer an id and an epoch: the next one of its transactional id, if it has one."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _idempotent(context)
    initialized = _transactional(context, request.transactional_id, request)
    if initialized.error is ErrorCode.NONE:
        _note(context, request, request.transactional_id, initialized.producer)
    return InitProducerIdResponse(
        error_code=initialized.error,
        producer_id=initialized.producer.producer_id,
        producer_epoch=initialized.producer.producer_epoch,
    )


def _idempotent(context: RequestContext) -> InitProducerIdResponse:
    """Give a producer an id of its own, at epoch 0, whatever it had before."""
    services = context.services
    node_id = context.node_id
    producer_id = services.partitions.producer_ids.draw(
        node_id, lambda: services.metadata.allocate_producer_ids(node_id)
    )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _transactional(
    context: RequestContext, transactional_id: str, request: InitProducerIdRequest
) -> Initialized:
    expected = None
    if request.producer_id != _NONE:
        expected = Producer(request.producer_id, request.producer_epoch)
    timeout_ms = request.transaction_timeout_ms
    # What nobody may ask for is refused by every node, whoever speaks for the id.
    check_wish(context.services.config, transactional_id, timeout_ms)
    return cast(
        "Initialized",
        shard_of(context, transactional_id).write(
            lambda machine, now_ms: machine.init_producer_id(
                transactional_id, timeout_ms, expected, now_ms
            )
        ),
    )


def _note(
    context: RequestContext,
    request: InitProducerIdRequest,
    transactional_id: str,
    producer: Producer,
) -> None:
    """Keep who took over an id: whoever was fenced by that will want to know."""
    producer_id, epoch = producer
    goes_on = request.producer_id == producer_id
    text = (
        f"producer {producer_id} {'goes on' if goes_on else 'begins'} at epoch {epoch}, "
        f"for client {context.client_id} at {context.client_host.removeprefix('/')}"
    )
    if epoch and not goes_on:
        text += "; whoever had the id before is fenced"
    facts = {
        "producer_id": producer_id,
        "epoch": epoch,
        "client_id": context.client_id,
        "client_host": context.client_host,
    }
    services = context.services
    event = Event(transactional_id, "initialized", text, facts, SubjectKind.TRANSACTIONAL_ID)
    services.journal.note(event, services.clock.now_ms())


def refuse_init_producer_id(
    request: InitProducerIdRequest, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    """Say an error, and that there is no producer id."""
    del request, message
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def lower_init_producer_id(
    response: InitProducerIdResponse, version: int
) -> InitProducerIdResponse:
    """Return the response in words this version knows."""
    return lower_fenced(response, ERAS.at(version))


APIS = (
    Api(
        key=InitProducerIdRequest.API_KEY,
        versions=Versions(0, 5),
        handler=handle_init_producer_id,
        refuse=refuse_init_producer_id,
        eras=ERAS,
        lower=lower_init_producer_id,
    ),
)
