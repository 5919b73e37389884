"""Options are texts: what they mean, and one line for what they cannot mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.spark.sources.asking import Asked, OptionError, chosen

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = ("path", "paths", "name", "maxFiles")


def asked(**options: str) -> Asked:
    return Asked(options, KNOWN)


def test_letters_may_be_of_any_case() -> None:
    assert asked(MAXFILES="3").number("maxFiles", 1) == 3
    assert asked().number("maxFiles", 7) == 7


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OptionError, match=r"no such option: tabel; there are path"):
        asked(tabel="frames")


def test_places_are_a_path_and_several_paths() -> None:
    assert asked(path="a,b", paths="c, d").urls() == ("a,b", "c", "d")
    with pytest.raises(OptionError, match="where to read"):
        asked().urls()


def test_numbers_may_be_ranges() -> None:
    assert asked(name="1, 3-5,-9").numbers("name") == (1, 3, 4, 5, -9)


def test_a_time_is_utc_unless_it_says_otherwise() -> None:
    assert asked(name="1970-01-01T00:00:01").instant_ns("name") == 1_000_000_000


def test_apis_go_by_name_or_key() -> None:
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
def test_what_cannot_be_meant_is_told_in_one_line(
    text: str, read: Callable[[Asked], object]
) -> None:
    with pytest.raises(OptionError, match="name") as told:
        read(asked(name=text))
    assert "\n" not in str(told.value)


def test_a_switch_is_on_or_off() -> None:
    assert asked(name="TRUE").is_true("name", default=False)
    assert not asked(name="false").is_true("name", default=True)
    assert asked().is_true("name", default=True)


WHOLE = pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())])


def test_columns_are_never_null_where_whoever_asks_takes_them_so() -> None:
    assert chosen(WHOLE, ()) == WHOLE
    assert chosen(WHOLE, ["b", "a"]) == pa.schema([WHOLE.field("b"), WHOLE.field("a")])
    assert chosen(WHOLE, {"a": True}) == pa.schema([("a", pa.int8())])
    assert chosen(WHOLE, {"a": False, "b": True}) == WHOLE
    with pytest.raises(OptionError, match="may be null: b"):
        chosen(WHOLE, {"b": False})
