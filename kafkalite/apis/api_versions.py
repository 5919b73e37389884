"""ApiVersions: the served APIs and versions, computed from the table of APIs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.table import TABLE
from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.gateway.api import Api, Eras
from kafkalite.metadata.features import supported_features
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.table import Row
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import MetadataImage

VERSIONS = Versions(0, 5)

_TELEMETRY_APIS = frozenset((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))
"""APIs that Kafka serves always, but offers only if it has a receiver of client metrics."""

# librdkafka before 2.11 assumes that a broker without Produce v0 does not support record batches.
# So Kafka 4 still lists versions 0 to 2, although it closes the connection if a client uses them.
_LISTED_FROM = {("Produce", 3): 0}
"""API and lowest served version → lowest listed version, if it differs."""

_NO_NODE = -1
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsEra:
    """Traits of a range of ApiVersions versions."""

    has_client_software: bool
    """The client sends the name and version of its library (KIP-511)."""
    knows_level_zero: bool
    """The client can read features with lowest level 0; earlier versions omit them."""
    names_node: bool = False
    """The client can name the cluster and the node that it means to reach (KIP-1242)."""


ERAS = Eras(
    (0, ApiVersionsEra(has_client_software=False, knows_level_zero=False)),
    (3, ApiVersionsEra(has_client_software=True, knows_level_zero=False)),
    (4, ApiVersionsEra(has_client_software=True, knows_level_zero=True)),
    (5, ApiVersionsEra(has_client_software=True, knows_level_zero=True, names_node=True)),
)


class ApiVersionsHandler:
    """Answers ApiVersions for one table of APIs; see `new_api_versions_api`."""

    def __init__(self, table: Mapping[int, Row], image_of: Callable[[Call], MetadataImage]) -> None:
        self._image_of = image_of
        self._rows_with_telemetry = [
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=_LISTED_FROM.get((row.name, row.lowest), row.lowest),
                max_version=row.highest,
            )
            for key, row in sorted(table.items())
        ]
        self._rows = [
            row for row in self._rows_with_telemetry if row.api_key not in _TELEMETRY_APIS
        ]

    def handle_api_versions(self, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """Return the served APIs, and the feature levels of the cluster."""
        era: ApiVersionsEra = call.era
        if era.has_client_software and not (
            _SOFTWARE_NAME.fullmatch(request.client_software_name)
            and _SOFTWARE_NAME.fullmatch(request.client_software_version)
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        node = call.node
        if era.names_node:
            _check_node(node, request)
        image = self._image_of(call)
        rows = self._rows
        if node.config.bool(CLIENT_TELEMETRY):
            rows = self._rows_with_telemetry
        if request.client_software_name:
            software = request.client_software_name, request.client_software_version
            call.context.client_software = software
        return ApiVersionsResponse(
            api_keys=rows,
            supported_features=[
                ApiVersionsResponse.SupportedFeatureKey(
                    name=name, min_version=feature.lowest, max_version=feature.highest
                )
                for name, feature in supported_features(node.config.release).items()
                if feature.lowest or era.knows_level_zero
            ],
            finalized_features_epoch=image.version,
            finalized_features=[
                ApiVersionsResponse.FinalizedFeatureKey(
                    name=name, min_version_level=level, max_version_level=level
                )
                for name, level in sorted(image.features.items())
            ],
        )

    def refuse_api_versions(
        self,
        request: ApiVersionsRequest | None,  # noqa: ARG002 - None if its version is unknown
        code: ErrorCode,
        message: str | None,  # noqa: ARG002 - ApiVersions has no field for it
    ) -> ApiVersionsResponse:
        """Return the response with an error; with UNSUPPORTED_VERSION, also the known versions."""
        api_versions_rows = [row for row in self._rows if row.api_key == API_VERSIONS_KEY]
        return ApiVersionsResponse(
            error_code=code,
            api_keys=api_versions_rows if code is ErrorCode.UNSUPPORTED_VERSION else [],
        )


def _check_node(node: Node, request: ApiVersionsRequest) -> None:
    """Raise KafkaError unless the request names this node of this cluster, or none."""
    has_cluster, has_node = request.cluster_id is not None, request.node_id != _NO_NODE
    if has_cluster is not has_node:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if has_cluster and (request.cluster_id, request.node_id) != (node.cluster.id, node.id):
        raise KafkaError(
            ErrorCode.REBOOTSTRAP_REQUIRED,
            f"the client means to reach node {request.node_id} of cluster {request.cluster_id}, "
            f"this is node {node.id} of cluster {node.cluster.id}",
        )


def new_api_versions_api(
    table: Mapping[int, Row],
    image_of: Callable[[Call], MetadataImage] = lambda call: call.node.image,
) -> Api:
    """Return the ApiVersions API for a table of served APIs.

    `image_of` returns the metadata with the features, by default as the node knows it.
    """
    handler = ApiVersionsHandler(table, image_of)
    return Api(
        key=API_VERSIONS_KEY,
        versions=VERSIONS,
        handler=handler.handle_api_versions,
        refusal=handler.refuse_api_versions,
        eras=ERAS,
    )


APIS = (new_api_versions_api(TABLE),)
