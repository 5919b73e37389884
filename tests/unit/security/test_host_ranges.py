"""Ranges of addresses in ACLs."""

from __future__ import annotations

import pytest

from kafkalite.security.host_ranges import contains, is_range, parse_range


@pytest.mark.parametrize(
    ("text", "host", "is_inside"),
    [
        ("10.1.2.3/8", "10.255.0.1", True),
        ("010.0.0.0/08", "10.0.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::a00:1", False),
        ("10.0.0.0/8", "a name", False),
        ("0.0.0.0/0", "0.0.0.0", False),  # noqa: S104 - no socket
        ("0.0.0.0/0", "1.2.3.4", True),
        ("fd00::1/8", "fdff::1", True),
        ("fd00::/8", "10.0.0.1", False),
        ("::/0", "::", True),
    ],
)
def test_an_address_is_in_a_range(text: str, host: str, *, is_inside: bool) -> None:
    assert is_range(text)
    assert contains(parse_range(text), host) is is_inside


@pytest.mark.parametrize(
    "text", ["10.0.0.0/33", "10.0.0.0/", "256.0.0.0/8", "host/8", "::/129", "::/", "::/x", "z::/8"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_range(text)
