"""Each validator rejects what Kafka rejects, with Kafka's message."""

from __future__ import annotations

import pytest

from kafkalite.config.validators import parse_validator

CASES = [
    ("1..", 1, None),
    ("1..", 0, "Invalid value 0 for configuration k: Value must be at least 1"),
    ("0..1", 1.5, "Invalid value 1.5 for configuration k: Value must be no more than 1"),
    ("-5..22", -5, None),
    ("0..0.5", 0.5, None),
    ("..", 99, None),
    ("1..", None, None),
    ("one(a|b)", "a", None),
    ("one(a|b)", "A", "Invalid value A for configuration k: String must be one of: a, b"),
    ("any-case(UP|DOWN)", "up", None),
    (
        "any-case(UP|DOWN)",
        "left",
        (
            "Invalid value left for configuration k: "
            "String must be one of (case insensitive): UP, DOWN"
        ),
    ),
    ("items", (), None),
    ("items", None, None),
    ("items", ("a", ""), "Configuration 'k' values must not be empty."),
    ("items", ("a", "a"), "Configuration 'k' values must not be duplicated."),
    (
        "items+",
        (),
        "Configuration 'k' must not be empty. Valid values include: any non-empty value",
    ),
    ("items+(a|b)", (), "Configuration 'k' must not be empty. Valid values include: [a, b]"),
    ("items(a|b)", ("c",), "Invalid value c for configuration k: String must be one of: a, b"),
    ("non-empty", "", "Invalid value  for configuration k: String must be non-empty"),
    ("non-empty", "x", None),
    ("gzip-level", -1, None),
    ("gzip-level", 9, None),
    (
        "gzip-level",
        0,
        "Invalid value 0 for configuration k: Value must be between 1 and 9 or equal to -1",
    ),
    ("throttled-replicas", ("*",), None),
    ("throttled-replicas", ("0:1", "0:1"), None),
    (
        "throttled-replicas",
        ("*", "0:1"),
        (
            "Invalid value [*, 0:1] for configuration k: k must be the literal '*' or a list of "
            "replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        ),
    ),
    ("share-reset", "latest", None),
    ("share-reset", "by_duration:P1DT2H3.5S", None),
    (
        "share-reset",
        "by_duration:P",
        (
            "Invalid value by_duration:P for configuration k: Invalid value `by_duration:P` for "
            "configuration k. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'."
        ),
    ),
    ("voters", ("1@h:9",), None),
    (
        "voters",
        ("h:9",),
        "Invalid configuration value for k. Each entry should be in the form `{id}@{host}:{port}`.",
    ),
    ("host-and-port", ("h:9",), None),
    (
        "host-and-port",
        ("h",),
        (
            "Failed to parse host name from h for the configuration k. "
            'Each entry should be in the form "{host}:{port}"'
        ),
    ),
]


@pytest.mark.parametrize(("validator", "value", "complaint"), CASES)
def test_a_validator_returns_the_reason(
    validator: str, value: object, complaint: str | None
) -> None:
    assert parse_validator(validator)("k", value) == complaint


def test_an_unknown_rule_in_a_table_raises() -> None:
    with pytest.raises(ValueError, match="no such validator: sometimes"):
        parse_validator("sometimes")
