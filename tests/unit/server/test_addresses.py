"""Addresses as text, and the addresses of several nodes."""

from __future__ import annotations

import pytest

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.server.addresses import Address, AddressError, ListenerSpec, parse_listeners

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - as people write it; nothing binds to it here


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        ("inside://0.0.0.0:29092", Address(ALL_INTERFACES, 29092, "INSIDE")),
        ("PLAINTEXT://:9092", Address("", 9092, "PLAINTEXT")),
    ],
)
def test_an_address_is_parsed(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "9092", "localhost", "localhost:", "localhost:x", "localhost:-1", "localhost:65536",
     "::1:9092", "://h:1", "host:9O92", "host:٣"],
)  # fmt: skip
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(AddressError, match=r".+"):
        Address.parse(text)


def test_an_address_is_printed_for_clients() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("localhost", 9092)) == "localhost:9092"


def test_the_default_listener_is_on_localhost() -> None:
    (spec,) = parse_listeners((), ())
    assert spec == ListenerSpec("PLAINTEXT", Address("localhost", 9092))


def test_advertised_addresses_belong_to_the_named_listener() -> None:
    inside, outside = parse_listeners(
        ("INSIDE://0.0.0.0:29092", "OUTSIDE://0.0.0.0:9092"),
        ("OUTSIDE://localhost:9092", "INSIDE://kafkalite:29092"),
    )
    assert str(inside.advertised_address(29092, 0)) == "kafkalite:29092"
    assert str(outside.advertised_address(9092, 0)) == "localhost:9092"


def test_advertised_addresses_without_a_name_are_assigned_in_order() -> None:
    first, second = parse_listeners(("a:1", "b:2"), ("x:1", "y:2"))
    assert [str(first.advertised_address(1, 0)), str(second.advertised_address(2, 0))] == [
        "x:1",
        "y:2",
    ]
    assert [first.name, second.name] == ["PLAINTEXT", "PLAINTEXT_2"]


@pytest.mark.parametrize(
    ("listen", "advertise"),
    [
        (("A://a:1", "A://b:2"), ()),
        (("a:1",), ("x:1", "y:2")),
        (("a:1",), ("UNKNOWN://x:1",)),
    ],
)
def test_contradicting_listeners_are_rejected(
    listen: tuple[str, ...], advertise: tuple[str, ...]
) -> None:
    with pytest.raises(AddressError):
        parse_listeners(listen, advertise)


def test_each_node_uses_the_next_port() -> None:
    address = Address("h", 9092)
    assert address.with_port_offset(2).port == 9094
    assert Address("h", 0).with_port_offset(2).port == 0
    with pytest.raises(AddressError):
        Address("h", 65_535).with_port_offset(1)


def test_port_0_is_advertised_as_the_bound_port() -> None:
    spec = ListenerSpec("A", Address("127.0.0.1", 0), Address("broker.test", 0))
    assert str(spec.advertised_address(41_000, 1)) == "broker.test:41000"


@pytest.mark.parametrize("wildcard_host", [ALL_INTERFACES, "::", ""])
def test_a_wildcard_address_is_advertised_as_localhost(wildcard_host: str) -> None:
    """Clients cannot connect to 0.0.0.0."""
    assert (
        str(ListenerSpec("A", Address(wildcard_host, 9092)).advertised_address(9092, 0))
        == "localhost:9092"
    )


def test_further_nodes_advertise_the_next_ports() -> None:
    spec = ListenerSpec("A", Address(ALL_INTERFACES, 9092), Address("proxy.test", 19092))
    assert str(spec.advertised_address(9094, 2)) == "proxy.test:19094"


@pytest.mark.parametrize(
    ("host", "other", "overlaps"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "::", True),
        ("", "127.0.0.1", True),
    ],
)
def test_addresses_overlap_if_one_socket_excludes_the_other(
    host: str, other: str, *, overlaps: bool
) -> None:
    assert Address(host, 1).overlaps(Address(other, 1)) is overlaps


@pytest.mark.parametrize("name", ["FOO", "TLS", "SSL_INTERNAL", "HTTPS"])
def test_a_plain_listener_whose_name_may_stand_for_a_protocol_is_recognised(name: str) -> None:
    spec = ListenerSpec(name, Address("127.0.0.1", 0))
    assert spec.has_misleading_name
    assert not spec._replace(protocol=SecurityProtocol.SSL).has_misleading_name


@pytest.mark.parametrize("name", ["PLAINTEXT_HOST", "TC-0", "EXTERNAL2", "CONTROLLER"])
def test_a_usual_name_of_a_plain_listener_is_not_misleading(name: str) -> None:
    assert not ListenerSpec(name, Address("127.0.0.1", 0)).has_misleading_name
