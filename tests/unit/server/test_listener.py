"""Listener: bound sockets, and errors of binding."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import Listener, PortTakenError, accept, bind, bind_listener


def no_port(address: Address) -> bool:
    """Reserve no port."""
    del address
    return False


def test_port_0_selects_a_port() -> None:
    listener = Listener(ListenerSpec("A", Address("127.0.0.1", 0)), 0)
    assert listener.port > 0
    assert str(listener.advertised_address) == f"127.0.0.1:{listener.port}"
    listener.stop()


async def test_a_stopped_listener_is_bound_to_its_port_again() -> None:
    listener = Listener(ListenerSpec("A", Address("127.0.0.1", 0)), 0)
    port = listener.port
    listener.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    listener.bind_again()
    socket.create_connection(("127.0.0.1", port)).close()
    listener.stop()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(AddressError, match="in use"):
        listener.bind_again()


def test_localhost_means_all_loopback_addresses_on_one_port() -> None:
    sockets = bind(Address("localhost", 0))
    try:
        assert {each.getsockname()[0] for each in sockets} <= {"127.0.0.1", "::1"}
        assert sockets[0].getsockname()[0] == "127.0.0.1"
        assert len({each.getsockname()[1] for each in sockets}) == 1
    finally:
        for each in sockets:
            each.close()


def test_clients_can_connect_before_the_listener_serves() -> None:
    """Clients that connect while data is loaded wait in the backlog and are not refused."""
    (bound,) = bind(Address("127.0.0.1", 0))
    with bound, socket.create_connection(bound.getsockname()):
        pass


def test_small_answers_are_sent_without_delay() -> None:
    (bound,) = bind(Address("127.0.0.1", 0))
    with bound:
        assert bound.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    "address", [Address("203.0.113.77", 0), Address("no-such-host.invalid", 9092)]
)
def test_a_foreign_address_is_reported(address: Address) -> None:
    with pytest.raises(AddressError, match=address.host):
        bind(address)


def test_a_port_in_use_on_one_loopback_address_is_reported() -> None:
    """A client that uses the other address for `localhost` would reach another server."""
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken, pytest.raises(AddressError, match="in use"):
        bind(Address("localhost", taken.getsockname()[1]))


def test_each_node_has_the_next_port() -> None:
    for _ in range(50):
        first = Listener(ListenerSpec("A", Address("127.0.0.1", 0)), 0)
        try:
            second = Listener(ListenerSpec("A", Address("127.0.0.1", first.port)), 1)
        except AddressError:
            continue  # another process has the next port
        finally:
            first.stop()
        second.stop()
        assert second.port == first.port + 1
        return
    raise AssertionError("no two ports in a row are free")


def test_a_listener_uses_the_next_port_if_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        spec = ListenerSpec("A", Address("127.0.0.1", port - 2), Address("broker.test", 7000))
        with pytest.raises(PortTakenError):
            Listener(spec, 2)
        listener = bind_listener(spec, 2, lambda address: address.port == port + 1)
    assert listener.port > port + 1
    assert listener.node_index == listener.port - port + 2
    # The advertised port is as far from the first one as the bound port.
    assert listener.advertised_address == Address("broker.test", 7000 + listener.port - port + 2)
    listener.stop()


def test_a_listener_without_an_address_is_refused() -> None:
    spec = ListenerSpec("A", Address("192.0.2.1", 9092))
    with pytest.raises(AddressError, match=r"^cannot listen on 192\.0\.2\.1:9094: "):
        bind_listener(spec, 2, no_port)
    with pytest.raises(AddressError, match="too few ports"):
        bind_listener(ListenerSpec("A", Address("127.0.0.1", 65_535)), 1, no_port)
    with pytest.raises(PortTakenError, match=r" it and the 99 ports after it are in use$"):
        bind_listener(ListenerSpec("A", Address("127.0.0.1", 9092)), 0, lambda _: True)


@pytest.mark.parametrize("count", [1, 2])
async def test_servers_own_all_sockets_when_accepting_is_cancelled(count: int) -> None:
    bound_sockets = [bind(Address("127.0.0.1", 0))[0] for _ in range(count)]
    servers: list[asyncio.Server] = []
    loop = asyncio.get_running_loop()
    accepting = loop.create_task(accept(loop, asyncio.Protocol, bound_sockets, servers))
    await asyncio.sleep(0)
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    served = [[each.fileno() for each in server.sockets] for server in servers]
    assert served == [[each.fileno()] for each in bound_sockets]
    for server in servers:
        server.close()
