"""A cluster that has something for each page of the console, for checks and pictures of them."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing, contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.clients.chromium import Tab

TOKEN: Final = "a-token-of-tests"  # noqa: S105 - of no server
PAGES: Final = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topic?topic=orders",
    "records": "/records?topic=payments&partition=0",
    "record": "/record?topic=payments&partition=0&offset=0",
    "produce": "/produce?topic=payments&partition=0&offset=0",
    "groups": "/groups",
    "group": "/group?group=shop",
    "transactions": "/transactions",
    "transaction": "/transaction?id=pay-1",
    "requests": "/requests",
    "request": "/request?number=1",
    "entry": "/entry?entry=1",
    "traffic": "/traffic?topic=payments&partition=0&offset=0",
    "faults": "/faults",
    "controls": "/controls",
    "error": "/group?group=missing",
}
"""Addresses of pages below `/console`; `open_page` opens two more, `login` and `confirm`."""
NAMES: Final = ("login", *PAGES, "confirm")
_COMMIT_EVERY: Final = 4
_TIMEOUT_S: Final = 20


@contextmanager
def console_scene(step_s: float) -> Iterator[Broker]:
    """Serve a cluster in which members of a group joined, were expelled and left.

    `step_s` is the time between these events in seconds.
    """
    with (
        Broker(
            brokers=3,
            topics={"orders": 4, "payments": 2, "audit-log": 1},
            config={"group.initial.rebalance.delay.ms": 0},
            storage="memory",
            control=True,
            control_token=TOKEN,
            request_log=100_000,
        ) as broker,
        ExitStack() as stack,
    ):
        stack.callback(_transactions(broker).abort_transaction, _TIMEOUT_S)
        _records(broker)
        _rebalances(broker, stack, step_s)
        broker.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2)
        _send_command(broker, "captures", {"name": "rebalance"})
        _send_command(broker, "captures/rebalance/stop", {})
        _send_command(broker, "snapshots", {})
        _send_command(broker, "clusters", {"from": "now"})
        yield broker


def open_page(tab: Tab, broker: Broker, name: str) -> None:
    """Open a page of NAMES; the tab must have opened `login` before the others."""
    console = f"{broker.control_url}/console"
    if name == "login":
        tab.open(f"{console}/groups")
        tab.wait("document.getElementById('token')")
    elif name == "confirm":
        tab.open(f"{console}/controls?token={TOKEN}")
        tab.evaluate("document.querySelector('form[action$=\"/reset\"] button').click()")
        tab.wait("document.querySelector('form.confirm') && document.readyState === 'complete'")
    else:
        path = PAGES[name]
        tab.open(f"{console}{path}{'&' if '?' in path else '?'}token={TOKEN}")


def _send_command(broker: Broker, path: str, body: object) -> None:
    request = Request(f"{broker.control_url}/v1/{path}", json.dumps(body).encode())  # noqa: S310 - of the broker
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {TOKEN}")
    urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310 - as above


def _transactions(broker: Broker) -> Producer:
    """Commit and abort transactions, fence a producer; return one with an open transaction."""
    fenced, producer = (_producer(broker, "pay-1") for _ in range(2))
    fenced.init_transactions(_TIMEOUT_S)
    _send_in_transaction(fenced, b'{"payment": 71, "amount": 12.50, "currency": "EUR"}')
    fenced.commit_transaction(_TIMEOUT_S)
    _send_in_transaction(fenced, b'{"payment": 72, "amount": 3.00, "currency": "EUR"}')
    fenced.abort_transaction(_TIMEOUT_S)
    producer.init_transactions(_TIMEOUT_S)
    with suppress(KafkaException):
        _send_in_transaction(fenced, b"too late")
        fenced.commit_transaction(_TIMEOUT_S)
    _send_in_transaction(producer, b'{"payment": 73, "amount": 8.20, "currency": "EUR"}')
    return producer


def _producer(broker: Broker, transactional_id: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "client.id": "payment-service",
        }
    )


def _send_in_transaction(producer: Producer, value: bytes) -> None:
    producer.begin_transaction()
    producer.produce(
        "payments", value, key=b"customer-7", partition=0, headers={"trace": b"4bf92f3577b34da6"}
    )
    producer.flush(_TIMEOUT_S)


def _records(broker: Broker) -> None:
    """Write records of several kinds."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "importer"})
    for key, value in (
        (b"\x00\x01\xfe", bytes(range(64))),
        (b"note", "Grüße, 你好, שלום".encode()),
        (b"customer-9", None),
        (b"customer-with-a-very-long-key-" * 4, b"a long line of text " * 40),
    ):
        producer.produce("payments", value, key=key, partition=0)
    producer.flush(_TIMEOUT_S)


def _rebalances(broker: Broker, stack: ExitStack, step_s: float) -> None:
    """Let members join, be expelled and leave; others remain until the stack is closed."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "web-shop"})
    members: list[Consumer] = []
    for client_id in ("checkout", "billing", "shipping"):
        members.append(stack.enter_context(closing(_consumer(broker, client_id))))
        _poll(producer, members, step_s)
    described = broker.group("shop").members
    broker.expel(next(each for each in described if each.client_id == "checkout").member_id)
    with suppress(KafkaException):
        members[0].commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
    _poll(producer, members, step_s)
    members.pop(1).close()
    _poll(producer, members, step_s)


def _consumer(broker: Broker, client_id: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "client.id": client_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 500,
            "session.timeout.ms": 6_000,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def _poll(producer: Producer, members: Sequence[Consumer], step_s: float) -> None:
    """Produce and consume for some time, until the members are assigned, and commit often."""
    end = perf_counter() + step_s
    while perf_counter() < end or not all(each.assignment() for each in members):
        assert perf_counter() < end + _TIMEOUT_S
        producer.produce("orders", value="order")
        producer.flush(10)
        for each in members:
            message = each.poll(0.02)
            if message is None or message.error() or (message.offset() or 0) % _COMMIT_EVERY:
                continue
            with suppress(KafkaException):  # the group rebalances
                each.commit(message=message, asynchronous=False)
