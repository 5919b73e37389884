"""APIs, features and settings that a broker advertises, as one table of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.table import TABLE
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.api_keys import ApiKey
from tests.conformance.raw import RawClient
from tests.conformance.scenarios.configs import BROKER, GROUP, OWN_KEYS, PLACES, TOPIC, describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.scenario_cluster import ScenarioCluster


class ApiVersions(NamedTuple):
    """The contents of an ApiVersions response."""

    apis: dict[int, tuple[int, int]]
    supported: dict[str, tuple[int, int]]
    finalized: dict[str, tuple[int, int]]


def api_versions(port: int, version: int) -> ApiVersions:
    """Return the APIs and features of a broker."""
    client = RawClient(port)
    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1.0"
    )
    answer = client.call(request, version)
    client.close()
    return ApiVersions(
        {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys},
        {row.name: (row.min_version, row.max_version) for row in answer.supported_features},
        {
            row.name: (row.min_version_level, row.max_version_level)
            for row in answer.finalized_features
        },
    )


def advertised(cluster: ScenarioCluster, topic: str) -> Mapping[str, str | None]:
    """Return the APIs, features and settings of a broker and a topic, by kind and name.

    APIs that kafkalite does not serve are omitted, and so are kafkalite's own settings.
    """
    answer = api_versions(cluster.port, 4)
    names = {int(key): key.name for key in ApiKey}
    table: dict[str, str | None] = {
        f"API {names.get(key, key)}": f"up to {highest}"
        for key, (_, highest) in answer.apis.items()
        if key in TABLE or key not in names
    }
    for name, (lowest, highest) in answer.supported.items():
        _, level = answer.finalized[name]
        table[f"feature {name}"] = f"{lowest}-{highest}={level}"
    resources = {"broker": (BROKER, "1"), "topic": (TOPIC, topic), "group": (GROUP, topic)}
    for kind, (number, resource) in resources.items():
        (result,) = cluster.probe(describe(number, resource), 4).results
        table |= {
            f"{kind} setting {row.name}": row.value
            for row in result.configs
            if row.name not in PLACES | OWN_KEYS
        }
    return table
