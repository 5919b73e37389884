"""Subscriptions: which clients they select, and what the selected clients push."""

from __future__ import annotations

import pytest

from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.telemetry.subscriptions import (
    DEFAULT_INTERVAL_MS,
    InstanceSubscription,
    parse_subscriptions,
    subscription_id,
    subscription_of,
    subscription_settings,
)

ID = bytes.fromhex("0102030405060708090a0b0c0d0e0f80")
CLIENT = {
    "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
    "client_id": "orders-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.4.0",
    "client_source_address": "10.0.0.7",
    "client_source_port": None,
}


def selected(**settings: dict[str, str]) -> InstanceSubscription:
    return subscription_of(parse_subscriptions(settings), ID, CLIENT)


def test_a_client_without_subscriptions_pushes_nothing_every_five_minutes() -> None:
    found = selected()
    assert (found.metrics, found.interval_ms) == ([], DEFAULT_INTERVAL_MS)
    assert found.id == subscription_id([], 300_000, ID)


def test_all_subscriptions_of_a_client_are_joined() -> None:
    found = selected(
        one={"metrics": "a.,b.", "interval.ms": "60000"},
        two={"metrics": "b.,c.", "interval.ms": "20000", "match": "client_id=orders-.*"},
        other={"metrics": "d.", "interval.ms": "100", "match": "client_id=payments"},
    )
    assert (sorted(found.metrics), found.interval_ms) == (["a.", "b.", "c."], 20_000)


def test_an_interval_is_at_most_the_default() -> None:
    assert selected(slow={"interval.ms": "3600000"}).interval_ms == DEFAULT_INTERVAL_MS


def test_a_star_replaces_all_other_metrics() -> None:
    assert selected(one={"metrics": "a."}, two={"metrics": "*,b."}).metrics == ["*"]


@pytest.mark.parametrize(
    ("match", "metrics"),
    [
        ("client_id=orders-1", ["a."]),
        ("client_id=orders", []),
        ("client_id=orders.*,client_software_version=4[.].*", ["a."]),
        ("client_id=orders.*,client_software_version=3[.].*", []),
        ("client_source_address=10[.].*", ["a."]),
        ("client_source_port=.*", []),
        ("client_instance_id=AAEC.*", ["a."]),
    ],
)
def test_every_selector_must_match_the_whole_value(match: str, metrics: list[str]) -> None:
    assert selected(one={"metrics": "a.", "match": match}).metrics == metrics


def test_metrics_are_in_the_order_of_a_hash_set() -> None:
    """The hash codes of Aa and BB are equal, so that they are in one bucket."""
    assert selected(one={"metrics": "b,a,BB,Aa"}).metrics == ["BB", "Aa", "a", "b"]


@pytest.mark.parametrize(
    ("metrics", "interval_ms", "expected"),
    [("", 300_000, -725_132_450), ("*", 100, 899_611_681), ("a.,b.", 20_000, 1_054_995_043)],
)
def test_the_id_is_that_of_kafka(metrics: str, interval_ms: int, expected: int) -> None:
    """Java's HashSet, CRC32C and Kafka's Uuid give these numbers."""
    found = selected(one={"metrics": metrics, "interval.ms": str(interval_ms)})
    assert found.id == subscription_id(found.metrics, interval_ms, ID) == expected


def test_only_resources_of_the_type_are_subscriptions() -> None:
    metrics = {"metrics": "a."}
    configs = {
        ConfigResource(ResourceType.CLIENT_METRICS, "s"): metrics,
        ConfigResource(ResourceType.CLIENT_METRICS, "removed"): {},
        ConfigResource(ResourceType.TOPIC, "t"): {"retention.ms": "1"},
    }
    assert subscription_settings(configs) == {"s": metrics}


def test_unchanged_subscriptions_are_not_parsed_again() -> None:
    settings = {"one": {"metrics": "a."}, "two": {"match": "client_id=x"}}
    before = parse_subscriptions(settings)
    after = parse_subscriptions({**settings, "two": {"match": "client_id=y"}}, before)
    assert after["one"] is before["one"]
    assert after["two"].subscription.selectors["client_id"]("y")
    assert set(parse_subscriptions({"two": settings["two"]}, after)) == {"two"}
