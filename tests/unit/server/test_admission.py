"""Limits of connections: their number, their rate, and the rate of an address."""

from __future__ import annotations

import select
import socket
import ssl
from struct import pack
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.acl_operations import Entity
from kafkalite.server import admission as module
from kafkalite.testing import Broker
from tests.cluster.responses import frame_of
from tests.unit.server.test_connection import FakeTransport, ListeningNode, run_callbacks, send

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RATE = "max.connection.creation.rate"
TWO_LISTENERS = ("PLAINTEXT", "CLIENTS")


def are_served(clients: Sequence[FakeTransport]) -> list[bool]:
    """Return for each client whether its connection was accepted."""
    return [is_admitted(each) for each in clients]


def is_admitted(client: FakeTransport) -> bool:
    return cast("bool", getattr(client.connection, "is_admitted", False)) and not client.closed


def set_quotas(node: ListeningNode, quotas: Mapping[str | None, float]) -> None:
    """Set the rates of addresses, None being the default."""
    image = node.context.node.image
    node.context.node.image = image._replace(
        client_quotas={
            frozenset({("ip", address)}): {"connection_creation_rate": rate}
            for address, rate in quotas.items()
        }
    )


async def test_connections_above_max_connections_are_queued() -> None:
    node = ListeningNode(max_connections="2")
    first, second, third, fourth = (node.client() for _ in range(4))
    for client in (first, second, third, fourth):
        send(client, b"hello")
    assert [bool(client.writes) for client in (first, second, third, fourth)] == [
        True, True, False, False,
    ]  # fmt: skip
    fourth.close()
    second.close()
    await run_callbacks()
    assert third.writes == [b"hello"]
    assert fourth.writes == []


async def test_connections_above_the_limit_of_an_address_are_closed() -> None:
    node = ListeningNode(max_connections_per_ip="1")
    first, second, other = node.client(), node.client(), node.client(host=2)
    await run_callbacks()
    assert [each.closed for each in (first, second, other)] == [False, True, False]
    first.close()
    await run_callbacks()
    assert not node.client().closed


async def test_addresses_can_have_their_own_limits() -> None:
    node = ListeningNode(
        max_connections_per_ip="1",
        max_connections_per_ip_overrides="10.0.0.1:2,::1:5, ::ffff:10.0.0.3:0",
    )
    clients = [node.client(host) for host in (1, 1, 1, 2, 2, 3)]
    await run_callbacks()
    assert [each.closed for each in clients] == [False, False, True, False, True, True]


async def test_a_queued_connection_is_not_read() -> None:
    node = ListeningNode(max_connections="1")
    first, second = node.client(), node.client()
    assert [first.paused, second.paused] == [False, True]
    first.close()
    await run_callbacks()
    assert not second.paused


async def test_the_queue_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_CONNECTIONS", 2)
    node = ListeningNode(max_connections="0")
    clients = [node.client() for _ in range(3)]
    assert [each.closed for each in clients] == [False, False, True]


async def test_a_listener_can_have_its_own_number_of_connections() -> None:
    node = ListeningNode(TWO_LISTENERS, listener_name_clients_max_connections="1")
    clients = [node.client(listener=name) for name in ("CLIENTS", "CLIENTS", "PLAINTEXT")]
    assert are_served(clients) == [True, False, True]


async def test_the_listener_between_nodes_has_room_at_the_expense_of_others() -> None:
    node = ListeningNode(TWO_LISTENERS, max_connections="2")
    old, recent = node.client(listener="CLIENTS"), node.client(listener="CLIENTS")
    waiting = node.client(listener="CLIENTS")
    node.admission.tick += 1
    send(old, b"hello")
    internal = node.client(listener="PLAINTEXT")
    assert are_served([old, recent, waiting, internal]) == [True, False, False, True]
    await run_callbacks()
    assert are_served([waiting]) == [False]
    assert node.log_lines()[0]["reason"] == "more than max.connections=2"


async def test_a_changed_number_applies_to_present_connections() -> None:
    node = ListeningNode(max_connections="2")
    clients = [node.client() for _ in range(3)]
    node.config.publish({"max.connections": "3"}, {}, {})
    node.admission.apply_settings()
    assert are_served(clients) == [True, True, True]
    node.config.publish({"max.connections": "1"}, {}, {})
    node.admission.apply_settings()
    assert are_served(clients) == [False, False, True]


