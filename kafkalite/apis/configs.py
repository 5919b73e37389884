"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

Settings of topics, brokers, groups and client metrics subscriptions live in the metadata; levels of
loggers live in the process and are gone with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.config_layers import layers_of
from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.log_levels import describe_loggers
from kafkalite.apis.repeats import Repeats
from kafkalite.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_everybody,
    describe_group,
    describe_topic,
)
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.topic_names import name_complaint
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kafkalite.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.apis.context import RequestContext

_UNKNOWN_TYPE = 0


def handle_describe_configs(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Tell what resources are set to; each succeeds or fails alone."""
    repeats = Repeats()
    return DescribeConfigsResponse(
        results=[_describe(context, request, asked, repeats) for asked in request.resources]
    )


def _describe(
    context: RequestContext,
    request: DescribeConfigsRequest,
    asked: DescribeConfigsRequest.DescribeConfigsResource,
    repeats: Repeats,
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name
    )
    describe = _DESCRIBERS.get(asked.resource_type, _describe_unsupported)
    try:
        repeats.check((asked.resource_type, asked.resource_name))
        entries = list(describe(context, asked.resource_name))
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or ""
        return result
    wanted = asked.configuration_keys
    result.configs = [
        _entry_result(
            entry,
            with_synonyms=request.include_synonyms,
            with_documentation=request.include_documentation,
        )
        for entry in entries
        # An empty list of keys asks for all, as none does.
        if not wanted or entry.name in wanted
    ]
    return result


def _entry_result(
    entry: ConfigEntry, *, with_synonyms: bool, with_documentation: bool
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ]
        if with_synonyms
        else [],
        config_type=_UNKNOWN_TYPE if entry.type is None else entry.type,
        documentation=entry.documentation if with_documentation else None,
    )


def _describe_topic(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    services = context.services
    if (complaint := name_complaint(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)
    if name not in services.metadata.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(
        services.metadata.image.topic_config(name),
        layers_of(services, context.node_id),
        services.config,
    )


def node_id_of(name: str, noun: str) -> int:
    """Return the node id that a resource's name writes; INVALID_REQUEST when it writes none."""
    try:
        return int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{noun} id must be an integer, but it is: {name}"
        ) from None


def _describe_broker(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    services = context.services
    if not name:
        return describe_everybody(layers_of(services, context.node_id), services.config)
    node_id = node_id_of(name, "Broker")
    if node_id != context.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.node_id} or empty string, but received "
            f"{name}",
        )
    return describe_broker(layers_of(services, node_id), services.config)


def _describe_group(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    services = context.services
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(
        services.metadata.image.group_config(name),
        layers_of(services, context.node_id),
        services.config,
    )


def _describe_client_metrics(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
        )
    image = context.services.metadata.image
    return describe_client_metrics(image.config_of(ResourceType.CLIENT_METRICS, name))


def _describe_loggers(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if node_id_of(name, "Broker") != context.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.node_id} but received {name}",
        )
    return describe_loggers(context.services.config.log_levels)


def _describe_unsupported(context: RequestContext, name: str) -> Iterable[ConfigEntry]:
    del context, name  # every describer takes them
    raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)


_DESCRIBERS: Mapping[int, Callable[[RequestContext, str], Iterable[ConfigEntry]]] = {
    ResourceType.TOPIC: _describe_topic,
    ResourceType.BROKER: _describe_broker,
    ResourceType.BROKER_LOGGER: _describe_loggers,
    ResourceType.GROUP: _describe_group,
    ResourceType.CLIENT_METRICS: _describe_client_metrics,
}


def refuse_describe_configs(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """Say one error for every resource of a request."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=code,
                error_message=message or code.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked in request.resources
        ]
    )


_LISTABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)

LISTING_ERAS = Eras(
    # KIP-1142: the API began as a list of client metrics subscriptions.
    (0, (ResourceType.CLIENT_METRICS,)),
    (1, _LISTABLE),
)


def handle_list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List resources that can be described: topics and nodes that are, others that were set."""
    listable: tuple[ResourceType, ...] = context.era
    wanted = request.resource_types or listable
    if unknown := sorted(set(wanted) - set(listable)):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unexpected resource type {unknown[0]}.")
    image = context.services.metadata.image
    nodes = [str(node_id) for node_id in sorted(image.brokers)]
    names: dict[ResourceType, list[str]] = {
        ResourceType.TOPIC: sorted(image.topics),
        ResourceType.BROKER: nodes,
        ResourceType.BROKER_LOGGER: nodes,
    }
    for kind in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        names[kind] = sorted(each.name for each in image.configs if each.type is kind)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
            for kind in listable
            if kind in wanted
            for name in names[kind]
        ]
    )


def refuse_list_config_resources(
    request: ListConfigResourcesRequest,  # noqa: ARG001 - the answer is the same for all
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> ListConfigResourcesResponse:
    """Say one error for the whole request."""
    return ListConfigResourcesResponse(error_code=code)


APIS = (
    Api(
        key=DescribeConfigsRequest.API_KEY,
        versions=Versions(1, 4),
        handler=handle_describe_configs,
        refuse=refuse_describe_configs,
    ),
    Api(
        key=ListConfigResourcesRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_list_config_resources,
        refuse=refuse_list_config_resources,
        eras=LISTING_ERAS,
    ),
)
