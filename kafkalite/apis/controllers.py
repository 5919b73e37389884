"""The APIs of a listener for controllers, for tools with `--bootstrap-controller` (KIP-919).

Controllers serve the APIs that need no partitions and no groups. Brokers pass most of these on to
the controller, so they have the same handlers here. Those that brokers answer by the metadata that
they know are answered by the newest metadata here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.api_versions import new_api_versions_api
from kafkalite.apis.authorization.checks import check, cluster_message
from kafkalite.apis.authorized_operations import NOT_REQUESTED, cluster_operations
from kafkalite.apis.configs.alter_at_controller import (
    handle_alter_configs_at_controller,
    handle_incremental_alter_configs_at_controller,
)
from kafkalite.apis.configs.describe import DescribingNode, describe_configs
from kafkalite.apis.releases import finder_in, served_rows
from kafkalite.apis.security.acls import describe_acls
from kafkalite.cluster.quorum import controller_id, controller_listener, controller_node
from kafkalite.gateway.api import Eras
from kafkalite.metadata.features import METADATA_VERSION
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterResponse
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import AnsweringNode, keys_where
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from kafkalite.config.releases import Release
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol._generated.messages.describe_acls import (
        DescribeAclsRequest,
        DescribeAclsResponse,
    )
    from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
    from kafkalite.protocol._generated.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    )

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""


_CONTROLLER_REGISTRATIONS: Final = 15
"""The level of `metadata.version`, 3.7-IV0, from which on controllers are registered (KIP-919)."""


def controller_api_finder(
    release: Release, *, unstable: bool = False
) -> Callable[[int], Api | None]:
    """Return a function that finds an API of a release's controllers by its key."""
    rows = {
        key: row
        for key, row in served_rows(release, unstable=unstable).items()
        if key in CONTROLLER_APIS
    }
    find_at_broker = finder_in(rows, rows)

    def find(key: int) -> Api | None:
        api, handler = find_at_broker(key), _HANDLERS.get(key)
        if api is None:
            return None
        if key == ApiKey.API_VERSIONS:
            return new_api_versions_api(rows, _image)._replace(versions=api.versions)
        if handler is None:
            return api
        return api._replace(handler=handler, eras=_ERAS.get(key))

    return find


def _image(call: Call) -> MetadataImage:
    """Return the metadata as the controller knows it."""
    return call.node.cluster.metadata.image


def handle_describe_acls_at_controller(
    call: Call, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Return the ACLs that a filter selects, by resource pattern."""
    return describe_acls(call, request, _image(call))


def handle_describe_configs_at_controller(
    call: Call, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Return the settings of resources; see `configs.describe.describe_configs`."""
    node = call.node
    config, node_id = node.config, node.config.controller_id
    if node_id is None:
        controller = DescribingNode(node.id, config, _image(call), config.node_text(node.id))
    else:
        name = controller_listener(config)
        endpoint = node.endpoints[name]
        static = config.controller_text({name: f"{endpoint.host}:{endpoint.port}"})
        controller = DescribingNode(node_id, config, _image(call), static)
    return describe_configs(controller, request)


def handle_describe_controllers(
    call: Call, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the controller, with the address of the listener for controllers.

    Raises KafkaError. Unlike brokers, controllers describe themselves only to those who may ALTER
    the cluster, and only if `metadata.version` is at least 3.7-IV0.
    """
    if _image(call).features.get(METADATA_VERSION, 0) < _CONTROLLER_REGISTRATIONS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    if call.permissions is not None:
        message = cluster_message(api_name(ApiKey.DESCRIBE_CLUSTER), Operation.ALTER)
        check(call.permissions, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, message)
    if request.endpoint_type == _BROKERS:
        mismatch: ErrorCode = call.era
        raise KafkaError(
            mismatch,
            ErrorText.WRONG_ENDPOINT_TYPE.format(actual="CONTROLLER", requested="BROKER"),
        )
    if request.endpoint_type != _CONTROLLERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    cluster = call.node.cluster
    controller = controller_node(cluster)
    endpoint = controller.endpoints[controller_listener(cluster.config)]
    node_id = controller_id(cluster)
    return DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=cluster.id,
        controller_id=node_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node_id, host=endpoint.host, port=endpoint.port
            )
        ],
        cluster_authorized_operations=(
            cluster_operations(call)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def refuse_at_controller(call: Call, request: object) -> NoReturn:
    """Raise KafkaError: Kafka's controllers list this API, but do not serve it."""
    del call, request
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


_ERAS: Final[Mapping[int, Eras[ErrorCode]]] = {
    ApiKey.DESCRIBE_CLUSTER: Eras(
        (0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    )
}
"""API key → traits of versions: here the code for requests that mean to reach a broker."""

_HANDLERS: Final[Mapping[int, Callable[..., Any]]] = {
    ApiKey.DESCRIBE_ACLS: handle_describe_acls_at_controller,
    ApiKey.DESCRIBE_CONFIGS: handle_describe_configs_at_controller,
    ApiKey.ALTER_CONFIGS: handle_alter_configs_at_controller,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs_at_controller,
    ApiKey.DESCRIBE_CLUSTER: handle_describe_controllers,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: refuse_at_controller,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: refuse_at_controller,
}
"""API key → handler, where it differs from that of brokers."""

CONTROLLER_APIS: Final = (
    keys_where(lambda each: each.node is AnsweringNode.CONTROLLER or each.is_authentication)
    | _HANDLERS.keys()
    | {ApiKey.API_VERSIONS}
)
"""The APIs of Kafka's controllers, except those that only brokers and controllers use."""
