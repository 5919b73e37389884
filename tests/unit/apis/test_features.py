"""UpdateFeatures: responses of each version, and ApiVersions after a change."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.apis.api_versions import APIS as API_VERSIONS
from kafkalite.apis.features import APIS
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster

(UPDATE,) = APIS


def update(
    cluster: MetadataCluster,
    *updates: tuple[str, int, int],
    version: int = 2,
    validate_only: bool = False,
) -> Any:  # noqa: ANN401 - a generated response
    row = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        feature_updates=[
            row(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level, upgrade_type in updates
        ],
        validate_only=validate_only,
    )
    return cluster.ask(UPDATE, request, version)


@pytest.mark.parametrize("version", [0, 1])
def test_each_updated_feature_has_a_row_before_version_2(version: int) -> None:
    updates = (("group.version", 1, 1), ("share.version", 2, 1))
    answer = update(MetadataCluster(), *updates, version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert [(row.feature, row.error_code, row.error_message) for row in answer.results] == [
        ("group.version", 0, "NONE"),
        ("share.version", 0, "NONE"),
    ]


def test_a_repeated_feature_has_repeated_rows() -> None:
    answer = update(MetadataCluster(), ("group.version", 1, 2), ("group.version", 1, 3), version=1)
    assert [row.feature for row in answer.results] == ["group.version", "group.version"]


def test_version_2_has_one_result() -> None:
    answer = update(MetadataCluster(), ("group.version", 1, 1))
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_refused_level_refuses_all(version: int) -> None:
    cluster = MetadataCluster()
    answer = update(cluster, ("group.version", 0, 2), ("share.version", 5, 1), version=version)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message == (
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 5 for feature share.version. Local controller 1 only supports versions 0-2"
    )
    assert cluster.image.features["group.version"] == 1


@pytest.mark.parametrize("version", [0, 1])
def test_before_kafka_4_0_each_feature_has_a_result(version: int) -> None:
    cluster = MetadataCluster(as_version="3.9")
    updates = (("metadata.version", 21, 1), ("group.version", 1, 1), ("kraft.version", 2, 1))
    answer = update(cluster, *updates, version=version)
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [(row.feature, row.error_code, row.error_message) for row in answer.results] == [
        (
            "group.version",
            ErrorCode.INVALID_UPDATE_VERSION,
            (
                "Invalid update version 1 for feature group.version. Local controller 1 does not "
                "support this feature."
            ),
        ),
        (
            "kraft.version",
            ErrorCode.INVALID_UPDATE_VERSION,
            (
                "Invalid update version 2 for feature kraft.version. Local controller 1 only "
                "supports versions 0-1"
            ),
        ),
        ("metadata.version", 0, None),
    ]


@pytest.mark.parametrize("name", ["{}", "{:08000}"])
def test_one_of_many_unknown_features_is_named(name: str) -> None:
    updates = (("group.version", 0, 2), *((name.format(n), 1, 1) for n in range(3_000)))
    cluster = MetadataCluster()
    answer = update(cluster, *updates)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Invalid update version 1 for feature " in answer.error_message
    assert "does not support this feature" in answer.error_message
    assert cluster.image.features["group.version"] == 1


def test_validation_changes_nothing() -> None:
    cluster = MetadataCluster()
    before = cluster.image.version
    assert update(cluster, ("group.version", 0, 2), validate_only=True).error_code == 0
    assert cluster.image.version == before


def test_api_versions_has_the_new_levels_and_epoch() -> None:
    cluster = MetadataCluster()
    request = ApiVersionsRequest(client_software_name="n", client_software_version="1")

    def finalized() -> tuple[int, dict[str, int]]:
        answer = cluster.ask(API_VERSIONS[0], request)
        levels = {row.name: row.max_version_level for row in answer.finalized_features}
        return answer.finalized_features_epoch, levels

    epoch, levels = finalized()
    update(cluster, ("share.version", 0, 2), ("transaction.version", 1, 2))
    new_epoch, new_levels = finalized()
    assert new_epoch == epoch + 2
    del levels["share.version"]
    assert new_levels == levels | {"transaction.version": 1}
