"""Addresses as people write them, and what becomes of them with several nodes."""

from __future__ import annotations

import pytest

from kafkalite.server.addresses import Address, AddressError, ListenerSpec, plan_listeners

EVERYWHERE = "0.0.0.0"  # noqa: S104 - as people write it; nothing binds to it here


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        ("inside://0.0.0.0:29092", Address(EVERYWHERE, 29092, "INSIDE")),
        ("PLAINTEXT://:9092", Address("", 9092, "PLAINTEXT")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "9092", "localhost", "localhost:", "localhost:x", "localhost:-1", "localhost:65536",
     "::1:9092", "://h:1", "host:9O92", "host:٣"],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(AddressError, match=r".+"):
        Address.parse(text)


def test_an_address_prints_as_clients_need_it() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("localhost", 9092)) == "localhost:9092"


def test_without_options_there_is_one_listener_on_localhost() -> None:
    (spec,) = plan_listeners((), ())
    assert spec == ListenerSpec("PLAINTEXT", Address("localhost", 9092))


def test_advertised_addresses_find_their_listener_by_name() -> None:
    inside, outside = plan_listeners(
        ("INSIDE://0.0.0.0:29092", "OUTSIDE://0.0.0.0:9092"),
        ("OUTSIDE://localhost:9092", "INSIDE://kafkalite:29092"),
    )
    assert str(inside.told(29092, 0)) == "kafkalite:29092"
    assert str(outside.told(9092, 0)) == "localhost:9092"


def test_advertised_addresses_without_a_name_go_in_order() -> None:
    first, second = plan_listeners(("a:1", "b:2"), ("x:1", "y:2"))
    assert [str(first.told(1, 0)), str(second.told(2, 0))] == ["x:1", "y:2"]
    assert [first.name, second.name] == ["PLAINTEXT", "PLAINTEXT_2"]


@pytest.mark.parametrize(
    ("listen", "advertise"),
    [
        (("A://a:1", "A://b:2"), ()),
        (("a:1",), ("x:1", "y:2")),
        (("a:1",), ("NOBODY://x:1",)),
    ],
)
def test_listeners_that_do_not_go_together_are_refused(
    listen: tuple[str, ...], advertise: tuple[str, ...]
) -> None:
    with pytest.raises(AddressError):
        plan_listeners(listen, advertise)


def test_each_node_takes_the_next_port() -> None:
    address = Address("h", 9092)
    assert address.shifted(2).port == 9094
    assert Address("h", 0).shifted(2).port == 0
    with pytest.raises(AddressError):
        Address("h", 65_535).shifted(1)


def test_clients_are_told_the_bound_port_where_it_was_left_open() -> None:
    spec = ListenerSpec("A", Address("127.0.0.1", 0), Address("broker.test", 0))
    assert str(spec.told(41_000, 1)) == "broker.test:41000"


@pytest.mark.parametrize("anywhere", [EVERYWHERE, "::", ""])
def test_a_listener_on_every_address_is_told_as_localhost(anywhere: str) -> None:
    """No client can connect to 0.0.0.0."""
    assert str(ListenerSpec("A", Address(anywhere, 9092)).told(9092, 0)) == "localhost:9092"


def test_advertised_ports_of_further_nodes_follow() -> None:
    spec = ListenerSpec("A", Address(EVERYWHERE, 9092), Address("proxy.test", 19092))
    assert str(spec.told(9094, 2)) == "proxy.test:19094"
