"""The memory of hostile clients: buffers grow with received bytes; large requests leave none."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from tests.conformance.raw import RawClient
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf.fairness import ATTACKS, MEMORY_RATIO, resident_mb, send, served_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.endurance

CONNECTIONS = 500
SENT_BYTES = 70_000
ANNOUNCED_BYTES = 100_000_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedKafkalite]:
    served = ServedKafkalite(tmp_path, {})
    served.start()
    yield served
    served.kill()


def send_request(served: ServedKafkalite) -> None:
    client = RawClient(served.port, 60)
    assert not client.call(ApiVersionsRequest(), 0).error_code
    client.close()


def test_memory_grows_with_received_bytes_not_with_announced_length(
    served: ServedKafkalite,
) -> None:
    send_request(served)
    before_mb = resident_mb(served.pid)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            peer.sendall(struct.pack(">i", ANNOUNCED_BYTES) + bytes(SENT_BYTES))
        send_request(served)
        used_mb = resident_mb(served.pid) - before_mb
    assert used_mb < 2.5 * CONNECTIONS * SENT_BYTES / 1e6


def test_memory_of_a_large_request_is_released(served: ServedKafkalite) -> None:
    small = DeleteTopicsRequest(topic_names=["unknown"], timeout_ms=1000)
    large = DeleteTopicsRequest(topic_names=[f"{n:x}" for n in range(400_000)], timeout_ms=1000)
    client = RawClient(served.port, 120)
    client.call(small, 5)
    before_mb = resident_mb(served.pid)
    assert len(client.call(large, 5).responses) == 400_000
    peak_mb = resident_mb(served.pid, "VmHWM")
    assert peak_mb > 2 * before_mb, "the request is too small for this test"
    deadline = time.monotonic() + 30
    while resident_mb(served.pid) > 1.3 * before_mb and time.monotonic() < deadline:
        client.call(small, 5)
    assert resident_mb(served.pid) <= 1.3 * before_mb
    client.close()


@pytest.mark.parametrize(
    "name",
    [
        "30 compressed batches",
        "delete groups",
        "delete topics",
        "describe groups",
        "fetch",
        "find coordinator",
        "produce to unknown",
    ],
)
def test_memory_after_an_attack_is_close_to_that_before(name: str) -> None:
    with served_broker() as served:
        send(served.port, ATTACKS[name].small())  # the first request imports code
        before_mb = resident_mb(served.pid)
        send(served.port, ATTACKS[name].large())
        assert resident_mb(served.pid, "VmHWM") > 2 * before_mb
        client = RawClient(served.port, 60)
        deadline = time.monotonic() + 30
        while resident_mb(served.pid) > MEMORY_RATIO * before_mb and time.monotonic() < deadline:
            client.call(ApiVersionsRequest(), 0)
        client.close()
        assert resident_mb(served.pid) <= MEMORY_RATIO * before_mb
