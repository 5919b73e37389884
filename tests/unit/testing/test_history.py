"""Histories of brokers: equal for one seed, and where others part."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.testing import Broker, history_of, same_history
from tests.architecture.source import ROOT
from tests.unit.frames import request_frame

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing.history import History

START = "manual@2026-03-01T12:00:00Z"

REQUESTS = (
    (CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(
        name="orders", num_partitions=2, replication_factor=1)]), 7),
    (JoinGroupRequest(
        group_id="shop",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    ), 9),
    (InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=1000), 4),
)  # fmt: skip
"""Requests whose answers have random ids."""


def send_requests(broker: Broker) -> None:
    """Send all requests on one connection, one after the other."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        for request, version in REQUESTS:
            client.sendall(request_frame(request, version))
            length = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
            assert len(client.recv(length, socket.MSG_WAITALL)) == length
        for value in ("apples", "pears"):
            broker.produce("orders", value, partition=0, timestamp=1)


def run(seed: int, **settings: object) -> History:
    with Broker(seed=seed, clock=START, request_log=100, **settings) as broker:  # type: ignore[arg-type]
        send_requests(broker)
        return history_of(broker)


def test_two_brokers_with_one_seed_have_equal_histories() -> None:
    first, second = run(5), run(5)
    comparison = same_history(first, second)
    assert comparison
    assert repr(comparison) == "the histories are equal"
    assert [each["api"] for each in first.requests] == [
        "CreateTopics",
        "JoinGroup",
        "InitProducerId",
    ]
    assert first.entries
    assert any("orders-0" in path for path in first.files)


def test_the_history_does_not_depend_on_the_hashes_of_the_process() -> None:
    program = (
        "from hashlib import sha256\n"
        "from tests.unit.testing.test_history import run\n"
        "print(sha256(repr(run(5)).encode()).hexdigest())\n"
    )

    def digest(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert digest("1") == digest("2")


def test_histories_with_other_seeds_part_at_the_first_id() -> None:
    comparison = same_history(run(5), run(6))
    assert not comparison
    request, *files = comparison.differences
    assert request.startswith("request 1 parts: response ")
    assert any(each.startswith("file meta.properties parts at byte ") for each in files)
    metadata = next(each for each in files if "cluster_metadata" in each and ".log" in each)
    assert ", in the batch at offset " in metadata


def test_missing_parts_are_named() -> None:
    first = run(5)
    second = first._replace(
        requests=first.requests[:-1], entries=(), files={"added": b"", **first.files}
    )
    request, entry, file = same_history(first, second).differences
    assert request.startswith("request 3 is only in the first history: ")
    assert entry.startswith("entry of explain 1 is only in the first history: ")
    assert file == "file added is only in the second history"
    longer = first._replace(files={**first.files, "a.log": b"x"})
    shorter = first._replace(files={**first.files, "a.log": b""})
    (line,) = same_history(longer, shorter).differences
    assert line == "file a.log parts at byte 0, at its end"


def test_a_later_start_with_the_same_data_generates_other_ids(tmp_path: Path) -> None:
    def topic_id(name: str, seed: int) -> str:
        with Broker(seed=seed, clock=START, data_directory=tmp_path) as broker:
            broker.create_topic(name)
            return broker.topic(name).topic_id

    assert topic_id("a", 5) != topic_id("b", 5)


def test_brokers_with_one_seed_run_at_the_same_time() -> None:
    with Broker(seed=5, clock=START) as first, Broker(seed=5, clock=START) as second:
        assert first.cluster_id == second.cluster_id
        assert first.data_directory != second.data_directory
        assert same_history(first, second)


@pytest.mark.parametrize("seed", [-1, 1 << 63, "5", True, 1.5])
def test_an_invalid_seed_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match="seed must be a number from 0 to 9223372036854775807"):
        Broker(seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, "broker", Broker])
def test_only_brokers_and_histories_are_compared(value: object) -> None:
    with pytest.raises(ValueError, match=r"^a history is that of a Broker, or .*, not "):
        same_history(value, value)  # type: ignore[arg-type]