async def test_a_listener_beyond_the_rate_waits_as_long_as_in_kafka() -> None:
    # Two windows of a second: a rate of 5 allows 5 connections at once.
    node = ListeningNode(max_connection_creation_rate="5", quota_window_num="2")
    clients = [node.client() for _ in range(7)]
    assert are_served(clients) == [True] * 5 + [False] * 2
    # The sixth makes 6 per second: (6 - 5) / 5 of the second that was measured.
    node.clock.advance(199)
    assert are_served(clients) == [True] * 5 + [False] * 2
    node.clock.advance(1)
    assert are_served(clients) == [True] * 6 + [False]
    # The seventh is counted now: 7 in 1.2 seconds.
    node.clock.advance(199)
    assert not is_admitted(clients[6])
    node.clock.advance(1)
    assert is_admitted(clients[6])
    (line,) = node.log_lines()
    assert line["event"] == "connection throttled"
    (entry,) = node.context.node.history.about("10.0.0.1", of=Entity.CLIENT)
    assert (entry.kind, entry.facts["quota"]) == ("throttled", RATE)
    assert f"{line['quota']} {line['throttle_ms']}" == f"{RATE} 200"


async def test_a_listener_is_throttled_for_at_most_one_window() -> None:
    node = ListeningNode(max_connection_creation_rate="1", quota_window_num="2")
    first, second = node.client(), node.client()
    node.clock.advance(1000)
    third, fourth = node.client(), node.client()
    assert are_served([first, second, third, fourth]) == [True, True, False, False]
    node.clock.advance(999)
    assert not is_admitted(third)
    node.clock.advance(1)
    assert is_admitted(third)


async def test_other_listeners_are_not_throttled_by_the_rate_of_one() -> None:
    node = ListeningNode(
        TWO_LISTENERS,
        listener_name_clients_max_connection_creation_rate="1",
        quota_window_num="2",
    )
    clients = [node.client(listener="CLIENTS") for _ in range(2)]
    others = [node.client(listener="PLAINTEXT") for _ in range(20)]
    assert are_served(clients) == [True, False]
    assert all(are_served(others))


async def test_the_rate_of_the_node_counts_all_listeners_but_that_between_nodes() -> None:
    names = ("PLAINTEXT", "A", "B")
    node = ListeningNode(names, max_connection_creation_rate="3", quota_window_num="2")
    internal = [node.client(listener="PLAINTEXT") for _ in range(3)]
    clients = [node.client(listener=name) for name in ("A", "B", "A", "B")]
    assert are_served(internal) == [True] * 3
    assert are_served(clients) == [True, True, True, False]


async def test_a_changed_rate_applies_to_the_next_connection() -> None:
    node = ListeningNode(quota_window_num="2")
    before = [node.client() for _ in range(10)]
    node.clock.advance(3000)
    node.config.publish({RATE: "2"}, {}, {})
    after = [node.client() for _ in range(3)]
    assert are_served(before + after) == [True] * 12 + [False]
    node.config.publish({}, {}, {})
    later = node.client()
    # Those that wait do so for the time that was decided before.
    assert are_served([after[2], later]) == [False, False]
    node.clock.advance(1000)
    assert are_served([after[2], later]) == [True, True]


async def test_a_new_rate_counts_the_connections_of_the_last_windows() -> None:
    node = ListeningNode(quota_window_num="2")
    before = [node.client() for _ in range(10)]
    node.config.publish({RATE: "2"}, {}, {})
    after = node.client()
    assert are_served([*before, after]) == [True] * 10 + [False]
    node.clock.advance(1000)
    assert is_admitted(after)


async def test_a_client_that_goes_while_it_waits_keeps_the_others_waiting() -> None:
    node = ListeningNode(max_connection_creation_rate="1", quota_window_num="2")
    _, second, third = node.client(), node.client(), node.client()
    second.close()
    await run_callbacks()
    node.clock.advance(999)
    assert not is_admitted(third)
    assert len(list(node.admission)) == 2
    node.clock.advance(1001)
    assert is_admitted(third)


async def test_a_connection_beyond_the_rate_of_its_address_is_closed_later() -> None:
    node = ListeningNode(quota_window_num="2")
    set_quotas(node, {"10.0.0.1": 2.0})
    clients = [node.client() for _ in range(3)]
    other = node.client(host=2)
    assert are_served([*clients, other]) == [True, True, False, True]
    assert clients[2].paused
    # 3 per second instead of 2 for one second.
    node.clock.advance(499)
    assert not clients[2].closed
    node.clock.advance(1)
    assert clients[2].closed
    await run_callbacks()
    assert len(list(node.admission)) == 3
    assert [line["quota"] for line in node.log_lines()] == ["connection_creation_rate"]


