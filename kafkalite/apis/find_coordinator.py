"""FindCoordinator: which node speaks for a group, a transactional id or a share partition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol.uuids import uuid_from_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import Endpoint, RequestContext
    from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest

Coordinator = FindCoordinatorResponse.Coordinator

NO_NODE_ID = -1
NO_PORT = -1


class CoordinatorKind(IntEnum):
    """What a key names, numbered as on the wire."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def lift_single(request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    """Make the one key of old versions a batch of one."""
    request.coordinator_keys = [request.key]
    return request


def lower_single(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """Put the only coordinator where old versions have it.

    Kafka says "NONE" to these clients when all is well.
    """
    for found in response.coordinators:
        response.error_code = found.error_code
        response.error_message = found.error_message or _default_message(found.error_code)
        response.node_id = found.node_id
        response.host = found.host
        response.port = found.port
    return response


def _default_message(code: int) -> str:
    error = ErrorCode(code)
    return error.name if error is ErrorCode.NONE else error.message


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorEra:
    """What a range of FindCoordinator versions means."""

    lift: Callable[[FindCoordinatorRequest], FindCoordinatorRequest] | None = None
    lower: Callable[[FindCoordinatorResponse], FindCoordinatorResponse] | None = None
    knows_share_partitions: bool = False


FIND_COORDINATOR_ERAS = Eras(
    (0, FindCoordinatorEra(lift=lift_single, lower=lower_single)),
    (4, FindCoordinatorEra()),
    (6, FindCoordinatorEra(knows_share_partitions=True)),
)


def handle_find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Return the coordinator of each key; whoever is first to ask makes the topic it lives on.

    Kafka answers COORDINATOR_NOT_AVAILABLE while it makes that topic. Here it is there at once.
    """
    coordinators = []
    for key in request.coordinator_keys:
        try:
            coordinators.append(_coordinator_of(context, request.key_type, key))
        except KafkaError as refusal:
            coordinators.append(_not_found(key, refusal.code, refusal.message))
    return FindCoordinatorResponse(coordinators=coordinators)


def _coordinator_of(context: RequestContext, kind: int, key: str) -> Coordinator:
    """Return one key's coordinator; INVALID_REQUEST, for what has none, ends a client's search."""
    services = context.services
    if kind == CoordinatorKind.GROUP:
        topic, partition = OFFSETS_TOPIC, services.groups.partition_for(key)
        services.metadata.have_internal_topic(OFFSETS_TOPIC)
    elif kind == CoordinatorKind.SHARE and context.era.knows_share_partitions:
        group_id, topic_id, index = _share_partition(key)
        topic = SHARE_STATE_TOPIC
        partition = services.shares.partition_for_share(group_id, topic_id, index)
        services.shares.have_topic()
    elif kind == CoordinatorKind.TRANSACTION:
        topic, partition = TRANSACTION_STATE_TOPIC, services.transactions.partition_for(key)
        services.transactions.have_topic()
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    led = services.metadata.image.partition(topic, partition)
    endpoint = None if led is None else _endpoint(context, led.leader)
    if endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key,
        node_id=endpoint.node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _share_partition(key: str) -> tuple[str, bytes, int]:
    """Read `group:topic id:partition`, where the group's id may have colons of its own."""
    try:
        group_id, topic_id, partition = key.rsplit(":", 2)
        if group_id.strip():
            return group_id, uuid_from_text(topic_id), int(partition)
    except ValueError:
        pass
    raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)


def _endpoint(context: RequestContext, node_id: int) -> Endpoint | None:
    for endpoint in context.services.endpoints(context.listener):
        if endpoint.node_id == node_id:
            return endpoint
    return None


def _not_found(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE_ID,
        host="",
        port=NO_PORT,
        error_code=code,
        error_message=message or "",
    )


def refuse_find_coordinator(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """Say an error of every key."""
    return FindCoordinatorResponse(
        coordinators=[_not_found(key, code, message) for key in request.coordinator_keys]
    )


def lift_find_coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorRequest:
    """Return the request as a batch of keys."""
    lift = FIND_COORDINATOR_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_find_coordinator(
    response: FindCoordinatorResponse, version: int
) -> FindCoordinatorResponse:
    """Return the response in the shape this version has."""
    lower = FIND_COORDINATOR_ERAS.at(version).lower
    return response if lower is None else lower(response)


APIS = (
    Api(
        key=10,
        versions=Versions(0, 6),
        handler=handle_find_coordinator,
        refuse=refuse_find_coordinator,
        eras=FIND_COORDINATOR_ERAS,
        lift=lift_find_coordinator,
        lower=lower_find_coordinator,
    ),
)
