"""ApiVersions: which APIs are served here and in which versions, computed from the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.table import TABLE
from kafkalite.config.releases import Feature
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.versions import Versions
from kafkalite.wire.headers import API_VERSIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import RequestContext
    from kafkalite.apis.table import Row
    from kafkalite.config.releases import Release

VERSIONS = Versions(0, 4)

_PRODUCE_KEY = 0

# librdkafka before 2.11 takes a broker without Produce v0 for one without record batches, so
# Kafka 4 goes on naming versions 0 to 2, though it closes the connection of whoever sends them.
_NAMED_FROM = {_PRODUCE_KEY: 0}

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsEra:
    """What a range of ApiVersions versions means."""

    names_software: bool
    """The client says which library it is (KIP-511)."""
    knows_level_zero: bool
    """The client can read a feature whose lowest level is 0; before, such were left out."""


ERAS = Eras(
    (0, ApiVersionsEra(names_software=False, knows_level_zero=False)),
    (3, ApiVersionsEra(names_software=True, knows_level_zero=False)),
    (4, ApiVersionsEra(names_software=True, knows_level_zero=True)),
)


class ApiVersionsHandler:
    """Answers ApiVersions for one table of APIs."""

    def __init__(self, table: Mapping[int, Row]) -> None:
        self._rows = [
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=_NAMED_FROM.get(key, row.lowest),
                max_version=row.highest,
            )
            for key, row in sorted(table.items())
        ]

    def handle_api_versions(
        self, context: RequestContext, request: ApiVersionsRequest
    ) -> ApiVersionsResponse:
        """Tell what is served, and at which level the cluster's features are."""
        era: ApiVersionsEra = context.era
        if era.names_software and not (
            _SOFTWARE_NAME.fullmatch(request.client_software_name)
            and _SOFTWARE_NAME.fullmatch(request.client_software_version)
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        services = context.services
        image = services.metadata.image
        return ApiVersionsResponse(
            api_keys=self._rows,
            supported_features=[
                ApiVersionsResponse.SupportedFeatureKey(
                    name=name, min_version=feature.lowest, max_version=feature.highest
                )
                for name, feature in _supported(services.config.release, image.features).items()
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
        request: ApiVersionsRequest | None,  # noqa: ARG002 - unreadable when from the future
        code: ErrorCode,
        message: str | None,  # noqa: ARG002 - ApiVersions has no field for it
    ) -> ApiVersionsResponse:
        """Say an error; with UNSUPPORTED_VERSION, which versions of ApiVersions would do."""
        own = [row for row in self._rows if row.api_key == API_VERSIONS_KEY]
        return ApiVersionsResponse(
            error_code=code, api_keys=own if code is ErrorCode.UNSUPPORTED_VERSION else []
        )


def _supported(release: Release, finalized: Mapping[str, int]) -> dict[str, Feature]:
    """Return the features of a release, and what a cluster was given although it has them not."""
    given = {
        name: Feature(0, level, 0)
        for name, level in finalized.items()
        if name not in release.features
    }
    return {**release.features, **given}


def api_versions(table: Mapping[int, Row]) -> Api:
    """Return how ApiVersions is served where `table` is all that is served."""
    answers = ApiVersionsHandler(table)
    return Api(
        key=API_VERSIONS_KEY,
        versions=VERSIONS,
        handler=answers.handle_api_versions,
        refuse=answers.refuse_api_versions,
        eras=ERAS,
    )


APIS = (api_versions(TABLE),)
