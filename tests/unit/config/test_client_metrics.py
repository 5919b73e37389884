"""Client metrics subscriptions: the validation of their three keys."""

from __future__ import annotations

import pytest

from kafkalite.config.client_metrics import (
    ClientMetricsRequestError,
    Subscription,
    check_client_metrics_values,
    client_metrics_keys,
    parse_selectors,
    parse_subscription,
)
from kafkalite.config.definitions import ConfigError


def test_client_metrics_have_three_keys() -> None:
    assert list(client_metrics_keys()) == ["interval.ms", "match", "metrics"]


def test_a_valid_subscription_is_accepted() -> None:
    check_client_metrics_values(
        {"interval.ms": "100", "metrics": "", "match": "client_id=a.*,client_software_name=b"}
    )


def test_an_interval_outside_the_limits_is_an_invalid_request() -> None:
    complaint = r"Invalid value 99 for interval\.ms, interval must be between 100 and 3600000"
    with pytest.raises(ClientMetricsRequestError, match=complaint):
        check_client_metrics_values({"interval.ms": "99"})


@pytest.mark.parametrize(
    "pattern",
    ["client_id", "client_id=", "client_id=a=b", "client_id=[", "client_id=(?=a)a", "zz=1", "="],
)
def test_a_pattern_has_a_selector_and_a_regular_expression(pattern: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_client_metrics_values({"match": pattern})
    assert refusal.value.message == f"Illegal client matching pattern: {pattern}"


@pytest.mark.parametrize("name", ["match", "metrics"])
def test_items_are_not_empty(name: str) -> None:
    check_client_metrics_values({name: "client_id=a,client_id=a"})
    with pytest.raises(ConfigError, match="values must not be empty"):
        check_client_metrics_values({name: "client_id=a,,client_id=b"})


def test_a_subscription_has_defaults() -> None:
    assert parse_subscription({}) == Subscription((), 300_000, {})
    assert parse_subscription({"metrics": "a, b", "interval.ms": "5"})[:2] == (("a", "b"), 5)


def test_the_last_pattern_of_a_selector_is_used() -> None:
    selectors = parse_selectors((" client_id = a ", "client_id=b=="))
    assert selectors["client_id"]("b")
    assert not selectors["client_id"]("a")


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("(?<name>a)b", "ab", "a"),
        (r"\Qa.b\E", "a.b", "axb"),
        ("(?!x).*", "ab", "xb"),
        (r"(?<first>a|b)\1", "aa", "ab"),
        ("[ab](?<!a)c", "bc", "ac"),
        (r"\d+", "12", "١٢"),
    ],
)
def test_expressions_have_the_syntax_of_java(expression: str, matching: str, other: str) -> None:
    matches = parse_selectors((f"client_id={expression}",))["client_id"]
    assert matches(matching)
    assert not matches(other)


def test_an_expression_that_would_backtrack_takes_linear_time() -> None:
    matches = parse_selectors(("client_id=(a+)+b",))["client_id"]
    assert not matches("a" * 30_000)


def test_the_time_of_an_expression_that_must_backtrack_is_limited() -> None:
    matches = parse_selectors(("client_id=(?!x)(a|aa)+b",))["client_id"]
    assert matches("aab")
    assert not matches("a" * 200)


@pytest.mark.parametrize(
    "expression", ["(?!x)(a{1000}){1000}", "(?!x)" + "a" * 10_000, "(?!x)((a{50}){1,50}){3,50}"]
)
def test_an_expression_that_takes_long_to_compile_is_illegal(expression: str) -> None:
    # A comma begins the next pattern of a list.
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        parse_selectors((f"client_id={expression}",))


def test_a_counted_repetition_of_many_characters_is_illegal() -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        parse_selectors((r"client_id=(\pL{1,1000}){1,1000}",))
