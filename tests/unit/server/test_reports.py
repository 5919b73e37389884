"""Reports: log lines about settings, data, nodes, requests, files and the event loop."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.gateway.call import ConnectionContext
from kafkalite.metadata.creation import NewTopic
from kafkalite.partitions.table import Truncation
from kafkalite.ports.extras import install_command
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.reports import LATE_LOOP_INTERVAL_S, Reports
from kafkalite.server.settings import Settings
from kafkalite.storage.disk_health import DiskFailure, DiskProblem
from kafkalite.testing.clock import ManualClock
from tests.unit.exchanges import end, new_exchange
from tests.unit.nodes import node_of
from tests.unit.server.client import METADATA_VERSION, Client
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from kafkalite.gateway.exchanges import Exchange, Observer


ANY_PORT = ("127.0.0.1:0",)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 3}))
    await broker.start()
    yield broker
    await broker.stop(grace_s=0.1)


async def test_too_few_replicas_of_a_coordinator_are_reported_once() -> None:
    config = {"offsets.topic.replication.factor": "2", "min.insync.replicas": "2"}
    output = io.StringIO()
    settings = Settings(listen=ANY_PORT, brokers=2, config=config)
    broker = Broker(settings, Log(Level.INFO, "json", output))
    await broker.start()
    assert broker.cluster is not None
    broker.cluster.metadata.ensure_internal_topic("__consumer_offsets")
    for _ in range(2):
        await broker.nodes.stop(2)
        await broker.nodes.start(2)
    await broker.stop(grace_s=0.1)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    reported = [line for line in lines if line.get("topic") == "__consumer_offsets"]
    fields = [(line["in_sync"], line["min_insync_replicas"]) for line in reported]
    assert fields == [(1, 2), (1, 2)]  # once for each stop, although it has 50 partitions


async def test_data_without_a_metadata_log_is_renamed_and_reported(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"t": 1})
    broker = Broker(settings)
    await broker.start()
    partitions = broker.cluster.partitions if broker.cluster else None
    assert partitions is not None
    for log in partitions.logs().values():
        log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await broker.stop()
    (tmp_path / "__cluster_metadata-0" / f"{0:020d}.log").unlink()
    with pytest.raises(BrokerDirectoryError, match=r"missing.* or delete meta\.properties"):
        await Broker(settings).start()
    (tmp_path / "meta.properties").unlink()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    await broker.stop()
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    (renamed,) = [line["renamed"] for line in lines if line.get("directory") == "t-0"]
    assert renamed == "t-0.1-stray"
    assert b"value" in (tmp_path / "t-0.1-stray" / f"{0:020d}.log").read_bytes()


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_an_unreadable_coordinator_log_is_reported(tmp_path: Path, topic: str) -> None:
    """Any client with the id of Kafka's admin client may write to internal topics."""
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={topic: 3})
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()[topic, 1]
    keys = [b"\0\1cut short", b"\0\0cut short"]
    log.append([batch(b"value", b"value", keys=keys)], leader_epoch=0, now_ms=0)
    await broker.stop()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    cluster = broker.cluster
    shards = {
        "__consumer_offsets": [shard.partition for shard in cluster.groups.shards()],
        "__transaction_state": [shard.partition for shard in cluster.transactions.shards()],
    }
    assert shards[topic] == [0, 2]
    await broker.stop()
    (line,) = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert line["partition"] == f"{topic}-1"
    assert "is not a record" in json.dumps(line)


@pytest.mark.parametrize(
    ("brokers", "config", "keys"),
    [
        (3, {}, []),
        (2, {"offsets.topic.replication.factor": "2"}, ["transaction", "share"]),
        (1, {}, ["offsets", "transaction", "share"]),
    ],
)
async def test_internal_topics_without_enough_nodes_are_reported_at_the_start(
    brokers: int, config: dict[str, str], keys: list[str]
) -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, brokers=brokers, config=config, defaults="kafka")
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    await broker.stop()
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert [line["key"].partition(".")[0] for line in lines] == keys
    assert all(line["value"] == 3 and line["nodes"] == brokers for line in lines)


