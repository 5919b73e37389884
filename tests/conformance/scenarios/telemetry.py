"""Scenarios of client telemetry (KIP-714): subscriptions, pushes and their refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from kafkalite.protocol._generated.messages.push_telemetry import PushTelemetryRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ONE_UUID, ZERO_UUID, uuid_to_text
from kafkalite.storage.compression import CODECS, compress
from tests.conformance.scenarios.configs import CLIENT_METRICS, DELETE, SET, alter
from tests.unit.telemetry.pushes import series

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_API_VERSIONS = ApiVersionsRequest(client_software_name="conformance", client_software_version="7")
_SHORT_INTERVAL_MS = 100
_MAX_BYTES = 1_048_576


def instance_id(number: int) -> bytes:
    """Return an id that no other scenario uses."""
    return bytes([number]) * 16


def get(instance: bytes = ZERO_UUID) -> GetTelemetrySubscriptionsRequest:
    """Make a request for the subscription of an instance."""
    return GetTelemetrySubscriptionsRequest(client_instance_id=instance)


def push(
    instance: bytes,
    subscription: int,
    metrics: bytes = b"",
    *,
    compression: int = 0,
    terminating: bool = False,
) -> PushTelemetryRequest:
    """Make a request that pushes bytes."""
    return PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=subscription,
        metrics=metrics,
        compression_type=compression,
        terminating=terminating,
    )


def request_subscription(
    cluster: ScenarioCluster, name: str, interval_ms: int, **settings: str
) -> None:
    """Set a subscription, and do not wait until it is in effect."""
    values = {"interval.ms": str(interval_ms), "metrics": "", "match": "", **settings}
    operations = [(key, SET, value) for key, value in values.items()]
    cluster.probe(alter(CLIENT_METRICS, name, *operations), 1)


def subscribe(cluster: ScenarioCluster, name: str, interval_ms: int, **settings: str) -> None:
    """Set a subscription, and wait until a new instance has its interval.

    A node learns of a change after the controller has answered. So each call of a scenario has
    another interval, and the later ones are shorter: the shortest interval of all subscriptions is
    in effect.
    """
    request_subscription(cluster, name, interval_ms, **settings)
    cluster.probe(_API_VERSIONS, 3)
    cluster.call_until(
        get(), 0, lambda answer: answer.push_interval_ms == interval_ms, is_recorded=False
    )


def unsubscribe(cluster: ScenarioCluster, *names: str) -> None:
    """Remove subscriptions, and wait until a new instance has none."""
    for name in names:
        keys = ("interval.ms", "metrics", "match")
        cluster.probe(alter(CLIENT_METRICS, name, *((key, DELETE, None) for key in keys)), 1)
    cluster.call_until(
        get(),
        0,
        lambda answer: answer.push_interval_ms == 300_000 and not answer.requested_metrics,
        is_recorded=False,
    )


def the_apis_are_advertised(cluster: ScenarioCluster) -> None:
    answer = cluster.connection("main").call(_API_VERSIONS, 3)
    keys = (GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY)
    cluster.record("rows", [row.api_key for row in answer.api_keys if row.api_key in keys])


def a_new_instance_gets_an_id(cluster: ScenarioCluster) -> None:
    answers = [cluster.connection("main").call(get(), 0) for _ in range(2)]
    ids = {answer.client_instance_id for answer in answers}
    cluster.record("different ids", len(ids - {ZERO_UUID, ONE_UUID}))
    for answer in answers:
        answer.client_instance_id, answer.subscription_id = b"", 0
        cluster.record("subscription", cluster.tree(answer))


def instances_without_subscriptions(cluster: ScenarioCluster) -> None:
    for number in (0x11, 0x12):
        cluster.ask(get(instance_id(number)), 0)
    cluster.ask(get(ONE_UUID), 0)
    cluster.ask(get(bytes([0xFF]) * 16), 0)


def subscriptions_select_clients(cluster: ScenarioCluster) -> None:
    names = [f"{cluster.name}-{index}" for index in range(9)]
    id_text = uuid_to_text(instance_id(0x23))
    matches = (
        ("client_id=conf.*", "a.,b.,c."),
        ("client_id=conf", "partial.match"),
        ("client_software_name=conformance,client_software_version=[0-9]", "software."),
        ("client_software_name=unknown", "no.software"),
        ("client_source_address=127\\.0\\.0\\.1", "address."),
        ("client_source_port=[0-9]+", "port."),
        (f"client_instance_id={id_text}", "instance."),
        ("client_id=none,client_id=(?<all>conformance)", "c.,d."),
        ("", "everyone."),
    )
    for name, (match, metrics) in zip(names, matches, strict=True):
        request_subscription(cluster, name, 200_000, match=match, metrics=metrics)
    # A node applies changes in order, so the others are in effect, too.
    subscribe(cluster, names[-1], 199_000, metrics=matches[-1][1])
    cluster.connection("software").call(_API_VERSIONS, 3)
    for number in (0x21, 0x22, 0x23):
        cluster.ask(get(instance_id(number)), 0, on="main" if number == 0x21 else "software")
    subscribe(cluster, names[3], 190_000, metrics="*")
    for number in (0x21, 0x23):
        cluster.ask(get(instance_id(number)), 0)
    unsubscribe(cluster, *names)


def many_metrics_are_ordered(cluster: ScenarioCluster) -> None:
    metrics = ",".join(f"org.apache.kafka.{word}.{index}" for index in range(9) for word in "xyz")
    subscribe(cluster, cluster.name, 199_000, metrics=metrics)
    cluster.ask(get(instance_id(0x31)), 0)
    subscribe(cluster, f"{cluster.name}-2", 198_000, metrics=f"Aa,BB,{metrics},other")
    cluster.ask(get(instance_id(0x32)), 0)
    unsubscribe(cluster, cluster.name, f"{cluster.name}-2")


def requests_before_the_end_of_the_interval_are_refused(cluster: ScenarioCluster) -> None:
    instance = instance_id(0x41)
    subscription = cluster.ask(get(instance), 0).subscription_id
    cluster.ask(get(instance), 0)
    cluster.ask(push(instance, subscription), 0)
    cluster.ask(push(instance, subscription), 0)
    cluster.ask(get(instance), 0)
    cluster.ask(push(instance, subscription, terminating=True), 0)
    for _ in range(2):
        cluster.ask(push(instance, subscription, terminating=True), 0)
    cluster.ask(push(instance, subscription), 0)
    cluster.ask(push(instance, subscription), 0)
    cluster.ask(get(instance), 0)


def requests_after_the_interval_are_accepted(cluster: ScenarioCluster) -> None:
    subscribe(cluster, cluster.name, _SHORT_INTERVAL_MS, metrics="*")
    instance = instance_id(0x51)
    subscription = cluster.ask(get(instance), 0).subscription_id
    cluster.ask(push(instance, subscription, series(1)), 0)
    for request in (push(instance, subscription, series(1)), get(instance)):
        cluster.call_until(request, 0, lambda answer: answer.error_code == 0)
    unsubscribe(cluster, cluster.name)


def a_push_without_a_request_for_the_subscription(cluster: ScenarioCluster) -> None:
    known, unknown = instance_id(0x61), instance_id(0x62)
    subscription = cluster.ask(get(known), 0).subscription_id
    cluster.ask(push(unknown, subscription), 0)
    cluster.ask(get(unknown), 0)
    for reserved in (ZERO_UUID, ONE_UUID):
        cluster.ask(push(reserved, subscription), 0)


def pushes_with_errors(cluster: ScenarioCluster) -> None:
    requests: list[tuple[dict[str, Any], bytes]] = [
        ({"compression": 5}, b"x"),
        ({"compression": -1}, b"x"),
        ({}, b"x" * (_MAX_BYTES + 1)),
        ({}, b"\xff\xff\xff"),
        ({}, b"\x0a\x7f"),
        *(({"compression": number}, b"no such codec") for number in CODECS if number),
    ]
    for index, (options, metrics) in enumerate(requests):
        instance = instance_id(0x70 + index)
        subscription = cluster.ask(get(instance), 0).subscription_id
        cluster.ask(push(instance, subscription, metrics, **options), 0)
        cluster.ask(get(instance), 0)
        cluster.ask(push(instance, subscription, b""), 0)
    instance = instance_id(0x7F)
    subscription = cluster.ask(get(instance), 0).subscription_id
    for wrong in (subscription + 1, subscription):
        cluster.ask(push(instance, wrong), 0)
    for _ in range(2):
        cluster.ask(get(instance), 0)


def every_compression_is_accepted(cluster: ScenarioCluster) -> None:
    for number in CODECS:
        instance = instance_id(0x80 + number)
        subscription = cluster.ask(get(instance), 0).subscription_id
        metrics = compress(number, series(100))
        cluster.ask(push(instance, subscription, metrics, compression=number), 0)


def the_decompressed_size_is_limited(cluster: ScenarioCluster) -> None:
    # A repeated field that protobuf skips: its number is unknown, its content is zeros.
    exact = b"\xfa\x3f\xfa\xff\x3f" + bytes(_MAX_BYTES - 6)
    assert len(exact) == _MAX_BYTES - 1
    bombs = (exact, bytes(_MAX_BYTES + 1), bytes(64 * _MAX_BYTES))
    for index, bomb in enumerate(bombs):
        for number in CODECS:
            metrics = compress(number, bomb)
            if number == 0 or len(metrics) > _MAX_BYTES:
                continue
            instance = instance_id(0x90 + 8 * index + number)
            subscription = cluster.ask(get(instance), 0).subscription_id
            cluster.ask(push(instance, subscription, metrics, compression=number), 0)
            cluster.ask(get(instance), 0)


def changed_subscriptions_end_the_old_ones(cluster: ScenarioCluster) -> None:
    instance = instance_id(0xB1)
    before = cluster.ask(get(instance), 0).subscription_id
    subscribe(cluster, cluster.name, 180_000, metrics="a.")
    cluster.ask(push(instance, before), 0)
    after = cluster.ask(get(instance), 0).subscription_id
    cluster.ask(push(instance, after), 0)
    cluster.ask(push(instance, after, terminating=True), 0)
    # The change lets a terminated instance start again.
    subscribe(cluster, cluster.name, 170_000, metrics="b.")
    cluster.ask(get(instance), 0)
    unsubscribe(cluster, cluster.name)
    cluster.ask(push(instance, after), 0)


def a_closed_connection_ends_its_instance(cluster: ScenarioCluster) -> None:
    instance = instance_id(0xC1)
    for connection in ("first", "first", "second"):
        cluster.ask(get(instance), 0, on=connection)
    cluster.disconnect("first")
    cluster.call_until(get(instance), 0, lambda answer: answer.error_code == ErrorCode.NONE)


SCENARIOS = (
    the_apis_are_advertised,
    a_new_instance_gets_an_id,
    instances_without_subscriptions,
    subscriptions_select_clients,
    many_metrics_are_ordered,
    requests_before_the_end_of_the_interval_are_refused,
    requests_after_the_interval_are_accepted,
    a_push_without_a_request_for_the_subscription,
    pushes_with_errors,
    every_compression_is_accepted,
    the_decompressed_size_is_limited,
    changed_subscriptions_end_the_old_ones,
    a_closed_connection_ends_its_instance,
)
