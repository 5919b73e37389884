"""Where a broker can be driven, and by whom."""

from __future__ import annotations

import pytest

from kafkalite.control.address import (
    DEFAULT_CONTROL,
    control_address,
    control_url,
    hosts_allowed,
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
def test_without_a_host_it_is_this_machine(text: str, address: tuple[str, int]) -> None:
    assert control_address(text)[:2] == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "1:2:3", "http://h:1", "70000"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(AddressError, match="write"):
        control_address(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (DEFAULT_CONTROL, "http://127.0.0.1:9097"),
        ("http://box:80/", "http://box:80"),
        ("9097", "http://127.0.0.1:9097"),
        ("0.0.0.0:9097", "http://127.0.0.1:9097"),
        ("[::]:9097", "http://[::1]:9097"),
    ],
)
def test_clients_find_it_by_url_or_by_what_serve_was_told(text: str, url: str) -> None:
    assert control_url(text) == url


@pytest.mark.parametrize("text", ["https://box:1", "ftp://box:1", "http://box", "http://box:1/v1"])
def test_only_addresses_by_http_are_understood(text: str) -> None:
    with pytest.raises(AddressError, match="write"):
        control_url(text)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False),
     ("box", False), ("0.0.0.0", False)],  # noqa: S104 - asked for
)  # fmt: skip
def test_loopback_is_for_this_machine_alone(host: str, *, is_own: bool) -> None:
    assert is_loopback(host) is is_own
    allowed = hosts_allowed(Address(host, 1))
    assert (allowed is not None) is is_own
    if allowed is not None:
        assert {"localhost", host} <= set(allowed)
