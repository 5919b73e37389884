"""Writes docs/images/console-group.png: the console's page about a group that rebalanced.

`python -m tests.clients.console_picture` needs Chromium.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.architecture.source import ROOT
from tests.clients.chromium import chromium

if TYPE_CHECKING:
    from collections.abc import Sequence

PICTURE: Final = ROOT / "docs" / "images" / "console-group.png"
_WIDTH, _HEIGHT = 1120, 1000
_STEP_S: Final = 2.5
_COMMIT_EVERY: Final = 4


def main() -> int:
    """Let members of a group join, be expelled and leave, and take a picture of its page."""
    with (
        TemporaryDirectory() as name,
        Broker(topics={"orders": 4}, control=True) as broker,
        chromium(Path(name)) as browser,
        ExitStack() as stack,
    ):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        members: list[Consumer] = []
        for client_id in ("checkout", "billing", "shipping"):
            members.append(stack.enter_context(closing(_consumer(broker, client_id))))
            _poll(producer, members)
        described = broker.group("shop").members
        broker.expel(next(each for each in described if each.client_id == "checkout").member_id)
        with suppress(KafkaException):
            members[0].commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
        _poll(producer, members)
        members.pop(1).close()
        _poll(producer, members)
        tab = browser.new_tab()
        tab.show_as(_WIDTH, _HEIGHT)
        tab.open(f"{broker.control_url}/console/group?group=shop")
        tab.wait("document.getElementById('live-state').textContent === 'live'")
        tab.picture(PICTURE)
    return 0


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


def _poll(producer: Producer, members: Sequence[Consumer]) -> None:
    """Produce and consume for some time, and commit often."""
    end = perf_counter() + _STEP_S
    while perf_counter() < end:
        producer.produce("orders", value="order")
        producer.flush(10)
        for each in members:
            message = each.poll(0.02)
            if message is None or message.error() or (message.offset() or 0) % _COMMIT_EVERY:
                continue
            with suppress(KafkaException):  # the group rebalances
                each.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    sys.exit(main())
