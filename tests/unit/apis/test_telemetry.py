"""GetTelemetrySubscriptions and PushTelemetry: requests as bytes to a cluster."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.gateway.call import ConnectionContext
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from kafkalite.protocol._generated.messages.push_telemetry import PushTelemetryRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ONE_UUID, ZERO_UUID, uuid_to_text
from kafkalite.storage.compression import CODECS, compress
from kafkalite.telemetry.instances import ClientAttributes
from tests.cluster.cluster import TestCluster
from tests.unit.telemetry.pushes import counter, gauge, serialized, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkalite.gateway.call import ClientConnection
    from kafkalite.telemetry.metrics import ClientMetrics

ID = bytes(range(1, 17))
ENABLED = {"kafkalite.client.telemetry": "true"}
MAX_BYTES = 1_048_576


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, config=ENABLED)
    yield wire
    wire.end()


def get(wire: TestCluster, instance: bytes = ID, node: int = 1) -> Any:  # noqa: ANN401 - any class
    return wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0, node)


def push(
    wire: TestCluster,
    metrics: bytes,
    instance: bytes = ID,
    node: int = 1,
    **fields: Any,  # noqa: ANN401 - fields of the request
) -> ErrorCode:
    """Push metrics for a new subscription, and return the error code."""
    subscription = get(wire, instance, node).subscription_id
    request = PushTelemetryRequest(
        client_instance_id=instance, subscription_id=subscription, metrics=metrics, **fields
    )
    return ErrorCode(wire.ask(request, 0, node).error_code)


def subscribe(wire: TestCluster, **settings: str) -> None:
    changes = [
        ConfigChange(name.replace("_", "."), AlterOperation.SET, value)
        for name, value in settings.items()
    ]
    errors = wire.cluster.metadata.alter_configs(
        {ConfigResource(ResourceType.CLIENT_METRICS, "s"): changes}, validate_only=False
    )
    assert set(errors.values()) <= {None}


def clients(wire: TestCluster) -> list[ClientMetrics]:
    return [*wire.cluster.pushed_metrics.clients()]


def test_a_client_gets_its_subscription(wire: TestCluster) -> None:
    subscribe(wire, metrics="a.,b.", interval_ms="20000", match="client_id=cl.*")
    answer = get(wire)
    assert answer.error_code == ErrorCode.NONE
    assert answer.client_instance_id == ID
    assert answer.requested_metrics == ["b.", "a."]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (20_000, MAX_BYTES)
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    assert answer.delta_temporality


def test_a_client_without_an_id_gets_one(wire: TestCluster) -> None:
    assert get(wire, ZERO_UUID).client_instance_id not in {ZERO_UUID, ONE_UUID}


def test_an_early_request_gets_only_the_error(wire: TestCluster) -> None:
    get(wire)
    answer = get(wire)
    assert answer.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (answer.client_instance_id, answer.push_interval_ms) == (ZERO_UUID, 0)
    wire.clock.advance(300_000)
    assert get(wire).error_code == ErrorCode.NONE


def test_pushed_metrics_are_stored_with_their_client(wire: TestCluster) -> None:
    wire.contexts[1].client_software = ("java", "4.4.0")
    wire.contexts[1].connection = cast("ClientConnection", SimpleNamespace(port=5_000))
    assert push(wire, serialized(counter(value=2), gauge("g", 0.5))) is ErrorCode.NONE
    (client,) = clients(wire)
    assert client.client == ClientAttributes(
        uuid_to_text(ID), "client", "java", "4.4.0", "127.0.0.1", "5000"
    )
    assert (client.node, client.principal, client.pushes) == (1, "User:ANONYMOUS", 1)
    assert (client.push_interval_ms, client.last_push_ms) == (300_000, wire.clock.now_ms())
    assert [(each.name, each.value) for each in client.metrics] == [
        ("g", 0.5), ("messages.total", 2),
    ]  # fmt: skip
    wire.clock.advance(300_000)
    assert push(wire, serialized(counter(value=3)), terminating=True) is ErrorCode.NONE
    (client,) = clients(wire)
    assert [each.value for each in client.find("messages.total")] == [5]
    assert client.is_terminated


def test_the_address_of_a_client_is_an_attribute(wire: TestCluster) -> None:
    wire.contexts[1] = ConnectionContext(
        node=wire.cluster.nodes[1], listener="PLAINTEXT", client_host="/10.1.2.3"
    )
    push(wire, b"")
    assert clients(wire)[0].client.client_source_address == "10.1.2.3"


@pytest.mark.parametrize("number", CODECS)
def test_every_compression_is_decoded(wire: TestCluster, number: int) -> None:
    code = push(wire, compress(number, series(50)), compression_type=number)
    assert code is ErrorCode.NONE
    assert len(clients(wire)[0].metrics) == 50


@pytest.mark.parametrize("number", [number for number in CODECS if number])
@pytest.mark.parametrize("size", [MAX_BYTES + 1, 50 * MAX_BYTES])
def test_metrics_that_are_too_large_when_decompressed_are_refused(
    wire: TestCluster, number: int, size: int
) -> None:
    bomb = compress(number, bytes(size))
    code = push(wire, bomb, compression_type=number)
    too_large = ErrorCode.TELEMETRY_TOO_LARGE
    assert code is (ErrorCode.INVALID_RECORD if len(bomb) <= MAX_BYTES else too_large)
    assert clients(wire) == []


@pytest.mark.parametrize(
    ("metrics", "compression", "code"),
    [
        (b"\xff", 0, ErrorCode.INVALID_RECORD),
        (b"\xff", 4, ErrorCode.INVALID_RECORD),
        (bytes(MAX_BYTES + 1), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_an_invalid_push_is_refused(
    wire: TestCluster, metrics: bytes, compression: int, code: ErrorCode
) -> None:
    assert push(wire, metrics, compression_type=compression) is code
    assert clients(wire) == []


@pytest.mark.parametrize("reserved", [ZERO_UUID, ONE_UUID])
def test_a_reserved_id_is_refused(wire: TestCluster, reserved: bytes) -> None:
    request = PushTelemetryRequest(client_instance_id=reserved)
    assert wire.ask(request, 0).error_code == ErrorCode.INVALID_REQUEST


def test_a_subscription_is_unknown_after_a_change(wire: TestCluster) -> None:
    subscription = get(wire).subscription_id
    subscribe(wire, metrics="a.")
    request = PushTelemetryRequest(client_instance_id=ID, subscription_id=subscription)
    assert wire.ask(request, 0).error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert get(wire).subscription_id != subscription


def test_an_instance_ends_with_its_connection(wire: TestCluster) -> None:
    get(wire)
    for close in wire.contexts[1].on_close.values():
        close()
    assert get(wire).error_code == ErrorCode.NONE


def test_every_node_has_its_own_instances(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, nodes=2, config=ENABLED)
    for node in (1, 2):
        assert push(wire, serialized(counter(value=node)), node=node) is ErrorCode.NONE
    (client,) = clients(wire)
    assert (client.node, client.pushes, client.metrics[0].value) == (2, 2, 3)
    wire.end()


def test_a_stopped_node_forgets_its_instances(wire: TestCluster) -> None:
    get(wire)
    wire.cluster.nodes[1].stop()
    assert get(wire).error_code == ErrorCode.NONE


def test_without_a_receiver_requests_are_answered_and_metrics_ignored(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path)
    assert push(wire, b"\xff") is ErrorCode.NONE
    assert clients(wire) == []
    wire.end()


def test_without_the_decoder_pushes_are_counted(
    wire: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    assert push(wire, serialized(counter())) is ErrorCode.NONE
    (client,) = clients(wire)
    assert (client.pushes, client.metrics) == (1, ())


def test_no_permission_is_needed(tmp_path: Path) -> None:
    authorizer: Mapping[str, str] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    wire = TestCluster(tmp_path, config={**ENABLED, **authorizer})
    assert push(wire, serialized(counter())) is ErrorCode.NONE
    wire.end()
