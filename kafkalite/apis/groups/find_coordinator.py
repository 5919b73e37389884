"""FindCoordinator: the coordinators of groups, transactional ids and share partitions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.apis.blank_fields import trim
from kafkalite.gateway.api import Api, Eras
from kafkalite.groups import shard_modules as group_modules
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.ports.int_enums import IntEnum
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import refused_row
from kafkalite.protocol.uuids import uuid_from_text
from kafkalite.protocol.versions import Versions
from kafkalite.transactions import shard_modules as transaction_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.cluster.node import Endpoint, Node
    from kafkalite.gateway.call import Call
    from kafkalite.ports.module_steps import ModuleSteps
    from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest

Coordinator = FindCoordinatorResponse.Coordinator


class CoordinatorType(IntEnum):
    """The type of a key, numbered as on the wire."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_MODULES: Final[Mapping[int, ModuleSteps]] = {
    CoordinatorType.GROUP: group_modules.SHARD_MODULES,
    CoordinatorType.TRANSACTION: transaction_modules.SHARD_MODULES,
}
"""The modules of the coordinators that are imported in steps."""


def lift_single_key(request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    """Convert the single key of earlier versions to a list."""
    request.coordinator_keys = [request.key]
    return request


def lower_single_key(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """Copy the only coordinator to the top-level fields of earlier versions.

    On success their error message is "NONE", as in Kafka.
    """
    for coordinator in response.coordinators:
        response.error_code = coordinator.error_code
        response.error_message = coordinator.error_message or _message_or_name(
            coordinator.error_code
        )
        response.node_id = coordinator.node_id
        response.host = coordinator.host
        response.port = coordinator.port
    return response


def _message_or_name(code: int) -> str:
    error = ErrorCode(code)
    return error.name if error is ErrorCode.NONE else error.message


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorEra:
    """Traits of a range of FindCoordinator versions."""

    lift: Callable[[FindCoordinatorRequest], FindCoordinatorRequest] | None = None
    lower: Callable[[FindCoordinatorResponse], FindCoordinatorResponse] | None = None
    knows_share_partitions: bool = False


FIND_COORDINATOR_ERAS = Eras(
    (0, FindCoordinatorEra(lift=lift_single_key, lower=lower_single_key)),
    (4, FindCoordinatorEra()),
    (6, FindCoordinatorEra(knows_share_partitions=True)),
)


def handle_find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return the coordinator of each key; the first request creates the internal topic.

    Kafka answers COORDINATOR_NOT_AVAILABLE while it creates that topic. Here it exists at once,
    unless the cluster has the pace of a real Kafka.
    """
    steps = _MODULES.get(request.key_type)
    if steps is not None:
        steps.load()
    coordinators = []
    for key in request.coordinator_keys:
        try:
            coordinators.append(_coordinator_of(call, request.key_type, key))
        except KafkaError as refusal:
            coordinators.append(
                refused_row(ApiKey.FIND_COORDINATOR, 0, key, refusal.code, refusal.message)
            )
    return FindCoordinatorResponse(coordinators=coordinators)


def loads_modules(call: Call, request: FindCoordinatorRequest) -> bool:
    """Return whether the request is the first one of its type, which loads many modules."""
    del call
    steps = _MODULES.get(request.key_type)
    return steps is not None and not steps.are_loaded()


def _coordinator_of(call: Call, key_type: int, key: str) -> Coordinator:
    """Return one key's coordinator; raises KafkaError(INVALID_REQUEST) for an unknown key type."""
    node = call.node
    if key_type == CoordinatorType.GROUP:
        topic, partition = OFFSETS_TOPIC, node.groups.partition_for(key)
        _ensure(node, OFFSETS_TOPIC)
    elif key_type == CoordinatorType.SHARE and call.era.knows_share_partitions:
        group_id, topic_id, index = _parse_share_partition_key(key)
        topic = SHARE_STATE_TOPIC
        partition = node.shares.partition_for_share(group_id, topic_id, index)
        node.shares.ensure_topic(node.id)
    elif key_type == CoordinatorType.TRANSACTION:
        topic, partition = TRANSACTION_STATE_TOPIC, node.transactions.partition_for(key)
        _ensure(node, TRANSACTION_STATE_TOPIC)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    partition_image = node.image.partition(topic, partition)
    endpoint = None if partition_image is None else _endpoint(call, partition_image.leader)
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


def _ensure(node: Node, topic: str) -> None:
    """Create an internal topic, at once or with the delay of a real Kafka.

    Raises KafkaError COORDINATOR_NOT_AVAILABLE if that fails, and while it is awaited.
    """
    metadata, pace = node.cluster.metadata, node.cluster.pace
    if pace is not None and topic not in metadata.image.topics:
        from kafkalite.cluster.pace import DISCOVERY_MS  # noqa: PLC0415 - only with --pace

        pace.create_later((topic,), partial(_ensure_late, node), DISCOVERY_MS[topic])
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    metadata.ensure_internal_topic(topic, node.id)


def _ensure_late(node: Node, names: Sequence[str]) -> None:
    for name in names:
        with suppress(KafkaError):  # The next request tries it again.
            node.cluster.metadata.ensure_internal_topic(name, node.id)
            coordinator = node.groups if name == OFFSETS_TOPIC else node.transactions
            if node.cluster.pace is not None:
                coordinator.hold()
                node.cluster.pace.release_later(name, coordinator.release)


def _parse_share_partition_key(key: str) -> tuple[str, bytes, int]:
    """Parse `group:topic id:partition`; the group id may contain colons."""
    try:
        group_id, topic_id, partition = key.rsplit(":", 2)
        if trim(group_id):
            return group_id, uuid_from_text(topic_id), int(partition)
    except ValueError:
        pass
    # As in Kafka, this error has no message.
    raise KafkaError(ErrorCode.INVALID_REQUEST)


def _endpoint(call: Call, node_id: int) -> Endpoint | None:
    for endpoint in call.node.known_endpoints(call.listener):
        if endpoint.node_id == node_id:
            return endpoint
    return None


def lift_find_coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorRequest:
    """Return the request in the structure of the latest version."""
    lift = FIND_COORDINATOR_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_find_coordinator(
    response: FindCoordinatorResponse, version: int
) -> FindCoordinatorResponse:
    """Return the response in the structure of this version."""
    lower = FIND_COORDINATOR_ERAS.at(version).lower
    return response if lower is None else lower(response)


APIS = (
    Api(
        key=ApiKey.FIND_COORDINATOR,
        versions=Versions(0, 6),
        handler=handle_find_coordinator,
        eras=FIND_COORDINATOR_ERAS,
        lift=lift_find_coordinator,
        lower=lower_find_coordinator,
        may_take_long=loads_modules,
    ),
)
