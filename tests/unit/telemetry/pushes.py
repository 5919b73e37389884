"""Metrics as clients push them, built with the messages of OpenTelemetry."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    MetricsData,
)

from kafkalite.protocol._generated.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from kafkalite.protocol._generated.messages.push_telemetry import PushTelemetryRequest
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from kafkalite.testing import Broker

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def serialized(*metrics: Metric) -> bytes:
    """Return metrics as the payload of a push."""
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    scope.metrics.extend(metrics)
    payload: bytes = data.SerializeToString()
    return payload


def counter(
    name: str = "messages.total",
    value: int = 1,
    *,
    temporality: AggregationTemporality.ValueType = DELTA,
    **labels: str,
) -> Metric:
    """Return a counter with one series."""
    metric = Metric(name=name)
    metric.sum.is_monotonic, metric.sum.aggregation_temporality = True, temporality
    point = metric.sum.data_points.add(as_int=value, time_unix_nano=7_000_000)
    for key, text in labels.items():
        point.attributes.add(key=key).value.string_value = text
    return metric


def gauge(name: str, value: float) -> Metric:
    """Return a gauge with one series."""
    metric = Metric(name=name, unit="ms", description="about it")
    metric.gauge.data_points.add(as_double=value)
    return metric


def series(count: int, name: str = "messages.total") -> bytes:
    """Return the payload of a push with one counter with this number of series."""
    metric = Metric(name=name)
    metric.sum.is_monotonic, metric.sum.aggregation_temporality = True, DELTA
    for number in range(count):
        point = metric.sum.data_points.add(as_int=number)
        point.attributes.add(key="topic").value.string_value = f"topic-{number}"
    return serialized(metric)


def push_metrics(
    broker: Broker,
    payload: bytes,
    instance: bytes = bytes([1]) * 16,
    *,
    client_id: bytes | None = b"conformance",
) -> None:
    """Push the metrics of a client, which terminates, to a running broker."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with closing(RawClient(port, client_id=client_id)) as client:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance)
        subscription = client.call(request, 0).subscription_id
        push = PushTelemetryRequest(
            client_instance_id=instance,
            subscription_id=subscription,
            terminating=True,
            metrics=payload,
        )
        assert client.call(push, 0).error_code == 0
