"""DescribeClientQuotas and AlterClientQuotas over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.security.client_quotas import refuse_alter_client_quotas
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
VERSIONS = pytest.mark.parametrize("version", [0, 1])
Entity = dict[str, str | None]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path)
    yield wire
    wire.end()


def alter(
    wire: TestCluster, *entries: tuple[Entity, dict[str, float | None]], version: int = 1
) -> list[tuple[int, str | None, Entity]]:
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(
                        key=key, value=value or 0.0, remove=value is None
                    )
                    for key, value in values.items()
                ],
            )
            for entity, values in entries
        ]
    )
    return [
        (
            entry.error_code,
            entry.error_message,
            {each.entity_type: each.entity_name for each in entry.entity},
        )
        for entry in wire.ask(request, version).entries
    ]


def describe(
    wire: TestCluster,
    *components: tuple[str, int, str | None],
    is_strict: bool = False,
    version: int = 1,
) -> tuple[int, str | None, list[tuple[Entity, dict[str, float]]] | None]:
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(
                entity_type=kind, match_type=match_type, match=match
            )
            for kind, match_type, match in components
        ],
        strict=is_strict,
    )
    response = wire.ask(request, version)
    entries = response.entries and [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in response.entries
    ]
    return response.error_code, response.error_message, entries


@VERSIONS
def test_altered_quotas_are_described(wire: TestCluster, version: int) -> None:
    alice: Entity = {"user": "alice"}
    alice_app: Entity = {"client-id": "app", "user": "alice"}
    default: Entity = {"user": None}
    outcome = alter(
        wire,
        (alice, {"producer_byte_rate": 1000.0}),
        (alice_app, {"request_percentage": 12.5}),
        (default, {"consumer_byte_rate": 5.0}),
        version=version,
    )
    assert outcome == [(0, None, alice), (0, None, alice_app), (0, None, default)]
    everything = [
        (alice, {"producer_byte_rate": 1000.0}),
        (alice_app, {"request_percentage": 12.5}),
        (default, {"consumer_byte_rate": 5.0}),
    ]
    # In the order of Kafka's hash map, whose table has four places.
    assert describe(wire, version=version) == (0, "", [everything[2], *everything[:2]])
    exact = describe(wire, ("user", EXACT, "alice"), version=version)
    assert exact == (0, "", everything[:2])
    strict = describe(wire, ("user", EXACT, "alice"), is_strict=True, version=version)
    assert strict == (0, "", everything[:1])
    assert describe(wire, ("user", DEFAULT, None), version=version) == (0, "", everything[2:])
    assert describe(wire, ("client-id", SPECIFIED, None), version=version) == (
        0, "", everything[1:2],
    )  # fmt: skip
    alter(wire, (alice, {"producer_byte_rate": None}), version=version)
    assert describe(wire, version=version) == (0, "", [everything[2], everything[1]])


def test_quotas_are_described_in_the_order_of_kafka(wire: TestCluster) -> None:
    """Kafka 4.4.0 returned these orders."""
    rates = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    for number in range(7):
        entity: Entity = {"user": f"u{number}", **({"client-id": "c"} if number % 2 else {})}
        alter(wire, (entity, dict.fromkeys(rates[: 1 + number % 3], 1.0)))
    alter(wire, ({"user": "u1", "client-id": "c"}, {"controller_mutation_rate": 2.0}))
    alter(
        wire,
        ({"client-id": "z"}, dict.fromkeys((*rates, "controller_mutation_rate"), 1.0)),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 2.0}),
    )
    _, _, entries = describe(wire)
    assert entries is not None
    names = [entity.get("user") or next(iter(entity.values())) for entity, _ in entries]
    assert names == ["u5", "1.2.3.4", "u2", "u4", "z", "u0", "u3", "u1", "u6"]
    keys = {name: list(values) for name, (_, values) in zip(names, entries, strict=True)}
    assert keys["u5"] == ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]
    assert keys["u1"] == ["consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate"]
    assert keys["z"] == [
        "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate",
        "request_percentage",
    ]  # fmt: skip


def test_each_entity_succeeds_or_fails_on_its_own(wire: TestCluster) -> None:
    bad: Entity = {"user": "bob"}
    good: Entity = {"user": "alice"}
    outcome = alter(wire, (bad, {"speed": 1.0}), (good, {"request_percentage": 1.0}))
    assert outcome == [
        (0, None, good),
        (ErrorCode.INVALID_REQUEST, "Invalid configuration key speed", bad),
    ]


def test_entities_are_in_the_order_of_a_java_hash_map(wire: TestCluster) -> None:
    entities: list[Entity] = [
        {"user": f"user-{number}", **({} if number % 3 else {"client-id": None})}
        for number in range(14)
    ]
    quota: dict[str, float | None] = {"request_percentage": 1.0}
    outcome = alter(wire, *((each, quota) for each in entities))
    # The order in which Java 17 iterates over a HashMap of these entities.
    expected = (7, 8, 13, 11, 4, 6, 10, 9, 2, 3, 12, 5, 1, 0)
    assert [entity for _, _, entity in outcome] == [entities[number] for number in expected]


def test_a_refusal_has_the_entities_of_the_request_in_its_order() -> None:
    names = [f"user-{number}" for number in range(20)]
    entity = [
        AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=name) for name in names
    ]
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequest.EntryData(entity=entity, ops=[])]
    )
    refused = refuse_alter_client_quotas(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert [each.entity_name for each in refused.entries[0].entity] == names


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("team", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type team"),
        (
            [("user", EXACT, None)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "a")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", SPECIFIED, "a")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        (
            [("ip", DEFAULT, None), ("user", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            ),
        ),
    ],
)
def test_invalid_filters_are_refused(
    wire: TestCluster, components: list[tuple[str, int, str | None]], code: int, message: str
) -> None:
    assert describe(wire, *components) == (code, message, None)
