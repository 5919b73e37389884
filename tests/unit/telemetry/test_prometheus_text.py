"""The text for Prometheus: families, labels and values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkalite.telemetry.instances import ClientAttributes
from kafkalite.telemetry.metrics import (
    AcceptedPush,
    ClientMetrics,
    DecodedMetric,
    Distribution,
    Metric,
    PushedMetrics,
)
from kafkalite.telemetry.otlp import MissingPackageError
from kafkalite.telemetry.prometheus_text import prometheus_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence


def prometheus_text(clients: Sequence[ClientMetrics]) -> str:
    return "".join(prometheus_pieces(clients))


def metric(
    name: str, kind: str, value: float | Distribution, *labels: tuple[str, str]
) -> DecodedMetric:
    return DecodedMetric(Metric(name, kind, "ms", "about\nit", labels, value, 0), is_delta=False)


def client(client_id: str | None, *metrics: DecodedMetric) -> ClientMetrics:
    pushed = PushedMetrics()
    attributes = ClientAttributes(f"id-of-{client_id}", client_id, "java", "4", "10.0.0.1", "1")
    pushed.add(AcceptedPush(attributes, 1, "User:a", 100, is_terminating=False, now_ms=5), metrics)
    return pushed.clients()[0]


IDENTITY = (
    'client_id="{0}",client_instance_id="id-of-{0}",client_software_name="java",'
    'client_software_version="4"'
)


@pytest.mark.parametrize("name", [".total", "_total", "", "1"])
def test_a_counter_with_any_name_has_a_family(name: str) -> None:
    text = prometheus_text([client("a", metric(name, "counter", 3), metric("b", "gauge", 4))])
    families = list(text_string_to_metric_families(text))
    assert sorted(sample.value for family in families for sample in family.samples) == [3, 4]


def test_each_name_is_one_family() -> None:
    text = prometheus_text(
        [
            client(
                "a", metric("x.latency.avg", "gauge", 1.5), metric("x.sent.total", "counter", 3)
            ),
            client("b", metric("x.sent.total", "counter", 4, ("topic", 'a"b'))),
        ]
    )
    assert text.splitlines() == [
        "# HELP x_latency_avg about\\nit",
        "# TYPE x_latency_avg gauge",
        f"x_latency_avg{{{IDENTITY.format('a')}}} 1.5",
        "# HELP x_sent_total about\\nit",
        "# TYPE x_sent_total counter",
        f"x_sent_total{{{IDENTITY.format('a')}}} 3.0",
        f'x_sent_total{{{IDENTITY.format("b")},topic="a\\"b"}} 4.0',
    ]


def test_distributions_have_cumulative_buckets_or_quantiles() -> None:
    histogram = Distribution(3, 6.0, ((1.0, 1), (float("inf"), 2)))
    summary = Distribution(2, 8.0, quantiles=((0.5, 4.0),))
    text = prometheus_text(
        [client("a", metric("h", "histogram", histogram), metric("s", "summary", summary))]
    )
    samples = {
        (sample.name, sample.labels.get("le") or sample.labels.get("quantile")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples == {
        ("h_bucket", "1"): 1, ("h_bucket", "+Inf"): 3, ("h_count", None): 3, ("h_sum", None): 6,
        ("s", "0.5"): 4, ("s_count", None): 2, ("s_sum", None): 8,
    }  # fmt: skip


def test_buckets_with_close_bounds_differ() -> None:
    buckets = ((0.1, 1), (1048576.0, 1), (1048577.0, 1))
    text = prometheus_text([client("a", metric("h", "histogram", Distribution(3, 6.0, buckets)))])
    (family,) = text_string_to_metric_families(text)
    bounds = [each.labels["le"] for each in family.samples if each.name == "h_bucket"]
    assert bounds == ["0.1", "1048576", "1048577"]


def test_names_of_clients_cannot_break_the_text() -> None:
    hostile = 'evil"} 1\nother{a="'
    text = prometheus_text(
        [
            client(hostile, metric("7 é\n{}", "gauge", 1), metric("", "gauge", 2)),
            client(None, metric("ok", "updowncounter", -3, ("a b\n", "c\\d"))),
        ]
    )
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {"_7_____", "_", "ok"}
    assert families["_"].samples[0].labels["client_id"] == hostile
    (sample,) = families["ok"].samples
    assert (sample.labels["a_b_"], sample.labels["client_id"]) == ("c\\d", "")


def test_clients_may_disagree_about_the_type() -> None:
    text = prometheus_text(
        [client("a", metric("x", "gauge", 1)), client("b", metric("x", "updowncounter", 2))]
    )
    assert "# TYPE x gauge" in text
    text = prometheus_text(
        [
            client("a", metric("x", "gauge", 1)),
            client("b", metric("x", "summary", Distribution(1, 2))),
        ]
    )
    assert "# TYPE x untyped" in text
    text = prometheus_text(
        [client("a", metric("x", "gauge", 1)), client("b", metric("x", "counter", 2))]
    )
    assert "# TYPE x gauge" in text
    assert "# TYPE x_total counter" in text


def test_labels_have_valid_names_that_are_not_reserved() -> None:
    labels = (("", "a"), ("1x", "b"), ("__name__", "c"), ("le", "d"), ("client_id", "e"))
    text = prometheus_text([client("a", metric("x", "gauge", 1, *labels))])
    (family,) = text_string_to_metric_families(text)
    found = family.samples[0].labels
    assert (found["label_"], found["label_1x"], found["label___name__"]) == ("a", "b", "c")
    assert found["client_id"] == "a"


@pytest.mark.parametrize("order", [1, -1])
def test_a_counter_and_a_gauge_with_its_suffix_are_one_family(order: int) -> None:
    metrics = [metric("x", "counter", 1), metric("x.total", "gauge", 2)]
    text = prometheus_text(
        [client(f"{index}", each) for index, each in enumerate(metrics[::order])]
    )
    assert text.count("# TYPE") == 1
    (family,) = text_string_to_metric_families(text)
    assert sorted((each.name, each.value) for each in family.samples) == [
        ("x_total", 1), ("x_total", 2),
    ]  # fmt: skip


def test_values_that_are_no_numbers_are_written() -> None:
    values = [float("nan"), float("inf"), float("-inf"), 10**30]
    text = prometheus_text(
        [client("a", *(metric(f"x{n}", "gauge", value) for n, value in enumerate(values)))]
    )
    assert len(list(text_string_to_metric_families(text))) == len(values)


def test_large_texts_are_built_in_small_pieces() -> None:
    """A histogram repeats its labels in each sample, and a family may have many series."""
    buckets = tuple((float(bound), 1) for bound in range(1_000))
    histogram = metric("h", "histogram", Distribution(5, 1.0, buckets), ("topic", "x" * 4_000))
    gauges = [metric("g", "gauge", number, ("n", f"{number}")) for number in range(5_000)]
    clients = [client("a", histogram, *gauges), client("b", histogram)]
    pieces = list(prometheus_pieces(clients))
    text = "".join(pieces)
    assert len(text) > 8_000_000
    assert max(map(len, pieces)) < 150_000
    assert text.count("# TYPE") == text.count("# HELP") == 2
    gauge, other = text_string_to_metric_families(text)
    assert [each.value for each in gauge.samples] == sorted(range(5_000), key=str)
    assert len(other.samples) == 2 * 1_002


def test_no_clients_are_no_text() -> None:
    assert prometheus_text([]) == ""


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'kafkalite\[telemetry\]'"):
        prometheus_pieces([])
