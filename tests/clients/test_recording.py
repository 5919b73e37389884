"""Recordings that start and stop while real clients are connected."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from kafkalite.capture.reading.captures import exchanges, ignore, read
from kafkalite.capture.reading.messages import parse_request
from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.client


def recorded_batches(directory: Path) -> list[bytes]:
    """Return the records of each recorded Produce request."""
    requests = [
        parse_request(exchange)
        for exchange in exchanges(read([directory], ignore))
        if exchange.api_key == ProduceRequest.API_KEY
    ]
    return [
        bytes(partition.records)
        for request in requests
        for topic in request.topic_data
        for partition in topic.partition_data
    ]


def test_requests_of_a_connected_producer_are_recorded(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with Broker(topics={"orders": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})

        def send(value: bytes) -> None:
            producer.produce("orders", value)
            assert producer.flush(30) == 0

        send(b"before")
        broker.start_recording(first)
        send(b"recorded")
        with pytest.raises(RuntimeError, match="already"):
            broker.start_recording(second)
        broker.stop_recording()
        send(b"between")
        broker.start_recording(second)
        send(b"again")

    (first_batch,) = recorded_batches(first)
    (second_batch,) = recorded_batches(second)
    assert b"recorded" in first_batch
    assert b"again" in second_batch


def test_commands_record_the_requests_of_a_connected_producer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "step.pcapng"
    with Broker(topics={"orders": 1}, control=True) as broker:
        monkeypatch.setenv("KAFKALITE_CONTROL", broker.control_url)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})

        def send(value: bytes) -> None:
            producer.produce("orders", value)
            assert producer.flush(30) == 0

        send(b"before")
        main(["recording", "start", "step"])
        with pytest.raises(RuntimeError, match="already"):
            broker.start_recording(tmp_path / "other")
        broker.stop_recording()
        send(b"recorded")
        main(["recording", "stop", "step"])
        send(b"after")
        with urlopen(f"{broker.control_url}/v1/captures/step/file") as response:  # noqa: S310 - http
            file.write_bytes(response.read())
        broker.start_recording(tmp_path / "external")
        main(["recording", "stop", "external"])
        broker.start_recording(tmp_path / "again")
        send(b"again")
    (batch,) = recorded_batches(file)
    assert b"recorded" in batch
    (batch,) = recorded_batches(tmp_path / "again")
    assert b"again" in batch
    capsys.readouterr()
    main(["show", f"{file}"])
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "Produce" in each]
    assert "topics=orders(1)" in line
