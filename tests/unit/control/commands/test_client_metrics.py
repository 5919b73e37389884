"""The JSON representation of pushed metrics."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.config.typed_json import to_json
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.client_metrics import (
    ClientMetricsStatus,
    ShowClientMetrics,
    json_pieces,
    metrics_answer,
)
from kafkalite.telemetry.instances import ClientAttributes
from kafkalite.telemetry.metrics import ClientMetrics, Distribution, Metric

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


def metric(value: float | Distribution) -> Metric:
    return Metric("m", "gauge", "ms", "about it", (("topic", "t"),), value, 7)


def status(*values: float | Distribution) -> ClientMetricsStatus:
    client = ClientMetrics(
        client=ClientAttributes("id", "c", "java", "4.4.0", "10.0.0.1", None),
        node=2,
        principal="User:a",
        push_interval_ms=100,
        pushes=3,
        first_push_ms=0,
        last_push_ms=1_000,
        is_terminated=True,
        omitted_series=4,
        metrics=tuple(map(metric, values)),
    )
    return ClientMetricsStatus(2_000, "a package is missing", [client])


def to_json_of(metrics: ClientMetricsStatus) -> Any:  # noqa: ANN401 - JSON
    return to_json(metrics_answer(metrics))


def test_a_client_is_described() -> None:
    described = to_json_of(status(1.5))
    assert described == {
        "now_ms": 2_000,
        "iso": "1970-01-01T00:00:02.000Z",
        "problem": "a package is missing",
        "clients": [
            {
                "client_id": "c", "client_instance_id": "id", "software_name": "java",
                "software_version": "4.4.0", "address": "10.0.0.1", "port": None,
                "principal": "User:a", "node": 2, "push_interval_ms": 100, "pushes": 3,
                "first_push_ms": 0, "last_push_ms": 1_000,
                "last_push_iso": "1970-01-01T00:00:01.000Z", "terminated": True,
                "omitted_series": 4,
                "metrics": [
                    {
                        "name": "m", "type": "gauge", "unit": "ms", "description": "about it",
                        "labels": {"topic": "t"}, "value": 1.5, "time_ms": 7,
                    }
                ],
            }
        ],
    }  # fmt: skip


def test_values_are_valid_json() -> None:
    infinity = float("inf")
    histogram = Distribution(3, infinity, ((1.0, 1), (infinity, 2)))
    summary = Distribution(2, 8.0, quantiles=((0.5, float("nan")),))
    found = to_json_of(status(float("nan"), infinity, -infinity, histogram, summary))
    text = json.dumps(found, allow_nan=False)
    values = [each["value"] for each in json.loads(text)["clients"][0]["metrics"]]
    assert values == [
        "NaN", "Infinity", "-Infinity",
        {"count": 3, "sum": "Infinity", "buckets": [[1.0, 1], [None, 2]], "quantiles": []},
        {"count": 2, "sum": 8.0, "buckets": [], "quantiles": [[0.5, "NaN"]]},
    ]  # fmt: skip


@pytest.mark.parametrize(("clients", "series"), [(0, 0), (1, 0), (1, 1), (3, 250)])
def test_the_text_in_pieces_is_that_of_the_representation(clients: int, series: int) -> None:
    metrics = status(*map(float, range(series)))
    metrics = metrics._replace(clients=list(metrics.clients) * clients)
    pieces = list(json_pieces(metrics))
    assert json.loads("".join(pieces)) == to_json_of(metrics)
    assert max(map(len, pieces)) < 20_000


async def test_client_metrics_need_a_running_broker_that_receives_them() -> None:
    stopped = cast("Broker", SimpleNamespace(cluster=None))
    with pytest.raises(CommandError, match="the broker is not running"):
        await ShowClientMetrics().perform(stopped)
    config = SimpleNamespace(bool=lambda _: False)
    running = cast("Broker", SimpleNamespace(cluster=SimpleNamespace(config=config)))
    with pytest.raises(CommandError, match=r"without the setting kafkalite\.client\.telemetry"):
        await ShowClientMetrics("c").perform(running)
