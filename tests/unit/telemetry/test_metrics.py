"""Pushed metrics: totals of deltas, and the limits of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.telemetry import metrics as module
from kafkalite.telemetry.instances import ClientAttributes
from kafkalite.telemetry.metrics import (
    AcceptedPush,
    DecodedMetric,
    Distribution,
    Metric,
    PushedMetrics,
)

if TYPE_CHECKING:
    import pytest


def accepted(instance: str = "i", now_ms: int = 5, *, is_terminating: bool = False) -> AcceptedPush:
    client = ClientAttributes(instance, f"client-{instance}", "java", "4", "10.0.0.1", "1")
    return AcceptedPush(client, 1, "User:a", 100, is_terminating, now_ms)


def value(
    number: float | Distribution, *, is_delta: bool = False, name: str = "m", label: str = "x"
) -> DecodedMetric:
    metric = Metric(name, "counter", "", "", (("topic", label),), number, 9)
    return DecodedMetric(metric, is_delta)


def test_deltas_are_added_up_and_other_values_replaced() -> None:
    pushed = PushedMetrics()
    for change, current in ((2, 5.0), (3, 6.0)):
        pushed.add(accepted(), [value(change, is_delta=True), value(current, name="gauge")])
    (client,) = pushed.clients()
    assert [(each.name, each.value) for each in client.metrics] == [("gauge", 6.0), ("m", 5)]


def test_each_series_has_its_own_total() -> None:
    pushed = PushedMetrics()
    pushed.add(accepted(), [value(1, is_delta=True), value(2, is_delta=True, label="y")])
    pushed.add(accepted(), [value(3, is_delta=True, label="y")])
    (client,) = pushed.clients()
    assert [each.value for each in client.metrics] == [1, 5]
    assert [each.value for each in client.find("m", topic="y")] == [5]
    assert client.find("m", topic="z") == client.find("n") == ()


def test_histograms_with_the_same_buckets_are_added_up() -> None:
    one = Distribution(3, 6.0, ((1.0, 1), (float("inf"), 2)))
    assert one.plus(one) == Distribution(6, 12.0, ((1.0, 2), (float("inf"), 4)))
    other = Distribution(1, 1.0, ((2.0, 1), (float("inf"), 0)))
    assert one.plus(other) == other


def test_a_series_whose_type_changes_has_the_new_value() -> None:
    pushed = PushedMetrics()
    histogram = Distribution(1, 2.0)
    for number in (1, histogram, 4):
        pushed.add(accepted(), [value(number, is_delta=True)])
        assert pushed.clients()[0].metrics[0].value == number


def test_the_pushes_of_a_client_are_counted() -> None:
    pushed = PushedMetrics()
    pushed.add(accepted(now_ms=5), ())
    pushed.add(accepted(now_ms=8, is_terminating=True), ())
    (client,) = pushed.clients()
    assert (client.pushes, client.first_push_ms, client.last_push_ms) == (2, 5, 8)
    assert client.is_terminated


def test_clients_are_in_the_order_of_their_last_push() -> None:
    pushed = PushedMetrics()
    for instance in ("a", "b", "a"):
        pushed.add(accepted(instance), ())
    assert [each.client.client_instance_id for each in pushed.clients()] == ["b", "a"]
    (found,) = pushed.clients("client-b")
    assert found.client.client_instance_id == "b"
    assert pushed.clients("unknown") == []


def test_the_client_that_pushed_least_recently_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10_000)
    pushed = PushedMetrics()
    for number in range(100):
        pushed.add(accepted(str(number)), [value(1)])
    ids = [each.client.client_instance_id for each in pushed.clients()]
    assert ids == [str(number) for number in range(100 - len(ids), 100)]
    assert 1 < len(ids) < 6


def test_further_series_of_a_client_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENT_BYTES", 10_000)
    pushed = PushedMetrics()
    for _ in range(2):
        pushed.add(
            accepted(), [value(1, is_delta=True, label=f"{number:03}") for number in range(50)]
        )
    (client,) = pushed.clients()
    stored = len(client.metrics)
    assert 0 < stored < 20
    assert client.omitted_series == 2 * (50 - stored)
    assert {each.value for each in client.metrics} == {2}


def test_a_histogram_counts_with_its_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENT_BYTES", 10_000)
    pushed = PushedMetrics()
    buckets = tuple((float(bound), 1) for bound in range(1_000))
    pushed.add(accepted(), [value(Distribution(1, 1.0, buckets))])
    assert pushed.clients()[0].omitted_series == 1
