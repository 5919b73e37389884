"""Unit tests of blank fields: the characters of Java's `trim`, not those of Python's `strip`."""

from __future__ import annotations

import pytest

from kafkalite.apis.blank_fields import check_not_blank, trim
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

NEXT_LINE, NO_BREAK_SPACE, EM_SPACE, IDEOGRAPHIC_SPACE = "\x85", "\xa0", "\u2003", "\u3000"


@pytest.mark.parametrize("value", ["", " ", "\t\r\n", "\0", "\x1b", " \x07 "])
def test_a_field_of_spaces_and_control_characters_is_blank(value: str) -> None:
    with pytest.raises(KafkaError, match="GroupId") as refused:
        check_not_blank("GroupId", value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "value", [None, "a", " a ", "\x7f", NEXT_LINE, NO_BREAK_SPACE, EM_SPACE, IDEOGRAPHIC_SPACE]
)
def test_other_spaces_of_unicode_are_not_blank(value: str | None) -> None:
    check_not_blank("GroupId", value)


def test_only_the_characters_up_to_the_space_are_trimmed() -> None:
    assert trim("\0\x1f a b \n") == "a b"
    assert trim(f"{EM_SPACE}a{NEXT_LINE}") == f"{EM_SPACE}a{NEXT_LINE}"
