"""Values are parsed and printed as in Java."""

from __future__ import annotations

import math

import pytest

from kafkalite.config.definitions import (
    ConfigError,
    ConfigType,
    KeyTable,
    UpdateMode,
    Value,
    java_double_text,
    parse_value,
    value_to_text,
)

TABLE = """
a.number int 5 1..9 high cluster-wide
    How many there are,
    described in two lines.
a.list list "" items+(x|y) low
a.must string required - medium internal
"""


def test_a_row_becomes_a_key() -> None:
    keys = KeyTable(TABLE)
    number = keys["a.number"]
    assert (number.type, number.default, number.importance) == (ConfigType.INT, 5, "high")
    assert number.mode is UpdateMode.CLUSTER_WIDE
    assert number.documentation == "How many there are, described in two lines."
    assert keys["a.list"].default == ()
    assert keys["a.list"].mode is UpdateMode.READ_ONLY
    assert keys["a.must"].default is None
    assert keys["a.must"].is_internal


def test_keys_are_sorted_by_name() -> None:
    assert list(KeyTable(TABLE)) == ["a.list", "a.must", "a.number"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, " 7 ", 7),
        (ConfigType.INT, "+07", 7),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.BOOLEAN, " TRUE", True),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.STRING, " x ", "x"),
        (ConfigType.PASSWORD, " x ", " x "),
        (ConfigType.LIST, " a , b", ("a", "b")),
        (ConfigType.LIST, " ", ()),
    ],
)
def test_text_is_parsed(kind: ConfigType, text: str, value: object) -> None:
    assert parse_value("k", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
    ],
)
def test_text_that_java_rejects_is_rejected(kind: ConfigType, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_value("k", kind, text)
    assert refusal.value.message == f"Invalid value {text} for configuration k: {complaint}"
    assert refusal.value.key == "k"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        (0.3, "0.3"),
        (1.0, "1.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e-10, "1.0E-10"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (99999999.9, "9.99999999E7"),
        (-1.5e9, "-1.5E9"),
        (1e-4, "1.0E-4"),
    ],
)
def test_values_are_converted_to_text(value: Value, text: str | None) -> None:
    assert value_to_text(value) == text


def test_special_doubles_are_printed_as_in_java() -> None:
    assert java_double_text(math.nan) == "NaN"
    assert java_double_text(-math.inf) == "-Infinity"


def test_duplicates_in_a_list_are_removed_before_validation() -> None:
    assert KeyTable(TABLE)["a.list"].parse("x , x,y") == ("x", "y")


def test_a_class_other_than_the_default_is_reported_as_missing() -> None:
    keys = KeyTable("a.class class org.example.Own - low")
    assert keys["a.class"].parse("org.example.Own") == "org.example.Own"
    with pytest.raises(ConfigError, match=r"Class org\.example\.Other could not be found\."):
        keys["a.class"].parse("org.example.Other")
