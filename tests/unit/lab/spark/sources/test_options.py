"""Parsing of data source options, and errors of one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.lab.spark.sources.options import OptionError, SourceOptions, select_columns

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = ("path", "paths", "name", "maxFiles")


def asked(**options: str) -> SourceOptions:
    return SourceOptions(options, KNOWN)


def test_option_names_are_case_insensitive() -> None:
    assert asked(MAXFILES="3").number("maxFiles", 1) == 3
    assert asked().number("maxFiles", 7) == 7


def test_unknown_option_is_refused() -> None:
    with pytest.raises(OptionError, match=r"unknown option tabel; options are path"):
        asked(tabel="frames")


def test_locations_come_from_path_and_paths() -> None:
    assert asked(path="a,b", paths="c, d").urls() == ("a,b", "c", "d")
    with pytest.raises(OptionError, match="no location"):
        asked().urls()


def test_numbers_may_be_ranges() -> None:
    assert asked(name="1, 3-5,-9").numbers("name") == (1, 3, 4, 5, -9)


def test_time_without_zone_is_utc() -> None:
    assert asked(name="1970-01-01T00:00:01").instant_ns("name") == 1_000_000_000


def test_apis_are_given_by_name_or_key() -> None:
    assert asked(name="OffsetCommit, 9").api_keys("name") == frozenset({8, 9})
    assert asked().api_keys("name") is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0", lambda it: it.number("name", 1)),
        ("x", lambda it: it.number("name", 1)),
        ("x", lambda it: it.numbers("name")),
        ("maybe", lambda it: it.is_true("name", default=True)),
        ("c", lambda it: it.choice("name", ("a", "b"), "a")),
        ("yesterday", lambda it: it.instant_ns("name")),
        ("OffsetComit", lambda it: it.api_keys("name")),
    ],
)
def test_error_for_an_invalid_value_is_one_line(
    text: str, read: Callable[[SourceOptions], object]
) -> None:
    with pytest.raises(OptionError, match="name") as error:
        read(asked(name=text))
    assert "\n" not in str(error.value)


def test_boolean_option_is_true_or_false() -> None:
    assert asked(name="TRUE").is_true("name", default=False)
    assert not asked(name="false").is_true("name", default=True)
    assert asked().is_true("name", default=True)


WHOLE = pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())])


def test_nullable_column_cannot_be_declared_not_null() -> None:
    assert select_columns(WHOLE, ()) == WHOLE
    assert select_columns(WHOLE, ["b", "a"]) == pa.schema([WHOLE.field("b"), WHOLE.field("a")])
    assert select_columns(WHOLE, {"a": True}) == pa.schema([("a", pa.int8())])
    assert select_columns(WHOLE, {"a": False, "b": True}) == WHOLE
    with pytest.raises(OptionError, match="may be null: b"):
        select_columns(WHOLE, {"b": False})
