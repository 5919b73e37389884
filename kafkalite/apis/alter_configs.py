"""AlterConfigs and IncrementalAlterConfigs: settings changed while the cluster runs.

A node answers for its own broker settings and loggers; the rest is decided by the metadata.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.apis.configs import node_id_of
from kafkalite.apis.contract import Api
from kafkalite.apis.log_levels import alter_loggers
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkalite.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.apis.context import RequestContext

_ALTERABLE = frozenset(
    (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
)


def _resource(context: RequestContext, kind: int, name: str) -> ConfigResource:
    """Return the resource meant; INVALID_REQUEST for one that this node cannot alter."""
    try:
        resource = ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}") from None
    if resource.type not in _ALTERABLE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    if resource.type is ResourceType.BROKER and name:
        node_id = node_id_of(name, "Node")
        if node_id != context.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {context.node_id}, but received {name}",
            )
    return resource


def _check_keys(names: Iterable[str], nulls: Sequence[str]) -> None:
    if any(count > 1 for count in Counter(names).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )


def _check_once(identity: tuple[int, str], counts: Counter[tuple[int, str]]) -> None:
    if counts[identity] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def handle_incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Set, take back, extend or cut single settings; each resource succeeds or fails alone."""
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    altered: dict[ConfigResource, list[ConfigChange]] = {}
    outcome: dict[tuple[int, str], KafkaError | None] = {}
    for asked in request.resources:
        identity = (asked.resource_type, asked.resource_name)
        outcome[identity] = None
        try:
            _check_once(identity, counts)
            _check_keys(
                (config.name for config in asked.configs),
                [
                    config.name
                    for config in asked.configs
                    if config.value is None and config.config_operation != AlterOperation.DELETE
                ],
            )
            changes = [_change(config) for config in asked.configs]
            if asked.resource_type == ResourceType.BROKER_LOGGER:
                _check_own_loggers(context, asked.resource_name)
                levels = context.services.config.log_levels
                alter_loggers(levels, changes, validate_only=request.validate_only)
            else:
                altered[_resource(context, *identity)] = changes
        except KafkaError as error:
            outcome[identity] = error
    decided = context.services.metadata.alter_configs(altered, validate_only=request.validate_only)
    outcome.update(((resource.type, resource.name), error) for resource, error in decided.items())
    return IncrementalAlterConfigsResponse(
        responses=[
            _incremental_result(identity, outcome[identity])
            for identity in ((each.resource_type, each.resource_name) for each in request.resources)
        ]
    )


def _check_own_loggers(context: RequestContext, name: str) -> None:
    if node_id_of(name, "Node") != context.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {context.node_id}, but received {name}",
        )


def _change(config: IncrementalAlterConfigsRequest.AlterableConfig) -> ConfigChange:
    try:
        operation = AlterOperation(config.config_operation)
    except ValueError:
        # Kafka stumbles over such a number, and so it is told as a stumble.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    return ConfigChange(config.name, operation, config.value)


def _message_of(error: KafkaError | None) -> str | None:
    if error is None or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return None
    return error.message or error.code.message


def _incremental_result(
    identity: tuple[int, str], error: KafkaError | None
) -> IncrementalAlterConfigsResponse.AlterConfigsResourceResponse:
    return IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=_message_of(error),
        resource_type=identity[0],
        resource_name=identity[1],
    )


def refuse_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Say one error for every resource of a request."""
    error = KafkaError(code, message)
    return IncrementalAlterConfigsResponse(
        responses=[
            _incremental_result((asked.resource_type, asked.resource_name), error)
            for asked in request.resources
        ]
    )


def handle_alter_configs(
    context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Set all settings of resources, taking back those left out."""
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    wanted: dict[ConfigResource, dict[str, str]] = {}
    outcome: dict[tuple[int, str], KafkaError | None] = {}
    for asked in request.resources:
        identity = (asked.resource_type, asked.resource_name)
        outcome[identity] = None
        try:
            _check_once(identity, counts)
            _check_keys(
                (config.name for config in asked.configs),
                [config.name for config in asked.configs if config.value is None],
            )
            resource = _resource(context, *identity)
        except KafkaError as error:
            outcome[identity] = error
            continue
        wanted[resource] = {config.name: config.value or "" for config in asked.configs}
    decided = context.services.metadata.replace_configs(wanted, validate_only=request.validate_only)
    outcome.update(((resource.type, resource.name), error) for resource, error in decided.items())
    return AlterConfigsResponse(
        responses=[
            _result(identity, outcome[identity])
            for identity in ((each.resource_type, each.resource_name) for each in request.resources)
        ]
    )


def _result(
    identity: tuple[int, str], error: KafkaError | None
) -> AlterConfigsResponse.AlterConfigsResourceResponse:
    return AlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=_message_of(error),
        resource_type=identity[0],
        resource_name=identity[1],
    )


def refuse_alter_configs(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None
) -> AlterConfigsResponse:
    """Say one error for every resource of a request."""
    error = KafkaError(code, message)
    return AlterConfigsResponse(
        responses=[
            _result((asked.resource_type, asked.resource_name), error)
            for asked in request.resources
        ]
    )


APIS = (
    Api(
        key=AlterConfigsRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_alter_configs,
        refuse=refuse_alter_configs,
    ),
    Api(
        key=IncrementalAlterConfigsRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_incremental_alter_configs,
        refuse=refuse_incremental_alter_configs,
    ),
)
