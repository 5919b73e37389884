"""NamedTuple: the classes behave as those of `typing.NamedTuple`."""

from __future__ import annotations

import copy
import pickle
import typing
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

import pytest

from kafkalite.ports import named_tuples

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")


class Point(named_tuples.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str | None = None

    def total(self) -> int:
        return self.x + self.y

    @property
    def double(self) -> int:
        return 2 * self.x


class Reference(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str | None = None


class Value(named_tuples.NamedTuple, Generic[V]):
    value: V
    extra: int = 0


class Special(Value[int]):
    __slots__ = ()

    def special(self) -> int:
        return self.value


@pytest.mark.parametrize(
    "of",
    [
        lambda p: p(1),
        lambda p: p(1, 3),
        lambda p: p(x=1, name="a"),
        lambda p: p(1)._replace(y=5),
        lambda p: p._make([1, 2, 3]),
        lambda p: p(1)._asdict(),
        lambda p: (p._fields, p._field_defaults, p.__match_args__, p.__slots__),
        lambda p: p.__doc__,
        lambda p: p(1).__getnewargs__(),
        lambda p: (hash(p(1)), p(1) < p(2), p(1)[0], len(p(1))),
        lambda p: hasattr(p(1), "__dict__"),
    ],
)
def test_classes_are_as_those_of_typing(of: Callable[[Any], object]) -> None:
    assert of(Point) == of(Reference)


def test_text_names_class_and_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, name=None)"


@pytest.mark.parametrize(
    "of",
    [lambda p: p(), lambda p: p(1, 2, 3, 4), lambda p: p(1, z=3), lambda p: p._make([1])],
)
def test_wrong_arguments_have_the_errors_of_typing(of: Callable[[Any], object]) -> None:
    texts = []
    for each in (Point, Reference):
        with pytest.raises(TypeError) as failure:
            of(each)
        texts.append(str(failure.value))
    assert texts[0].replace("Point", "Reference") == texts[1]
    with pytest.raises(ValueError, match="unexpected field names"):
        Point(1)._replace(z=1)  # type: ignore[call-arg]


def test_calls_are_equal_before_and_after_there_is_a_compiled_constructor() -> None:
    class Pair(named_tuples.NamedTuple):
        """A pair."""

        left: int
        right: int = 2

    results = {(Pair(1), Pair(left=1), Pair(1, right=2), Pair(right=2, left=1)) for _ in range(40)}
    assert results == {((1, 2),) * 4}
    assert "__new__" in vars(Pair)


def test_methods_and_properties_are_those_of_the_class() -> None:
    assert (Point(1).total(), Point(4).double) == (3, 8)
    assert get_type_hints(Point)["x"] is int


def test_signature_is_that_of_the_fields() -> None:
    assert str(signature(Point)) == "(x, y=2, name=None)"


def test_copies_are_equal() -> None:
    point = Point(1, 2, "a")
    unpickled = pickle.loads(pickle.dumps(point))  # noqa: S301 - bytes of this test
    assert copy.copy(point) == copy.deepcopy(point) == unpickled == point
    assert type(unpickled) is Point


def test_generic_classes_and_subclasses_have_their_own_type() -> None:
    assert Value[int](3) == Value(3) == (3, 0)
    assert type(Special(4)) is Special
    assert type(Value("a")) is Value
    assert Special(4)._replace(value=5).special() == 5


def test_first_call_may_be_of_a_subclass() -> None:
    class First(named_tuples.NamedTuple):
        a: int

    class Second(First):
        __slots__ = ()

    assert type(Second(1)) is Second
    assert type(First(1)) is First


def test_a_field_without_a_default_after_one_with_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="Wrong"):

        class Wrong(named_tuples.NamedTuple):
            a: int = 1
            b: int  # type: ignore[misc]


def test_a_match_statement_binds_fields() -> None:
    match Point(1, 3):
        case Point(x, y):
            assert (x, y) == (1, 3)
