"""AlterConfigs and IncrementalAlterConfigs from clients of the controller.

A broker checks the resources of a request before it passes them on. The controller accepts more:
the settings of every node, repeated keys and null values. It cordons no directories (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.configs.alter import alter_logger, check_logger_node, parse_change
from kafkalite.apis.configs.describe import node_id_of
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsResponse
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
    from kafkalite.protocol._generated.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
    )

_ResourceKey = tuple[int, str]
"""The type and the name of a resource as requested."""

_NEEDS_VALUE: Final = (AlterOperation.APPEND, AlterOperation.SUBTRACT)


class _Resources(NamedTuple):
    """The resources of a request, without those that it names twice."""

    by_key: dict[ConfigResource, Any]
    errors: list[tuple[_ResourceKey, KafkaError | None]]


def handle_incremental_alter_configs_at_controller(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change some settings of resources; the rows of loggers are the last ones.

    Raises KafkaError UNKNOWN_SERVER_ERROR for a change that Kafka's controller cannot process.
    """
    loggers = ResourceType.BROKER_LOGGER
    by_key, results = _unique_resources(
        call, [each for each in request.resources if each.resource_type != loggers]
    )
    altered = {resource: _parse_changes(each.configs) for resource, each in by_key.items()}
    _remove_unknown_nodes(call, altered, results)
    errors = call.node.cluster.metadata.alter_configs(
        altered, validate_only=request.validate_only, is_forwarded=False
    )
    results += [((resource.type, resource.name), error) for resource, error in errors.items()]
    for each in request.resources:
        if each.resource_type == loggers:
            error = _alter_logger(call, each, validate_only=request.validate_only)
            results.append(((each.resource_type, each.resource_name), error))
    row = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=[row(**_result(resource_key, error)) for resource_key, error in results]
    )


def handle_alter_configs_at_controller(
    call: Call, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace all settings of resources; settings that the request omits are deleted."""
    by_key, results = _unique_resources(call, request.resources)
    replacements = {}
    for resource, each in by_key.items():
        if resource.type is ResourceType.BROKER_LOGGER:
            error = KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.type.name}."
            )
            results.append(((resource.type, resource.name), error))
            continue
        values = {config.name: config.value for config in each.configs}
        replacements[resource] = {
            name: value for name, value in values.items() if value is not None
        }
    _remove_unknown_nodes(call, replacements, results)
    errors = call.node.cluster.metadata.replace_configs(
        replacements, validate_only=request.validate_only, is_forwarded=False
    )
    results += [((resource.type, resource.name), error) for resource, error in errors.items()]
    row = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=[row(**_result(resource_key, error)) for resource_key, error in results]
    )


def _unique_resources(call: Call, requested: Sequence[Any]) -> _Resources:
    """Return the resources that occur once, and an error for each other one."""
    resources = _Resources({}, [])
    repeated: set[ConfigResource] = set()
    has_groups = call.node.config.release.has_group_configs
    for each in in_steps(requested):
        resource_key = each.resource_type, each.resource_name
        kind = each.resource_type
        is_known = kind in ResourceType._value2member_map_ and kind != ResourceType.UNKNOWN
        if not is_known or (kind == ResourceType.GROUP and not has_groups):
            message = f"Unknown resource type {kind}."
            error = KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
            resources.errors.append((resource_key, error))
            continue
        resource = ConfigResource(ResourceType(kind), each.resource_name)
        if resource in repeated:
            continue
        if resources.by_key.pop(resource, None) is None:
            resources.by_key[resource] = each
            continue
        repeated.add(resource)
        error = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
        resources.errors.append((resource_key, error))
    return resources


def _parse_changes(configs: Iterable[Any]) -> list[ConfigChange]:
    """Return the changes of a resource, the last one of each key.

    Raises KafkaError UNKNOWN_SERVER_ERROR for an unknown operation, or one without its value.
    """
    changes = {}
    for config in configs:
        change = parse_change(config)
        if change.value is None:
            if change.operation in _NEEDS_VALUE:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            change = change._replace(operation=AlterOperation.DELETE)
        changes[change.name] = change
    return list(changes.values())


def _remove_unknown_nodes(
    call: Call,
    requested: dict[ConfigResource, Any],
    results: list[tuple[_ResourceKey, KafkaError | None]],
) -> None:
    """Move resources of nodes that are not registered to the results, each with its error."""
    # As in Kafka, a registered controller has settings of its own, like a broker.
    registered = {*call.node.cluster.metadata.image.brokers, call.node.config.controller_id}
    for resource in [each for each in requested if each.type is ResourceType.BROKER and each.name]:
        error = _node_error(resource.name, registered)
        if error is not None:
            del requested[resource]
            results.append(((resource.type, resource.name), error))


def _node_error(name: str, registered: Collection[int | None]) -> KafkaError | None:
    """Return the error of a name of a node that is invalid or not registered."""
    try:
        node_id = node_id_of(name, "Node")
    except KafkaError as error:
        return error.without_traceback()
    if node_id in registered:
        return None
    if node_id < 0:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _alter_logger(call: Call, requested: Any, *, validate_only: bool) -> KafkaError | None:  # noqa: ANN401 - a row of a request
    """Change the levels of the controller's loggers; return the error, None without one."""
    chosen = call.node.config.controller_id
    node_id = call.node.id if chosen is None else chosen
    try:
        check_logger_node(requested.resource_name, node_id)
        if any(
            config.value is None and config.config_operation == AlterOperation.SET
            for config in requested.configs
        ):
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        alter_logger(call, node_id, requested, validate_only=validate_only)
    except KafkaError as error:
        return error.without_traceback()
    return None


def _result(resource_key: _ResourceKey, error: KafkaError | None) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message or error.code.message,
        "resource_type": resource_key[0],
        "resource_name": resource_key[1],
    }
