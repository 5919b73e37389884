"""AlterConfigs and IncrementalAlterConfigs: change settings of a running cluster.

A node handles its own broker settings and loggers; the controller decides about the rest.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.apis.configs.describe import node_id_of
from kafkalite.apis.configs.log_levels import alter_loggers
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.turns import chunks, in_steps
from kafkalite.protocol._generated.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import repetition
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.gateway.call import Call

T = TypeVar("T")

_MAX_RESOURCES_PER_CHANGE = 1_000
"""Maximum number of resources that one decision of the controller alters."""

_ALTERABLE_TYPES = frozenset(
    (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
)


def check_row(call: Call, requested: Any) -> ConfigResource | None:  # noqa: ANN401 - of two classes
    """Return the resource of a row, None for the loggers of a node.

    Raises KafkaError INVALID_REQUEST for an invalid row, also if the client may not alter it.
    """
    _check_configs(requested.configs)
    if requested.resource_type == ResourceType.BROKER_LOGGER:
        return None
    return _alterable_resource(call, requested.resource_type, requested.resource_name)


def _alterable_resource(call: Call, kind: int, name: str) -> ConfigResource:
    """Return the resource; raises KafkaError INVALID_REQUEST if this node cannot alter it."""
    try:
        resource = ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise _unknown_type_error(kind) from None
    release = call.node.config.release
    is_known = {
        ResourceType.GROUP: release.has_group_configs,
        ResourceType.CLIENT_METRICS: release.rules.has_client_metrics,
    }
    if resource.type not in _ALTERABLE_TYPES or not is_known.get(resource.type, True):
        raise _unknown_type_error(kind)
    if resource.type is ResourceType.BROKER and name:
        node_id = node_id_of(name, "Node")
        if node_id != call.node.id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {call.node.id}, but received {name}",
            )
    return resource


def _check_configs(configs: Sequence[Any]) -> None:
    """Raise KafkaError INVALID_REQUEST if a name is repeated, or some values are null."""
    if any(count > 1 for count in Counter(config.name for config in configs).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorText.REPEATED_CONFIG.template)
    null_names = [
        config.name
        for config in configs
        if config.value is None
        and getattr(config, "config_operation", None) != AlterOperation.DELETE
    ]
    if null_names:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, ErrorText.NULL_CONFIG.format(names=", ".join(null_names))
        )


def _unknown_type_error(kind: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _repeated_error() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def handle_incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from settings; each resource succeeds on its own."""
    is_repeated = repetition(request.API_KEY, request)
    altered: dict[ConfigResource, list[ConfigChange]] = {}
    errors: dict[tuple[int, str], KafkaError | None] = {}
    for resource in request.resources:
        resource_key = (resource.resource_type, resource.resource_name)
        errors[resource_key] = None
        try:
            if is_repeated(resource):
                raise _repeated_error()
            checked = check_row(call, resource)
            if checked is None:
                alter_logger(call, call.node.id, resource, validate_only=request.validate_only)
                continue
            altered[checked] = [parse_change(config) for config in resource.configs]
        except KafkaError as error:
            errors[resource_key] = error.without_traceback()
    alter = partial(call.node.cluster.metadata.alter_configs, validate_only=request.validate_only)
    errors.update(_change_in_parts(alter, altered))
    row = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(responses=_results(row, request.resources, errors))


def _change_in_parts(
    change: Callable[[Mapping[ConfigResource, T]], Mapping[ConfigResource, KafkaError | None]],
    changes: Mapping[ConfigResource, T],
) -> Iterator[tuple[tuple[int, str], KafkaError | None]]:
    """Let the controller make changes in several decisions; yield each resource and its error."""
    for resources in chunks(tuple(changes), _MAX_RESOURCES_PER_CHANGE):
        errors = change({resource: changes[resource] for resource in resources})
        for resource, error in errors.items():
            yield (resource.type, resource.name), error


def alter_logger(
    call: Call,
    node_id: int,
    requested: IncrementalAlterConfigsRequest.AlterConfigsResource,
    *,
    validate_only: bool,
) -> None:
    """Change the levels of the loggers of a broker or of a controller; raises KafkaError."""
    check_logger_node(requested.resource_name, node_id)
    for config in requested.configs:
        if config.config_operation not in AlterOperation._value2member_map_:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {config.config_operation} is not allowed for the "
                "BROKER_LOGGER resource",
            )
    changes = [parse_change(config) for config in requested.configs]
    alter_loggers(call.node.config.log_levels, changes, validate_only=validate_only)


def check_logger_node(name: str, node_id: int) -> None:
    """Raise KafkaError INVALID_REQUEST if a name is not that of the node with the loggers."""
    if node_id_of(name, "Node") != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {node_id}, but received {name}",
        )


def parse_change(config: IncrementalAlterConfigsRequest.AlterableConfig) -> ConfigChange:
    """Return a change; raises KafkaError UNKNOWN_SERVER_ERROR for an unknown operation."""
    try:
        operation = AlterOperation(config.config_operation)
    except ValueError:
        # Kafka fails with an internal exception here and answers UNKNOWN_SERVER_ERROR.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    return ConfigChange(config.name, operation, config.value)


def _error_message(error: KafkaError | None) -> str | None:
    if error is None or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return None
    return error.message or error.code.message


def _results(
    row: Callable[..., T],
    resources: Collection[Any],
    errors: Mapping[tuple[int, str], KafkaError | None],
) -> list[T]:
    """Return the row of each resource, of a class of the response."""
    results = []
    for each in in_steps(resources):
        error = errors[each.resource_type, each.resource_name]
        results.append(
            row(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=_error_message(error),
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return results


def handle_alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of resources; settings that the request omits are deleted."""
    is_repeated = repetition(request.API_KEY, request)
    replacements: dict[ConfigResource, dict[str, str]] = {}
    errors: dict[tuple[int, str], KafkaError | None] = {}
    for altered in request.resources:
        resource_key = (altered.resource_type, altered.resource_name)
        errors[resource_key] = None
        try:
            if is_repeated(altered):
                raise _repeated_error()
            resource = check_row(call, altered)
            if resource is None:
                raise _unknown_type_error(altered.resource_type)
        except KafkaError as error:
            errors[resource_key] = error.without_traceback()
            continue
        replacements[resource] = {config.name: config.value or "" for config in altered.configs}
    replace = partial(
        call.node.cluster.metadata.replace_configs, validate_only=request.validate_only
    )
    errors.update(_change_in_parts(replace, replacements))
    row = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=_results(row, request.resources, errors))


APIS = (
    Api(
        key=AlterConfigsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 2),
        handler=handle_alter_configs,
    ),
    Api(
        key=IncrementalAlterConfigsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 1),
        handler=handle_incremental_alter_configs,
    ),
)
