"""UpdateFeatures: changes of the cluster's feature levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api, Eras
from kafkalite.metadata.features import FeatureUpdate
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.gateway.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesEra:
    """Traits of a range of UpdateFeatures versions."""

    has_results: bool
    """The response has a row for each feature, if all of them were updated."""


_MAX_UPDATES: Final = 256
"""More updates than there are features: one of these has an error, so that none is made."""

ERAS = Eras(
    (0, UpdateFeaturesEra(has_results=True)),
    (2, UpdateFeaturesEra(has_results=False)),
)


def handle_update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change the requested levels: all of them or none, or before Kafka 4.0 those that are allowed.

    As in Kafka's controller, `AllowDowngrade` of version 0 has no effect.
    """
    by_name = {
        update.feature: FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    }
    if not call.node.config.release.rules.updates_features_together:
        return _update_one_by_one(call, by_name, validate_only=request.validate_only)
    updates = list(islice(by_name.values(), _MAX_UPDATES))
    call.node.cluster.metadata.update_features(updates, validate_only=request.validate_only)
    era: UpdateFeaturesEra = call.era
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=update.feature, error_message=ErrorCode.NONE.name
            )
            for update in request.feature_updates
        ]
        if era.has_results
        else [],
    )


def _update_one_by_one(
    call: Call, updates: Mapping[str, FeatureUpdate], *, validate_only: bool
) -> UpdateFeaturesResponse:
    """Change each requested level that is allowed; return one row for each feature."""
    metadata = call.node.cluster.metadata
    rows = []
    for name in in_steps(sorted(updates)):
        error = metadata.update_features([updates[name]], validate_only=validate_only).get(name)
        rows.append(
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return UpdateFeaturesResponse(error_message="", results=rows)


APIS = (
    Api(
        key=UpdateFeaturesRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 2),
        handler=handle_update_features,
        eras=ERAS,
    ),
)
