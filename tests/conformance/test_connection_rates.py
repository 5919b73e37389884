"""Connections beyond the limits wait, or are closed, as long as those of a real Kafka."""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from tests.conformance.raw import RawClient
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

RATE = 5
CONFIG = {
    **COMMON_CONFIG,
    "max.connection.creation.rate": str(RATE),
    "quota.window.num": "2",
}
WINDOWS_S = 2.0
_API_VERSIONS = bytes.fromhex("0000000a00120000000000010000")
_TIMEOUT_S = 20.0
_TOLERANCE_S = 1.0
"""Kafka closes refused connections twice a second; processes on a busy machine are slow."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    directory = tmp_path_factory.mktemp("connection-rates")
    with required():
        real = RealKafka(directory / "kafka", CONFIG)
        real.start()
    try:
        emulator = broker_under_test(directory / "kafkalite", CONFIG)
        emulator.start()
        try:
            yield real, emulator
        finally:
            emulator.kill()
    finally:
        real.kill()


def open_all(port: int, count: int) -> list[tuple[float, bool]]:
    """Open connections at once; return when each got an answer, or its end, and whether it did."""
    time.sleep(WINDOWS_S + 0.5)  # earlier connections do not count any more
    began = time.monotonic()
    waiting: set[socket.socket] = set()
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        client.sendall(_API_VERSIONS)
        waiting.add(client)
    results = []
    while waiting:
        readable, _, _ = select.select(waiting, [], [], _TIMEOUT_S)
        assert readable, "a connection gets neither an answer nor an end"
        for client in readable:
            try:
                is_answered = bool(client.recv(4))
            except ConnectionResetError:
                is_answered = False
            results.append((time.monotonic() - began, is_answered))
            waiting.remove(client)
            client.close()
    return results


def test_connections_beyond_the_rate_of_a_node_wait(brokers: tuple[Target, Target]) -> None:
    real, emulated = (open_all(broker.port, 4 * RATE) for broker in brokers)
    assert all(is_answered for _, is_answered in real + emulated)
    for (real_s, _), (emulated_s, _) in zip(real, emulated, strict=True):
        assert emulated_s == pytest.approx(real_s, abs=_TOLERANCE_S), (real, emulated)
    assert real[-1][0] > WINDOWS_S


def set_address_quota(broker: Target, rate: float | None) -> None:
    entity = AlterClientQuotasRequest.EntityData(entity_type="ip", entity_name="127.0.0.1")
    op = AlterClientQuotasRequest.OpData(
        key="connection_creation_rate", value=rate or 0.0, remove=rate is None
    )
    entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[op])
    client = RawClient(broker.port)
    (altered,) = client.call(AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert not altered.error_code
    client.close()


def test_connections_beyond_the_rate_of_an_address_are_closed(
    brokers: tuple[Target, Target],
) -> None:
    outcomes = []
    for broker in brokers:
        set_address_quota(broker, 2.0)
        outcomes.append(open_all(broker.port, 2 * RATE))
        time.sleep(WINDOWS_S)  # the next connection may not be refused
        set_address_quota(broker, None)
    for outcome in outcomes:
        assert sum(is_answered for _, is_answered in outcome) == 2
    real, emulated = map(sorted, outcomes)
    for (real_s, _), (emulated_s, _) in zip(real, emulated, strict=True):
        assert emulated_s == pytest.approx(real_s, abs=_TOLERANCE_S), (real, emulated)
