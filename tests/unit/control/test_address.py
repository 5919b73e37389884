"""Addresses of control endpoints, and the hosts that requests may name."""

from __future__ import annotations

import pytest

from kafkalite.config.options import DEFAULT_CONTROL
from kafkalite.control.address import (
    allowed_hosts,
    control_address,
    endpoint_address,
    is_loopback,
)
from kafkalite.server.addresses import Address, AddressError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9097", ("127.0.0.1", 9097)),
        (":0", ("127.0.0.1", 0)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:9097", ("::1", 9097)),
        ("0.0.0.0:9097", ("0.0.0.0", 9097)),  # noqa: S104 - asked for
    ],
)
def test_the_default_host_is_the_loopback_address(text: str, address: tuple[str, int]) -> None:
    assert control_address(text)[:2] == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "1:2:3", "http://h:1", "70000"])
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(AddressError, match="write"):
        control_address(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (DEFAULT_CONTROL, "http://127.0.0.1:9097"),
        ("http://box:80/", "http://box:80"),
        ("https://box:1", "https://box:1"),
        ("9097", "http://127.0.0.1:9097"),
        ("0.0.0.0:9097", "http://127.0.0.1:9097"),
        ("[::]:9097", "http://[::1]:9097"),
    ],
)
def test_a_client_accepts_a_url_or_an_address(text: str, url: str) -> None:
    assert endpoint_address(text).url() == url


def test_a_text_without_scheme_has_that_of_the_endpoint() -> None:
    assert endpoint_address("9097").url("https") == "https://127.0.0.1:9097"
    assert endpoint_address("http://127.0.0.1:9097").url("https") == "http://127.0.0.1:9097"


@pytest.mark.parametrize("text", ["ftp://box:1", "http://box", "http://box:1/v1"])
def test_other_urls_are_rejected(text: str) -> None:
    with pytest.raises(AddressError, match="write"):
        endpoint_address(text)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False),
     ("box", False), ("0.0.0.0", False)],  # noqa: S104 - asked for
)  # fmt: skip
def test_loopback_addresses_are_recognized(host: str, *, is_own: bool) -> None:
    assert is_loopback(host) is is_own
    allowed = allowed_hosts(Address(host, 1))
    assert (allowed is not None) is is_own
    if allowed is not None:
        assert {"localhost", host} <= set(allowed)