async def test_a_refused_connection_does_not_count() -> None:
    node = ListeningNode(max_connection_creation_rate="3", quota_window_num="2")
    set_quotas(node, {None: 1.0})
    clients = [node.client(host) for host in (1, 1, 1, 2, 3)]
    assert are_served(clients) == [True, False, False, True, True]
    # Neither for its address: after two windows without an accepted connection it may connect.
    node.clock.advance(2000)
    assert is_admitted(node.client(1))


async def test_the_quota_of_an_address_precedes_the_default() -> None:
    node = ListeningNode(quota_window_num="2")
    set_quotas(node, {None: 1.0, "10.0.0.2": 3.0})
    clients = [node.client(host) for host in (1, 1, 2, 2, 2)]
    assert are_served(clients) == [True, False, True, True, True]


async def test_few_connections_wait_to_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ListeningNode(quota_window_num="2")
    set_quotas(node, {None: 1.0})
    clients = [node.client() for _ in range(3)]
    monkeypatch.setattr(module, "MAX_QUEUED_CONNECTIONS", 2)
    last = node.client()
    assert [each.closed for each in (*clients, last)] == [False, False, False, True]


async def test_a_stopped_node_accepts_no_waiting_connection() -> None:
    node = ListeningNode(max_connection_creation_rate="1", quota_window_num="2")
    set_quotas(node, {None: 1.0})
    first, second, refused = node.client(), node.client(host=2), node.client(host=1)
    node.admission.stop()
    node.clock.advance(5000)
    first.close()
    await run_callbacks()
    assert are_served([second, refused]) == [False, False]
    for client in (second, refused):
        client.close()
    await run_callbacks()
    assert node.admission.is_empty.is_set()


API_VERSIONS = bytes.fromhex("0000000a00120000000000010000")
"""ApiVersions v0 with an empty client id."""


def open_socket(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def ask(client: socket.socket) -> bytes:
    client.sendall(API_VERSIONS)
    return client.recv(4)


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL"])
def test_a_socket_beyond_the_rate_is_served_later(security: str) -> None:
    config = {RATE: 1, "quota.window.num": 2}
    with Broker(config=config, clock="manual", security=security, log_level="error") as broker:
        sockets = [open_socket(broker) for _ in range(2)]
        if security == "SSL":
            context = ssl.create_default_context(
                cafile=broker.client_config("librdkafka")["ssl.ca.location"]
            )
            context.check_hostname = False
            sockets = [context.wrap_socket(each, do_handshake_on_connect=False) for each in sockets]
        first, second = sockets
        assert ask(first)
        if security == "PLAINTEXT":
            second.sendall(API_VERSIONS)
        assert ask(first)
        assert select.select([second], [], [], 0)[0] == []
        broker.clock.advance(seconds=1)
        assert second.recv(4) if security == "PLAINTEXT" else ask(second)
        for each in sockets:
            each.close()


def test_a_waiting_socket_is_served_when_the_limit_is_raised() -> None:
    with Broker(config={"max.connections": 1}, clock="manual", log_level="error") as broker:
        first, second = open_socket(broker), open_socket(broker)
        assert ask(first)
        second.sendall(API_VERSIONS)
        change = IncrementalAlterConfigsRequest.AlterableConfig(
            name="listener.name.plaintext.max.connections", value="2"
        )
        both = IncrementalAlterConfigsRequest.AlterableConfig(name="max.connections", value="2")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=4, resource_name="", configs=[change, both]
        )
        request = frame_of(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        first.sendall(pack(">i", len(request)) + request)
        assert second.recv(4)
        for each in (first, second):
            each.close()


def test_a_socket_beyond_the_rate_of_its_address_is_closed_later() -> None:
    with Broker(config={"quota.window.num": 2}, clock="manual", log_level="error") as broker:
        first = open_socket(broker)
        assert ask(first)
        entity = AlterClientQuotasRequest.EntityData(entity_type="ip", entity_name="127.0.0.1")
        op = AlterClientQuotasRequest.OpData(key="connection_creation_rate", value=1.0)
        entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[op])
        request = frame_of(AlterClientQuotasRequest(entries=[entry]), 1)
        first.sendall(pack(">i", len(request)) + request)
        assert first.recv(4096)
        second, third = open_socket(broker), open_socket(broker)
        assert ask(second)
        assert select.select([third], [], [], 0)[0] == []
        broker.clock.advance(seconds=1)
        assert third.recv(4) == b""
        for each in (first, second, third):
            each.close()
