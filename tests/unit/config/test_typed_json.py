"""Dataclasses that are read from JSON and written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pytest

from kafkalite.config.typed_json import (
    About,
    JsonError,
    field_names,
    number_of,
    quote,
    read,
    read_answer,
    to_json,
)
from kafkalite.ports.times import duration_ms


def _colors() -> dict[str, int]:
    return {"red": 1, "blue": 2}


@dataclass(frozen=True, slots=True)
class Part:
    """A part."""

    OMITS_DEFAULTS: ClassVar = True

    size: Annotated[int, About("its size", minimum=1, maximum=9)] = 1
    color: Annotated[int | None, About("color", names=_colors, kind="a color")] = None


@dataclass(frozen=True, slots=True)
class Choice:
    """An object that must not be empty."""

    AT_LEAST_ONE: ClassVar = True

    left: Annotated[bool, About("left")] = False
    right: Annotated[bool, About("right")] = False


@dataclass(frozen=True, slots=True)
class Whole:
    """Fields of all types."""

    name: Annotated[str, About("name", max_length=5)]
    part: Annotated[Part, About("part")]
    wait_ms: Annotated[int | None, About("wait", alias="wait", parse=duration_ms)] = None
    ratio: Annotated[float, About("ratio", above=0, maximum=1)] = 1
    kind: Annotated[str, About("kind", choices=("a", "b", "c"))] = "a"
    secret: Annotated[str, About("secret", max_length=3, is_secret=True)] = ""
    texts: Annotated[tuple[str, ...], About("texts")] = ()
    by_name: Annotated[dict[str, str], About("texts")] = field(default_factory=dict)
    other: Annotated[object, About("anything")] = None
    choice: Annotated[Choice | None, About("choice")] = None


def test_an_object_is_read_and_written() -> None:
    body = {
        "name": "n", "part": {"size": 2, "color": "blue"}, "wait": "2s", "ratio": 0.5, "kind": "b",
        "texts": ["x"], "by_name": {"a": "b"}, "other": [1, None], "choice": {"left": True},
    }  # fmt: skip
    whole = read(Whole, body, "it")
    assert whole == Whole(
        "n", Part(2, 2), 2_000, 0.5, "b", "", ("x",), {"a": "b"}, [1, None], Choice(left=True)
    )
    written = to_json(whole)
    assert written["part"] == {"size": 2, "color": "blue"}
    assert read(Whole, written, "it") == whole
    assert to_json(Whole("n", Part()), omits_defaults=True) == {"name": "n", "part": {}}


def test_an_object_without_required_fields_may_be_missing() -> None:
    assert read(Whole, {"name": "n"}, "it").part == Part()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "it must be a JSON object with these fields: name, part, wait_ms, ratio, kind, "),
        ({}, "it needs the field name"),
        ({"nam": "n"}, "it has no field 'nam'; its fields are name, part, "),
        ({"part": {"colour": 1}}, "part has no field 'colour'; its fields are size, color"),
        ({"part": []}, "part must be a JSON object with these fields: size, color"),
        ({"part": {"size": 0}}, "part.size must be a whole number from 1 to 9, not 0"),
        ({"part": {"size": 1.0}}, "part.size must be a whole number from 1 to 9, not 1.0"),
        ({"part": {"size": True}}, "part.size must be a whole number from 1 to 9, not True"),
        ({"part": {"size": None}}, "part.size must be a whole number from 1 to 9, not None"),
        ({"part": {"color": "bleu"}}, "part.color 'bleu' is not a color; similar names are blue"),
        ({"part": {"color": 2}}, "part.color must be the name of a color, not 2"),
        ({"name": 5}, "name must be text of at most 5 characters, not 5"),
        ({"name": "long name"}, "name must be text of at most 5 characters, not 'long name'"),
        ({"name": "\ud800"}, "name must be text of at most 5 characters, not '\\ud800'"),
        ({"secret": "s3cr3t"}, "secret must be text of at most 3 characters"),
        ({"wait": 5}, "wait must be text, not 5"),
        ({"wait": "soon"}, "wait: 'soon' is not a duration: "),
        ({"wait": "5s", "wait_ms": 5}, "it has both wait_ms and wait: give one of them"),
        ({"ratio": 0}, "ratio must be a number above 0 and at most 1, not 0"),
        ({"ratio": float("nan")}, "ratio must be a number above 0 and at most 1, not nan"),
        ({"ratio": "1"}, "ratio must be a number above 0 and at most 1, not '1'"),
        ({"kind": "d"}, "kind must be a, b or c, not 'd'"),
        ({"kind": 1}, "kind must be text, not 1"),
        ({"texts": "x"}, "texts must be a list, not 'x'"),
        ({"texts": [1]}, "texts must be text, not 1"),
        ({"by_name": []}, "by_name must be an object, not []"),
        ({"by_name": {"a": 1}}, "a must be text, not 1"),
        ({"choice": {}}, "choice needs at least one of these: left, right"),
        ({"choice": {"left": 1}}, "left must be true or false, not 1"),
    ],
)  # fmt: skip
def test_an_invalid_object_is_refused_in_one_sentence(body: Any, message: str) -> None:  # noqa: ANN401 - JSON
    if isinstance(body, dict) and body and "nam" not in body:
        body = {"name": "n", **body}
    with pytest.raises(JsonError) as refused:
        read(Whole, body, "it")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_fields_from_elsewhere_are_refused_in_the_object() -> None:
    assert read(Part, {"size": 2}, "it", fixed={"color": "red"}) == Part(2, 1)
    with pytest.raises(JsonError, match=r"^it has no parameter 'color'; its parameters are size$"):
        read(Part, {"color": "red"}, "it", fixed={"color": "red"}, noun="parameter")
    with pytest.raises(JsonError, match=r"^it has no field 'x'; it has no fields$"):
        read(Part, {"x": 1}, "it", fixed={"size": 1, "color": None})


def test_answers_may_have_further_fields() -> None:
    assert read_answer(Whole, {"name": "n", "new": 1, "part": {"new": 2}}) == Whole("n", Part())
    with pytest.raises(JsonError, match=r"^the answer needs the field name$"):
        read_answer(Whole, {})


def test_null_is_the_absent_value_of_an_alias() -> None:
    assert read(Whole, {"name": "n", "wait": None}, "it").wait_ms is None


def test_names_include_aliases() -> None:
    assert field_names(Whole)[-1] == "wait"
    assert field_names(Choice) == ("left", "right")


def test_numbers_in_text() -> None:
    assert [number_of(text) for text in ("7", "-7", "x", "", "٣", "1" * 19)] == [
        7, -7, "x", "", "٣", "1" * 19,
    ]  # fmt: skip


def test_a_quoted_value_is_short() -> None:
    assert quote("x" * 100) == f"'{'x' * 40}'"
    assert quote(list(range(100))) == "[0, 1, 2, 3, 4, 5, ...]"
    assert len(quote(["x" * 100, "y" * 100])) == 42
