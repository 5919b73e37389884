"""The addresses of clients, as Java writes them and in canonical form."""

from __future__ import annotations

import pytest

from kafkalite.security.client_addresses import canonical_address, java_address


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("2001:0db8::0a", "2001:db8:0:0:0:0:0:a"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::ffff:a01:203%1", "10.1.2.3"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_addresses_have_the_form_of_java(address: str, text: str) -> None:
    assert java_address(address) == text


def test_texts_that_are_no_addresses_are_canonical() -> None:
    assert canonical_address("") == ""
    assert canonical_address("fe80::0:1%eth0") == "fe80::1"
    assert canonical_address("example.org") == "example.org"
