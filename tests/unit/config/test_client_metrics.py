"""Client metrics subscriptions: the validation of their three keys."""

from __future__ import annotations

import pytest

from kafkalite.config.client_metrics import (
    ClientMetricsRequestError,
    check_client_metrics_values,
    client_metrics_keys,
)
from kafkalite.config.definitions import ConfigError


def test_client_metrics_have_three_keys() -> None:
    assert list(client_metrics_keys()) == ["interval.ms", "match", "metrics"]


def test_a_valid_subscription_is_accepted() -> None:
    check_client_metrics_values(
        {"interval.ms": "100", "metrics": "", "match": "client_id=a.*,client_software_name=b"}
    )


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ({"foo": "1"}, "Unknown client metrics configuration: foo"),
        (
            {"interval.ms": "99"},
            r"Invalid value 99 for interval\.ms, interval must be between 100 and 3600000",
        ),
    ],
)
def test_some_errors_are_invalid_requests(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ClientMetricsRequestError, match=complaint):
        check_client_metrics_values(own)


@pytest.mark.parametrize("pattern", ["client_id", "client_id=[", "zz=1"])
def test_a_pattern_has_a_selector_and_a_regular_expression(pattern: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_client_metrics_values({"match": pattern})
    assert refusal.value.message == f"Illegal client matching pattern: {pattern}"
