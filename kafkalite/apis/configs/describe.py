"""DescribeConfigs and ListConfigResources.

Settings of topics, brokers, groups and client metrics subscriptions are in the metadata log; levels
of loggers are in the memory of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.configs.log_levels import describe_loggers
from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from kafkalite.config.layers import BrokerLayers, ConfigSource
from kafkalite.gateway.api import Api, Eras
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import pause
from kafkalite.protocol._generated.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kafkalite.protocol._generated.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import MetadataImage


_UNKNOWN_TYPE = 0


class DescribingNode(NamedTuple):
    """The broker or the controller that describes settings, and the metadata that it knows."""

    node_id: int
    config: BrokerConfig
    image: MetadataImage
    static: Mapping[str, str]
    """Its own settings, as text by key."""

    @property
    def layers(self) -> BrokerLayers:
        """The settings of this node by source."""
        return _layers(self.config, self.image, self.node_id, self.static)


def handle_describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of resources as the node knows them; see `describe_configs`."""
    node = call.node
    static = node.config.node_text(node.id)
    return describe_configs(DescribingNode(node.id, node.config, node.image, static), request)


def describe_configs(
    node: DescribingNode, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Return the settings of resources at a node; each succeeds or fails on its own.

    Raises KafkaError INVALID_REQUEST if any has an unknown type, as in Kafka: an authorizer cannot
    check such a resource.
    """
    for each in request.resources:
        if each.resource_type not in _DESCRIBERS:
            _describe_unsupported(node, each.resource_name)
    duplicate_limit = DuplicateLimit()
    return DescribeConfigsResponse(
        results=[_describe(node, request, each, duplicate_limit) for each in request.resources]
    )


def _describe(
    node: DescribingNode,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
    duplicate_limit: DuplicateLimit,
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    pause()
    describe = _DESCRIBERS[resource.resource_type]
    try:
        duplicate_limit.check((resource.resource_type, resource.resource_name))
        entries = list(describe(node, resource.resource_name))
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or ""
        return result
    requested = frozenset(resource.configuration_keys or ())
    result.configs = [
        _entry_result(
            entry,
            with_synonyms=request.include_synonyms,
            with_documentation=request.include_documentation,
        )
        for entry in entries
        # As in Kafka, an empty list requests all keys, like a null list.
        if not requested or entry.name in requested
    ]
    return result


def _entry_result(
    entry: ConfigEntry, *, with_synonyms: bool, with_documentation: bool
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    if entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER:
        documentation: str | None = ""  # as in Kafka, also if it was not requested
    elif entry.documentation == "":
        documentation = ""
    else:
        documentation = entry.documentation if with_documentation else None
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
        documentation=documentation,
    )


def _describe_topic(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    if (reason := invalid_name_reason(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in node.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(node.image.topic_config(name), node.layers, node.config)


def node_id_of(name: str, noun: str) -> int:
    """Return the node id in a resource's name; raises INVALID_REQUEST if it is no number."""
    try:
        return int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{noun} id must be an integer, but it is: {name}"
        ) from None


def _describe_broker(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    layers = node.layers
    if not name:
        return describe_cluster_default(layers, node.config)
    if node_id_of(name, "Broker") != node.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
        )
    return describe_broker(layers, node.config)


def _describe_group(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    if not node.config.release.has_group_configs:
        return _describe_unsupported(node, name)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(node.image.group_config(name), node.layers, node.config)


def _describe_client_metrics(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    if not node.config.release.rules.has_client_metrics:
        return _describe_unsupported(node, name)
    if not name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
        )
    overrides = node.image.config_of(ResourceType.CLIENT_METRICS, name)
    return describe_client_metrics(overrides, node.config)


def _describe_loggers(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if node_id_of(name, "Broker") != node.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id} but received {name}",
        )
    return describe_loggers(node.config.log_levels)


def _describe_unsupported(node: DescribingNode, name: str) -> Iterable[ConfigEntry]:
    del node, name  # required parameters of a describer
    raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)


_DESCRIBERS: Mapping[int, Callable[[DescribingNode, str], Iterable[ConfigEntry]]] = {
    ResourceType.TOPIC: _describe_topic,
    ResourceType.BROKER: _describe_broker,
    ResourceType.BROKER_LOGGER: _describe_loggers,
    ResourceType.GROUP: _describe_group,
    ResourceType.CLIENT_METRICS: _describe_client_metrics,
}


_LISTABLE_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)

LISTING_ERAS = Eras(
    # KIP-1142: the API originally listed client metrics subscriptions only.
    (0, (ResourceType.CLIENT_METRICS,)),
    (1, _LISTABLE_TYPES),
)


def handle_list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List all topics and nodes, and those other resources that have stored settings."""
    listable: tuple[ResourceType, ...] = call.era
    requested = request.resource_types or listable
    if unknown := sorted(set(requested) - set(listable)):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unexpected resource type {unknown[0]}.")
    image = call.node.image
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
            if kind in requested
            for name in names[kind]
        ]
    )


APIS = (
    Api(
        key=DescribeConfigsRequest.API_KEY,
        other_pausing_lists=frozenset(("configuration_keys",)),
        versions=Versions(1, 4),
        handler=handle_describe_configs,
        inline_bytes=0,
    ),
    Api(
        key=ListConfigResourcesRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_list_config_resources,
        eras=LISTING_ERAS,
    ),
)


def layers_of(node: Node, node_id: int, image: MetadataImage) -> BrokerLayers:
    """Return the settings of one node in an image, by source."""
    return _layers(node.config, image, node_id, node.config.node_text(node_id))


def _layers(
    config: BrokerConfig, image: MetadataImage, node_id: int, static: Mapping[str, str]
) -> BrokerLayers:
    return BrokerLayers(
        node=image.config_of(ResourceType.BROKER, str(node_id)),
        cluster_default=image.config_of(ResourceType.BROKER, ""),
        static=static,
        defaults=config.default_text,
        keys=config.described_keys,
    )
