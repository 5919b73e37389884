"""IntEnum: the classes behave as those of `enum.IntEnum`."""

from __future__ import annotations

import copy
import enum
import pickle
from types import new_class
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.ports import int_enums
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


class Color(int_enums.IntEnum):
    """A color."""

    RED = 3
    GREEN = 1
    DARK_BLUE = -1

    @property
    def is_dark(self) -> bool:
        """Whether it is dark."""
        return self is Color.DARK_BLUE


class _OfEnum(enum.IntEnum):
    """A color."""

    RED = 3
    GREEN = 1
    DARK_BLUE = -1

    @property
    def is_dark(self) -> bool:
        """Whether it is dark."""
        return self is _OfEnum.DARK_BLUE


_OfEnum.__name__ = _OfEnum.__qualname__ = "Color"


@pytest.mark.parametrize(
    "of",
    [
        lambda of: [(each.name, each.value, int(each), repr(each), str(each)) for each in of],
        lambda of: [f"{each} {each:03d} {each!r}" for each in reversed(of)],
        lambda of: list(of.__members__),
        lambda of: [vars(each).keys() for each in of],
        lambda of: [vars(each)["_sort_order_"] for each in of],
        lambda of: (of.RED.is_dark, of.DARK_BLUE.is_dark, of(1).name, of["RED"].value),
        lambda of: (3 in list(of), len(of), bool(of), of.RED > of.GREEN, of.RED + 1, hash(of.RED)),
        lambda of: (isinstance(of.RED, int), of.RED == 3, {3: "x"}[of.RED], of.__doc__),
        lambda of: ("RED" in dir(of), hasattr(of, "BLACK"), of.RED in of),
    ],
)
def test_classes_are_as_those_of_enum(of: Callable[[Any], object]) -> None:
    assert of(Color) == of(_OfEnum)


@pytest.mark.parametrize(
    "of",
    [
        lambda of: of(7),
        lambda of: of["BLACK"],
        lambda of: of.BLACK,
        lambda of: setattr(of, "RED", 1),
        lambda of: setattr(of, "GREEN", 1),
        lambda of: delattr(of, "GREEN"),
        lambda of: new_class("Sub", (of,)),
    ],
)
def test_errors_are_those_of_enum(of: Callable[[Any], object]) -> None:
    errors = []
    for each in (Color, _OfEnum):
        with pytest.raises((ValueError, KeyError, AttributeError, TypeError)) as raised:
            of(each)
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1]


def test_members_are_singletons() -> None:
    for each in Color:
        assert Color(each.value) is each
        assert copy.deepcopy(each) is each
        assert pickle.loads(pickle.dumps(each)) is each  # noqa: S301 - from this test
    assert pickle.loads(pickle.dumps(ErrorCode.NONE)) is ErrorCode.NONE  # noqa: S301 - as above


def test_classes_that_are_not_simple_are_made_by_enum() -> None:
    class Aliased(int_enums.IntEnum):
        """Two names of one number."""

        ONE = 1
        UNO = 1
        two = 2

    assert [each.name for each in Aliased] == ["ONE", "two"]
    assert Aliased["UNO"] is Aliased.ONE