async def test_tiered_topics_are_reported_if_tiered_storage_is_disabled(tmp_path: Path) -> None:
    settings = Settings(listen=("127.0.0.1:0",), data_directory=str(tmp_path))
    enabled = {"remote.log.storage.system.enable": "true"}
    broker = Broker(settings._replace(config=enabled))
    await broker.start()
    assert broker.cluster is not None
    for name in ("tiered", "plain"):
        configs = {"remote.storage.enable": str(name == "tiered").lower()}
        broker.cluster.metadata.create_topics([NewTopic(name, 1, 1, configs=configs)])
    await broker.stop(grace_s=0)
    warned = []
    for config in (enabled, {}):
        log_output = io.StringIO()
        broker = Broker(settings._replace(config=config), Log(Level.INFO, "json", log_output))
        await broker.start()
        await broker.stop(grace_s=0)
        warned += [line for line in lines(log_output) if "disabling tiered" in str(line["event"])]
    assert [(line["level"], line["topics"]) for line in warned] == [("warning", "tiered")]


async def test_a_missing_decoder_of_pushed_metrics_is_reported_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    events = {}
    for value in ("true", "false"):
        log_output = io.StringIO()
        settings = Settings(listen=ANY_PORT, config={"kafkalite.client.telemetry": value})
        broker = Broker(settings, Log(Level.INFO, "json", log_output))
        await broker.start()
        await broker.stop()
        lines = log_output.getvalue().splitlines()
        events[value] = [json.loads(line)["event"] for line in lines]
    warning = "pushed metrics are not decoded without the extra telemetry: "
    assert events == {"true": [f"{warning}{install_command('telemetry')}"], "false": []}


async def test_an_offline_log_directory_is_reported_at_the_start(tmp_path: Path) -> None:
    output, path = io.StringIO(), tmp_path / "file"
    path.write_text("")
    config = {"log.dirs": f"{tmp_path / 'data'},{path}"}
    broker = Broker(Settings(listen=ANY_PORT, config=config), Log(Level.WARNING, "json", output))
    await broker.start()
    await broker.stop()
    (line,) = (json.loads(text) for text in output.getvalue().splitlines())
    assert (line["node"], line["path"]) == (1, str(path))
    assert "offline" in line["event"]


async def test_an_invalid_setting_is_reported_without_other_warnings() -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, config={"authorizer.class.name": "com.example.Own"})
    with pytest.raises(ConfigError):
        await Broker(settings, Log(Level.INFO, "json", log_output)).start()
    assert log_output.getvalue() == ""


async def test_requests_are_logged_while_the_level_is_debug() -> None:
    output = io.StringIO()
    broker = Broker(Settings(listen=("127.0.0.1:0",)), Log(Level.INFO, "json", output))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    assert broker.cluster is not None
    levels = broker.cluster.config.log_levels
    for level in ("INFO", "DEBUG", "INFO"):
        levels.set("root", level)
        await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    await client.close()
    await broker.stop()
    events = [json.loads(line)["event"] for line in output.getvalue().splitlines()]
    assert events.count("request") == 1


def lines(log_output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log_output.getvalue().splitlines()]


def logged(exchange: Exchange, level: Level = Level.DEBUG) -> list[dict[str, object]]:
    """Return the lines about an exchange."""
    log_output = io.StringIO()
    Reports(Log(level, "json", log_output)).exchange(exchange)
    return lines(log_output)


def offset_commit(*observers: Observer) -> Exchange:
    """Return the exchange of an OffsetCommit whose answer is pending."""
    context = ConnectionContext(
        node=node_of(2, clock=ManualClock()), listener="A", client_host="/h", client_id="me"
    )
    return new_exchange(context, OffsetCommitRequest(), 8, *observers)


def heartbeat(*observers: Observer) -> Exchange:
    """Return the exchange of a Heartbeat whose answer is pending."""
    context = ConnectionContext(
        node=node_of(2, clock=ManualClock()), listener="A", client_host="/h", client_id="me\x1b"
    )
    return new_exchange(context, HeartbeatRequest(), 4, *observers)


NOT_COORDINATOR = HeartbeatResponse(error_code=16)


