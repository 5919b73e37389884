"""InitProducerId: assigns producer ids and epochs (KIP-98).

A request with a transactional id fences its previous producer. Admin.fenceProducers sends this
request too (KIP-618).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.transactions.transactional_producers import (
    fencing_eras,
    lower_fencing_error,
    shard_of,
)
from kafkalite.coordinator.contract import Event
from kafkalite.gateway.api import Api
from kafkalite.protocol._generated.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.producer_initialization import (
    InitializationResult,
    ProducerRequest,
    check_request,
)
from kafkalite.transactions.state import ProducerIdAndEpoch

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call

_UNSET = -1

INIT_PRODUCER_ID_ERAS = fencing_eras(knows_fenced_from=4)


def handle_init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return a producer id and epoch; for a transactional id, its next epoch."""
    if (request.producer_id == _UNSET) != (request.producer_epoch == _UNSET):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _init_idempotent(call)
    result = _init_transactional(call, request.transactional_id, request)
    if result.error is ErrorCode.NONE:
        _record_event(call, request, request.transactional_id, result.producer)
    return InitProducerIdResponse(
        error_code=result.error,
        producer_id=result.producer.producer_id,
        producer_epoch=result.producer.producer_epoch,
    )


def _init_idempotent(call: Call) -> InitProducerIdResponse:
    """Return a new producer id with epoch 0."""
    node = call.node
    node_id = node.id
    producer_id = node.partitions.producer_ids.next_id(
        node_id, lambda: node.cluster.metadata.allocate_producer_ids(node_id)
    )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _init_transactional(
    call: Call, transactional_id: str, request: InitProducerIdRequest
) -> InitializationResult:
    expected = None
    if request.producer_id != _UNSET:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    producer_request = ProducerRequest(
        request.transaction_timeout_ms, expected, request.enable2_pc, request.keep_prepared_txn
    )
    # An invalid request is refused by every node, whether it is the coordinator or not.
    check_request(call.node.config, transactional_id, producer_request)
    return shard_of(call, transactional_id).write_immediately(
        lambda machine, now_ms: machine.init_producer_id(transactional_id, producer_request, now_ms)
    )


def _record_event(
    call: Call,
    request: InitProducerIdRequest,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
) -> None:
    """Add the new producer of a transactional id to its history, to explain later fencing."""
    producer_id, epoch = producer
    keeps_id = request.producer_id == producer_id
    text = (
        f"producer {producer_id} {'continues' if keeps_id else 'begins'} at epoch {epoch}, "
        f"for client {call.client_id} at {call.client_host.removeprefix('/')}"
    )
    if epoch and not keeps_id:
        text += "; the previous producer of the id is fenced"
    facts = {
        "producer_id": producer_id,
        "epoch": epoch,
        "client_id": call.client_id,
        "client_host": call.client_host,
    }
    node = call.node
    event = Event(transactional_id, "initialized", text, facts, Entity.TRANSACTIONAL_ID)
    node.history.add(event, node.clock.now_ms())


def lower_init_producer_id(
    response: InitProducerIdResponse, version: int
) -> InitProducerIdResponse:
    """Return the response with error codes that this version knows."""
    return lower_fencing_error(response, INIT_PRODUCER_ID_ERAS.at(version))


APIS = (
    Api(
        key=InitProducerIdRequest.API_KEY,
        versions=Versions(0, 5),
        handler=handle_init_producer_id,
        eras=INIT_PRODUCER_ID_ERAS,
        lower=lower_init_producer_id,
    ),
)
