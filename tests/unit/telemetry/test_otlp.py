"""Decoding of pushed metrics, also of hostile ones."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as Message
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kafkalite.ports.extras import install_command
from kafkalite.telemetry import otlp
from kafkalite.telemetry.metrics import Distribution, Metric
from kafkalite.telemetry.otlp import (
    InvalidMetricsError,
    MissingPackageError,
    decode_metrics,
    reason_not_decoded,
)
from tests.unit.telemetry.pushes import CUMULATIVE, counter, gauge, serialized, series


def field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf with a length of up to 16383 bytes."""
    length = bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
    return bytes([number << 3 | 2]) + length + content


def test_numbers_are_decoded_with_their_labels() -> None:
    payload = serialized(counter(value=3, topic="orders", a="b"), gauge("latency", 1.5))
    total, latency = decode_metrics(payload)
    labels = (("a", "b"), ("topic", "orders"))
    assert total.metric == Metric("messages.total", "counter", "", "", labels, 3, 7)
    assert total.is_delta
    assert latency.metric == Metric("latency", "gauge", "ms", "about it", (), 1.5, 0)
    assert not latency.is_delta


def test_cumulative_and_falling_sums_are_distinguished() -> None:
    falling = counter(temporality=CUMULATIVE)
    falling.sum.is_monotonic = False
    rising, other = decode_metrics(serialized(counter(temporality=CUMULATIVE), falling))
    assert (rising.metric.type, rising.is_delta) == ("counter", False)
    assert (other.metric.type, other.is_delta) == ("updowncounter", False)


def test_distributions_are_decoded() -> None:
    histogram, exponential, summary = Message(name="h"), Message(name="e"), Message(name="s")
    histogram.histogram.data_points.add(
        count=3, sum=6.0, explicit_bounds=[1.0], bucket_counts=[1, 2]
    )
    histogram.histogram.data_points.add(count=3, sum=6.0, bucket_counts=[1, 2, 3])
    exponential.exponential_histogram.data_points.add(count=2, sum=5.0)
    summary.summary.data_points.add(count=1, sum=4.0).quantile_values.add(quantile=0.5, value=4.0)
    found = [each.metric for each in decode_metrics(serialized(histogram, exponential, summary))]
    assert [(each.type, each.value) for each in found] == [
        ("histogram", Distribution(3, 6.0, ((1.0, 1), (float("inf"), 2)))),
        ("histogram", Distribution(3, 6.0)),
        ("histogram", Distribution(2, 5.0)),
        ("summary", Distribution(1, 4.0, quantiles=((0.5, 4.0),))),
    ]


def test_labels_of_the_resource_belong_to_each_series() -> None:
    data = MetricsData()
    resource = data.resource_metrics.add()
    for key in ("client_rack", "topic"):
        resource.resource.attributes.add(key=key).value.string_value = "of resource"
    resource.scope_metrics.add().metrics.append(counter(topic="of point"))
    (decoded,) = decode_metrics(data.SerializeToString())
    assert dict(decoded.metric.labels) == {"client_rack": "of resource", "topic": "of point"}


def test_attributes_of_all_types_are_text() -> None:
    metric = counter()
    attributes = metric.sum.data_points[0].attributes
    attributes.add(key="bool").value.bool_value = True
    attributes.add(key="bytes").value.bytes_value = b"\xff"
    attributes.add(key="double").value.double_value = 0.5
    attributes.add(key="int").value.int_value = 7
    attributes.add(key="list").value.array_value.values.add(int_value=1)
    attributes.add(key="nothing")
    (decoded,) = decode_metrics(serialized(metric))
    labels = dict(decoded.metric.labels)
    assert "int_value: 1" in labels.pop("list")
    assert labels == {"bool": "true", "bytes": "ff", "double": "0.5", "int": "7", "nothing": ""}


def test_points_without_a_value_are_skipped() -> None:
    metric = counter()
    metric.sum.data_points[0].flags = 1
    assert decode_metrics(serialized(metric, Message(name="without data"))) == []


def test_a_push_without_metrics_is_empty() -> None:
    assert decode_metrics(b"") == []


NOT_UTF_8 = serialized(counter()).replace(b"messages", b"message\xff")


@pytest.mark.parametrize(
    "payload", [b"\xff", b"\x0a\x7f", b"\x0a" * 1_000, series(2)[:-3], NOT_UTF_8]
)
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(InvalidMetricsError):
        decode_metrics(payload)


def test_a_deeply_nested_attribute_is_refused() -> None:
    value = b""
    for _ in range(200):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    # Attributes of the resource of the first metric.
    payload = field(1, field(1, field(1, field(1, b"deep") + field(2, value))))
    with pytest.raises(InvalidMetricsError):
        decode_metrics(payload)


def test_the_number_of_elements_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_ELEMENTS", 20)
    assert len(decode_metrics(series(8))) == 8
    with pytest.raises(InvalidMetricsError, match="more than 20 elements"):
        decode_metrics(series(9))
    # Empty messages take two bytes each.
    with pytest.raises(InvalidMetricsError, match="more than 20 elements"):
        decode_metrics(b"\x0a\x00" * 21)


def test_points_share_the_texts_of_their_metric_and_resource() -> None:
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="k").value.string_value = "x" * 10_000
    metric = resource.scope_metrics.add().metrics.add(name="n" * 100, description="d" * 10_000)
    for number in range(3):
        metric.gauge.data_points.add(as_int=number)
    first, *others = (each.metric for each in decode_metrics(data.SerializeToString()))
    for other in others:
        assert other.name is first.name
        assert other.description is first.description
        assert other.labels[0][1] is first.labels[0][1]


def test_the_size_of_nested_attributes_is_limited() -> None:
    metric = counter()
    value = metric.sum.data_points[0].attributes.add(key="list").value
    value.array_value.values.add(string_value="x" * (otlp.MAX_NESTED_BYTES - 20))
    assert len(decode_metrics(serialized(metric))) == 1
    value.array_value.values.add(string_value="x" * 20)
    with pytest.raises(InvalidMetricsError, match="a list or a map has more than 4096 bytes"):
        decode_metrics(serialized(metric))


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(payload: bytes) -> None:
    try:
        decode_metrics(payload)
    except InvalidMetricsError:
        return


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'kafkalite\[telemetry\]'"):
        decode_metrics(b"")


def test_the_reason_why_metrics_are_not_decoded_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason_not_decoded() is None
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    assert install_command("telemetry") in str(reason_not_decoded())
