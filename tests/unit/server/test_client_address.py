"""The addresses of clients, as Java writes them."""

from __future__ import annotations

import pytest

from kafkalite.server.client_address import java_address


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
