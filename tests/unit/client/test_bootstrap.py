"""Addresses of a cluster as text."""

from __future__ import annotations

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.server.addresses import Address, AddressError


def test_host_may_be_missing_and_a_protocol_has_no_effect() -> None:
    assert bootstrap_addresses(":9092, PLAINTEXT://b:1,[::1]:2") == [
        Address("localhost", 9092),
        Address("b", 1),
        Address("::1", 2),
    ]


@pytest.mark.parametrize("text", ["", "kafka", "kafka:0", "a:1,", ":"])
def test_invalid_address_is_an_error(text: str) -> None:
    with pytest.raises(AddressError, match="HOST:PORT"):
        bootstrap_addresses(text)
