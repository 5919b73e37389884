"""Quotas of users, client ids and addresses: altered, described, refused, applied to mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

Entity = tuple[tuple[str, str | None], ...]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
VERSIONS = (0, 1)


def _alter(*alterations: tuple[Entity, dict[str, float | None]]) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(
                        key=key, value=value or 0.0, remove=value is None
                    )
                    for key, value in values.items()
                ],
            )
            for entity, values in alterations
        ]
    )


def _describe(
    *components: tuple[str, int, str | None], is_strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(
                entity_type=kind, match_type=match_type, match=match
            )
            for kind, match_type, match in components
        ],
        strict=is_strict,
    )


def quotas_are_altered_and_described(cluster: ScenarioCluster) -> None:
    """Each kind of entity, with and without the default entity."""
    entities: tuple[Entity, ...] = (
        (("user", "alice"),),
        (("user", None),),
        (("client-id", "app"),),
        (("client-id", "app"), ("user", "alice")),
        (("client-id", None), ("user", "alice")),
    )
    for version in VERSIONS:
        for number, entity in enumerate(entities, 1):
            cluster.ask(_alter((entity, {"producer_byte_rate": 1e9 + number})), version)
            exact = [(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]
            cluster.call_until(_describe(*exact, is_strict=True), version, _has_entries)
        cluster.ask(_describe(("client-id", EXACT, "app"), ("user", SPECIFIED, None)), version)
        for entity in entities:
            cluster.ask(_alter((entity, {"producer_byte_rate": None})), version)
        cluster.call_until(_describe(("user", EXACT, "alice")), version, _is_empty)
    address: Entity = (("ip", "10.1.2.3"),)
    cluster.ask(_alter((address, {"connection_creation_rate": 1000.0})), 1)
    cluster.call_until(_describe(("ip", EXACT, "10.1.2.3")), 1, _has_entries)
    cluster.ask(_alter((address, {"connection_creation_rate": None})), 1)
    cluster.call_until(_describe(("ip", EXACT, "10.1.2.3")), 1, _is_empty)


def _has_entries(response: Any) -> bool:  # noqa: ANN401 - the response class
    return bool(response.entries)


def _is_empty(response: Any) -> bool:  # noqa: ANN401 - the response class
    return not response.entries


def invalid_quotas_are_refused(cluster: ScenarioCluster) -> None:
    """Every check of an entity, a key and a value."""
    bob: Entity = (("user", "bob"),)
    refused: tuple[tuple[Entity, dict[str, float | None]], ...] = (
        ((), {"producer_byte_rate": 1.0}),
        ((("team", "a"),), {"producer_byte_rate": 1.0}),
        ((("user", ""),), {"producer_byte_rate": 1.0}),
        ((("ip", "10.0.0.1"), ("user", "a")), {"connection_creation_rate": 1.0}),
        ((("ip", "10.0.0.1"),), {"producer_byte_rate": 1.0}),
        (bob, {"connection_creation_rate": 1.0}),
        (bob, {"speed": 1.0}),
        (bob, {"producer_byte_rate": -1.0}),
        (bob, {"producer_byte_rate": 1.5}),
        (bob, {"producer_byte_rate": 1e20}),
        ((("ip", "10.0.0.1"),), {"connection_creation_rate": 1e10}),
        (bob, {"speed": None}),
        (bob, {}),
    )
    for version in VERSIONS:
        for alteration in refused:
            cluster.ask(_alter(alteration), version)
    cluster.ask(_describe(("user", EXACT, "bob")), 1)


def invalid_filters_are_refused(cluster: ScenarioCluster) -> None:
    """Every check of a filter."""
    for version in VERSIONS:
        cluster.ask(_describe(("", EXACT, "a")), version)
        cluster.ask(_describe(("user", EXACT, "a"), ("user", DEFAULT, None)), version)
        cluster.ask(_describe(("team", EXACT, "a")), version)
        cluster.ask(_describe(("user", EXACT, None)), version)
        cluster.ask(_describe(("user", DEFAULT, "a")), version)
        cluster.ask(_describe(("user", SPECIFIED, "a")), version)
        cluster.ask(_describe(("user", 3, None)), version)
        cluster.ask(_describe(("ip", DEFAULT, None), ("user", DEFAULT, None)), version)


SCENARIOS = (
    quotas_are_altered_and_described,
    invalid_quotas_are_refused,
    invalid_filters_are_refused,
)
