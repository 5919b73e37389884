"""The JSON representation of the metrics that clients have pushed."""

from __future__ import annotations

import json
from math import isinf, isnan
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from kafkalite.control.times import iso_of
from kafkalite.telemetry.metrics import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.control.commands import ClientMetricsStatus
    from kafkalite.telemetry.metrics import ClientMetrics, Metric


NumberJson: TypeAlias = float | str
"""A number; one that JSON does not have is text: `NaN`, `Infinity` or `-Infinity`."""

_INFINITY = float("inf")

_METRICS_PER_PIECE = 100
_END = "]}"


class DistributionJson(TypedDict):
    """The value of a histogram or a summary."""

    count: int
    """Number of values."""
    sum: NumberJson
    """Sum of the values."""
    buckets: Sequence[tuple[NumberJson | None, int]]
    """For a histogram: upper bound, null for the last one, and number of values in the bucket."""
    quantiles: Sequence[tuple[NumberJson, NumberJson]]
    """For a summary: quantile, such as 0.99, and its value."""


class MetricJson(TypedDict):
    """One time series of a client, with its latest value."""

    name: str
    """Name in OpenTelemetry, such as `org.apache.kafka.producer.connection.creation.total`."""
    type: str
    """`gauge`, `counter`, `updowncounter`, `histogram` or `summary`."""
    unit: str
    """Unit; empty if the client sends none."""
    description: str
    """Description; empty if the client sends none."""
    labels: Mapping[str, str]
    """Attributes of the series."""
    value: NumberJson | DistributionJson
    """Latest value; that of a counter is the total since the first push. A number that JSON does
    not have is text: `NaN`, `Infinity` or `-Infinity`."""
    time_ms: int
    """Time of the value by the client's clock, in milliseconds since the Unix epoch."""


class ClientMetricsJson(TypedDict):
    """The metrics that one client instance has pushed."""

    client_id: str | None
    """Client id of the requests."""
    client_instance_id: str
    """Id of the instance, which the broker has generated."""
    software_name: str
    """Name of the client's library; `unknown` if the client did not send it."""
    software_version: str
    """Version of the client's library."""
    address: str
    """Address of the client."""
    port: str | None
    """Port of the connection on which the instance was first seen."""
    principal: str
    """Principal of the last push."""
    node: int
    """Node that received the last push."""
    push_interval_ms: int
    """Interval of pushes."""
    pushes: int
    """Number of accepted pushes, including those without metrics."""
    first_push_ms: int
    """Time of the first push, in milliseconds since the Unix epoch."""
    last_push_ms: int
    """Time of the last push, in milliseconds since the Unix epoch."""
    last_push_iso: str
    """The same time in ISO 8601, UTC."""
    terminated: bool
    """Whether the client has announced that it sends no further push."""
    omitted_series: int
    """Number of values that exceeded the memory of a client, 4 MiB, and were not stored. A series
    that is not stored counts once in each push."""
    metrics: Sequence[MetricJson]
    """Metrics by name and labels."""


class ClientsMetricsJson(TypedDict):
    """The metrics of all clients."""

    now_ms: int
    """The broker's time in milliseconds since the Unix epoch."""
    iso: str
    """The same time in ISO 8601, UTC."""
    problem: str | None
    """Why metrics are missing, and what to install; null if none are missing."""
    clients: Sequence[ClientMetricsJson]
    """Clients; the one that pushed last is at the end."""


def client_metrics_to_json(status: ClientMetricsStatus) -> ClientsMetricsJson:
    """Return the JSON representation of the metrics of all clients."""
    return {
        "now_ms": status.now_ms,
        "iso": iso_of(status.now_ms),
        "problem": status.problem,
        "clients": [_client_to_json(each) for each in status.clients],
    }


def client_metrics_json_pieces(status: ClientMetricsStatus) -> Iterator[str]:
    """Yield the text of `client_metrics_to_json` in pieces, each built within milliseconds.

    The metrics of all clients may have tens of megabytes.
    """
    yield _opened(client_metrics_to_json(status._replace(clients=())))
    for number, client in enumerate(status.clients):
        without_metrics = _opened(_client_to_json(client._replace(metrics=())))
        yield f",{without_metrics}" if number else without_metrics
        for start in range(0, len(client.metrics), _METRICS_PER_PIECE):
            metrics = client.metrics[start : start + _METRICS_PER_PIECE]
            piece = _dumps([_metric_to_json(each) for each in metrics])[1:-1]
            yield f",{piece}" if start else piece
        yield _END
    yield _END


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _opened(value: ClientsMetricsJson | ClientMetricsJson) -> str:
    """Return the text of an object up to the elements of its last value, an empty list."""
    return _dumps(value).removesuffix(_END)


def _client_to_json(metrics: ClientMetrics) -> ClientMetricsJson:
    client = metrics.client
    return {
        "client_id": client.client_id,
        "client_instance_id": client.client_instance_id,
        "software_name": client.client_software_name,
        "software_version": client.client_software_version,
        "address": client.client_source_address,
        "port": client.client_source_port,
        "principal": metrics.principal,
        "node": metrics.node,
        "push_interval_ms": metrics.push_interval_ms,
        "pushes": metrics.pushes,
        "first_push_ms": metrics.first_push_ms,
        "last_push_ms": metrics.last_push_ms,
        "last_push_iso": iso_of(metrics.last_push_ms),
        "terminated": metrics.is_terminated,
        "omitted_series": metrics.omitted_series,
        "metrics": [_metric_to_json(each) for each in metrics.metrics],
    }


def _metric_to_json(metric: Metric) -> MetricJson:
    return {
        "name": metric.name,
        "type": metric.type,
        "unit": metric.unit,
        "description": metric.description,
        "labels": dict(metric.labels),
        "value": _value_to_json(metric.value),
        "time_ms": metric.time_ms,
    }


def _value_to_json(value: float | Distribution) -> NumberJson | DistributionJson:
    if not isinstance(value, Distribution):
        return _number_to_json(value)
    return {
        "count": value.count,
        "sum": _number_to_json(value.sum),
        "buckets": [
            (None if bound == _INFINITY else _number_to_json(bound), count)
            for bound, count in value.buckets
        ],
        "quantiles": [
            (_number_to_json(quantile), _number_to_json(at)) for quantile, at in value.quantiles
        ],
    }


def _number_to_json(value: float) -> NumberJson:
    """Return a number; text for a number that JSON does not have."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
