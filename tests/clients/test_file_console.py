"""The console over captures and data directories in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.clients.chromium import Tab

pytestmark = [pytest.mark.client, pytest.mark.endurance]


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serve a console over files, and yield its address."""
    words = ["-m", "kafkalite", "console", str(path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/console", process.stdout.readline())
        try:
            assert found is not None
            yield found[0]
        finally:
            process.terminate()
            assert process.wait(20) == 0


def test_a_group_in_a_capture_is_followed_to_its_packets(tab: Tab) -> None:
    with served(CAPTURE) as console:
        tab.open(f"{console}/")
        tab.wait_for_text("Requests by API")
        tab.open(f"{console}/group?group=fenced")
        tab.wait("document.querySelectorAll('.timeline rect.member').length > 0")
        tab.wait_for_text("FENCED_INSTANCE_ID")
        tab.evaluate(
            "[...document.querySelectorAll('.history li')]"
            ".find((each) => each.textContent.includes('refused: FENCED_INSTANCE_ID'))"
            ".querySelector('a[href*=entry]').click()"
        )
        tab.wait_for_text("Requests that were served at this time")
        tab.evaluate("document.querySelector('.requests a[href*=number]').click()")
        tab.wait_for_text("groupInstanceId")
        tab.evaluate("document.getElementById('commands').open = true")
        assert "frame.number==" in tab.text()
        assert tab.evaluate("document.querySelectorAll('form[method=post]').length") == 0
        tab.open(f"{console}/group?group=fenced")
        tab.wait("document.getElementById('step') !== null")
        tab.evaluate(
            "document.getElementById('step').value = 2;"
            "document.getElementById('step').dispatchEvent(new Event('input', {bubbles: true}))"
        )
        tab.wait_for_text("The group as it was at")
        assert tab.errors() == []


def test_a_directory_shows_records_and_an_earlier_group(tab: Tab, tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, data_directory=tmp_path) as broker:
        broker.produce("orders", "<b>bold</b>")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe(["orders"])
            for _ in range(200):
                consumer.poll(0.05)
                if consumer.assignment():
                    break
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    with served(tmp_path) as console:
        tab.open(f"{console}/records?topic=orders")
        tab.wait_for_text("<b>bold</b>")
        tab.open(f"{console}/group?group=shop")
        tab.wait_for_text("orders-0")
        tab.evaluate(
            "document.getElementById('step').value = 1;"
            "document.getElementById('step').dispatchEvent(new Event('input', {bubbles: true}))"
        )
        tab.wait_for_text("The group as it was at")
        assert tab.evaluate("document.querySelectorAll('form[method=post]').length") == 0
        assert tab.errors() == []