def test_each_request_has_a_line_at_level_debug() -> None:
    exchange = end(heartbeat(), NOT_COORDINATOR)
    (line,) = logged(exchange)
    assert line.pop("timestamp")
    assert line == {
        "event": "request",
        "level": "debug",
        "node": 2,
        "listener": "A",
        "client": "/h",
        "client_id": "me\\x1b",
        "api": "Heartbeat",
        "api_key": 12,
        "version": 4,
        "correlation_id": 7,
        "request_bytes": exchange.request_bytes,
        "answer_bytes": exchange.answer_bytes,
        "error": "NOT_COORDINATOR",
    }
    assert logged(exchange, Level.INFO) == []


def test_a_request_with_a_later_answer_has_a_second_line() -> None:
    exchange = heartbeat()
    (asked,) = logged(exchange)
    exchange.wait()
    (answered,) = logged(end(exchange, NOT_COORDINATOR))
    assert (asked["event"], asked["answer_bytes"], asked["error"]) == ("request", "later", None)
    assert (answered["event"], answered["answer_bytes"]) == ("answer", exchange.answer_bytes)
    assert (answered["api"], answered["error"]) == ("Heartbeat", "NOT_COORDINATOR")
    assert "request_bytes" not in answered
    assert asked["correlation_id"] == answered["correlation_id"] == 7


def commits(codes: Sequence[int]) -> OffsetCommitResponse:
    partitions = [
        OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=partitions)
    return OffsetCommitResponse(topics=[topic])


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (commits([0]), "NONE"),
        (None, None),
        (
            commits([0, 16, 16, 22, 25, 15, 14]),
            "NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, +2",
        ),
        (commits([29_999]), "error 29999"),
        (commits([16] * 10_000), "not searched in a long answer"),
    ],
    ids=["no error", "no answer", "many errors", "unknown error", "long answer"],
)
def test_a_line_names_the_errors_of_the_answer(response: object, error: str | None) -> None:
    log_output = io.StringIO()
    end(offset_commit(Reports(Log(Level.DEBUG, "json", log_output)).exchange), response)
    (line,) = lines(log_output)
    assert line["error"] == error


@pytest.mark.parametrize("problem", DiskProblem)
def test_each_disk_failure_has_a_line_at_its_beginning_and_end(problem: DiskProblem) -> None:
    log_output = io.StringIO()
    reports = Reports(Log(Level.WARNING, "json", log_output))
    failure = DiskFailure(problem, "/data/t-0", "No space left on device")
    reports.failure_began(failure)
    reports.failure_ended(failure)
    began, ended = lines(log_output)
    for line in (began, ended):
        assert line["level"] == "warning"
        assert line["path"] == "/data/t-0"
        assert line["reason"] == "No space left on device"
    assert began["event"] != ended["event"]


def test_a_truncation_by_a_new_leader_is_one_warning() -> None:
    log_output = io.StringIO()
    Reports(Log(Level.WARNING, "json", log_output)).truncation(Truncation("t", 1, 2, 7, 30, 12))
    (line,) = lines(log_output)
    assert line.pop("timestamp")
    assert line == {
        "event": "a new leader removed the records that it does not have",
        "level": "warning",
        "topic": "t",
        "partition": 1,
        "leader": 2,
        "leader_epoch": 7,
        "end_offset": 30,
        "removed_offsets": 12,
    }


def test_a_late_loop_is_logged_at_most_once_in_an_interval() -> None:
    stream = io.StringIO()
    reports = Reports(Log(Level.DEBUG, style="json", stream=stream))
    reports.late_loop(1.04, now_s=50.0)
    assert '"late_by_ms": 1040' in stream.getvalue()
    for lateness_s in (0.7, 2.5, 0.6):
        reports.late_loop(lateness_s, now_s=51.0)
    assert stream.getvalue().count("the event loop was late") == 1
    reports.late_loop(0.8, now_s=50.0 + LATE_LOOP_INTERVAL_S)
    _, line = stream.getvalue().splitlines()
    assert '"late_by_ms": 2500' in line
    assert '"times": 4' in line
