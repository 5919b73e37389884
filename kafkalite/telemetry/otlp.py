"""Decoding of pushed metrics: OpenTelemetry's MetricsData, which is a message of protobuf.

The classes of the messages come from the package opentelemetry-proto, which is imported at the
first push.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalite.ports.extras import install_command
from kafkalite.ports.turns import pause
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.telemetry.metrics import DecodedMetric, Distribution, Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1 import metrics_pb2

MAX_ELEMENTS = 200_000
"""Messages and attributes of one push; a larger push is refused, because its decoding is slow."""

MAX_NESTED_BYTES = 4_096
"""Encoded size of an attribute with a list or a map: its text can be 100 times as long."""

_ELEMENTS_PER_PAUSE = 256
_NO_RECORDED_VALUE = 1  # flag of a point without a value
_DELTA = 1  # AggregationTemporality


class InvalidMetricsError(ValueError):
    """Bytes that are no MetricsData message, or one with too many elements."""


class MissingPackageError(ImportError):
    """A package of the extra `telemetry` is not installed; the text says how to install it."""


def _new_metrics_data() -> metrics_pb2.MetricsData:
    """Return an empty message; raises MissingPackageError if the package is not installed."""
    try:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415 - extra
    except ImportError as error:
        raise MissingPackageError(
            "pushed metrics are not decoded without the extra telemetry: "
            + install_command("telemetry")
        ) from error
    return MetricsData()


def reason_not_decoded() -> str | None:
    """Return why pushed metrics are not decoded, and what to install; None if they are."""
    try:
        _new_metrics_data()
    except MissingPackageError as error:
        return str(error)
    return None


def decode_metrics(payload: bytes) -> list[DecodedMetric]:
    """Return the metrics of a push.

    Raises InvalidMetricsError, or MissingPackageError.
    """
    data = _new_metrics_data()
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - extra

    try:
        data.ParseFromString(payload)
    except (DecodeError, UnicodeDecodeError) as error:
        # Only the implementation in C raises DecodeError for text that is not UTF-8.
        raise InvalidMetricsError(str(error)) from error
    counted = _Counter().counted
    return [
        decoded
        for resource_metrics in counted(data.resource_metrics)
        for resource in (_labels(counted(resource_metrics.resource.attributes)),)
        for scope_metrics in counted(resource_metrics.scope_metrics)
        for metric in counted(scope_metrics.metrics)
        for decoded in _decode_metric(metric, resource, counted)
    ]


class _Counter:
    """Counts the elements of a message, and pauses between them."""

    def __init__(self) -> None:
        self._count = 0

    def counted(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Yield elements; raises InvalidMetricsError after too many of them."""
        for each in elements:
            self._count += 1
            if self._count > MAX_ELEMENTS:
                raise InvalidMetricsError(f"a push has more than {MAX_ELEMENTS} elements")
            if self._count % _ELEMENTS_PER_PAUSE == 0:
                pause()
            yield each


def _decode_metric(
    metric: metrics_pb2.Metric,
    resource: Mapping[str, str],
    counted: Callable[[Iterable[Any]], Iterator[Any]],
) -> Iterator[DecodedMetric]:
    field = metric.WhichOneof("data")
    if field is None:
        return
    data = getattr(metric, field)
    kind: str = field
    if field == "sum":
        kind = "counter" if data.is_monotonic else "updowncounter"
    elif field == "exponential_histogram":
        kind = "histogram"
    # Gauges and summaries have no temporality.
    is_delta = getattr(data, "aggregation_temporality", 0) == _DELTA
    value_of = _VALUES[field]
    # protobuf creates a string at each access. All points share these.
    name, unit, description = metric.name, metric.unit, metric.description
    for point in counted(data.data_points):
        if point.flags & _NO_RECORDED_VALUE:
            continue
        labels = dict(counted(resource.items())) | _labels(counted(point.attributes))
        yield DecodedMetric(
            Metric(
                name=name,
                type=kind,
                unit=unit,
                description=description,
                labels=tuple(sorted(labels.items())),
                value=value_of(point),
                time_ms=point.time_unix_nano // NANOSECONDS_PER_MILLISECOND,
            ),
            is_delta,
        )


def _labels(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {each.key: _text_of(each.value) for each in attributes}


def _text_of(value: AnyValue) -> str:
    """Return an attribute as text: bytes in hex, a list or a map as protobuf's text.

    Raises InvalidMetricsError for a list or a map of more than MAX_NESTED_BYTES.
    """
    field = value.WhichOneof("value")
    if field is None:
        return ""
    content: object = getattr(value, field)
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return content.hex()
    if isinstance(content, bool | int | float):
        return json.dumps(content)
    if value.ByteSize() > MAX_NESTED_BYTES:
        raise InvalidMetricsError(
            f"an attribute with a list or a map has more than {MAX_NESTED_BYTES} bytes"
        )
    return str(content)


def _number(point: metrics_pb2.NumberDataPoint) -> float:
    return point.as_int if point.WhichOneof("value") == "as_int" else point.as_double


def _histogram(point: metrics_pb2.HistogramDataPoint) -> Distribution:
    bounds = [*point.explicit_bounds, float("inf")]
    counts = point.bucket_counts
    buckets = zip(bounds, counts, strict=True) if len(counts) == len(bounds) else ()
    return Distribution(point.count, point.sum, tuple(buckets))


def _exponential_histogram(point: metrics_pb2.ExponentialHistogramDataPoint) -> Distribution:
    return Distribution(point.count, point.sum)


def _summary(point: metrics_pb2.SummaryDataPoint) -> Distribution:
    quantiles = tuple((each.quantile, each.value) for each in point.quantile_values)
    return Distribution(point.count, point.sum, quantiles=quantiles)


_VALUES: dict[str, Callable[[Any], float | Distribution]] = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential_histogram,
    "summary": _summary,
}
