"""The broker that tests use: both forms of `with`, isolated, and no trouble after the block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from kafkalite.capture.model import Direction, Frame, Problem
from kafkalite.capture.reading import read
from kafkalite.capture.rotation import CaptureError
from kafkalite.config.definitions import ConfigError
from kafkalite.replay.staging import StagingError
from kafkalite.testing import Broker
from kafkalite.transactions.state import TransactionState

ROOT = Path(__file__).parents[3]


def topics_of(broker: Broker) -> dict[str, int]:
    """Ask by a client that blocks, as most clients in tests do."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def test_a_blocking_test_has_a_broker_in_its_block() -> None:
    with Broker(topics={"orders": 3}) as broker:
        assert topics_of(broker) == {"orders": 3}


async def test_an_async_test_may_block_without_stopping_its_broker() -> None:
    async with Broker(brokers=3, topics={"t": 3}) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        assert topics_of(broker) == {"t": 3}


def test_brokers_do_not_know_each_other() -> None:
    with Broker(topics={"here": 1}) as one, Broker(topics={"there": 1}) as other:
        assert one.cluster_id != other.cluster_id
        assert topics_of(one) == {"here": 1}
        assert topics_of(other) == {"there": 1}


def test_settings_count() -> None:
    with Broker(config={"num.partitions": "5"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("made-by-use", b"value")
        assert producer.flush(10) == 0
        assert topics_of(broker) == {"made-by-use": 5}


def test_a_broker_speaks_as_the_release_it_is_told() -> None:
    with Broker(as_version="3.9") as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert client.list_topics(timeout=10).topics == {}
    with (
        pytest.raises(ConfigError, match=r"'2\.8' is none of '3\.3', '3\.4'"),
        Broker(as_version="2.8"),
    ):
        pass


def test_settings_may_be_numbers_and_booleans() -> None:
    config = {
        "num.partitions": 5,
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.25,
    }
    with Broker(config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        (described,) = admin.describe_configs([resource]).values()
        told = described.result(10)
    assert {key: told[key].value for key in config} == {
        "num.partitions": "5",
        "auto.create.topics.enable": "false",
        "log.cleaner.min.cleanable.ratio": "0.25",
    }


def test_a_log_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="DEBUG, INFO, WARNING, ERROR"):
        Broker(log_level="loud")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"match": "seeded"}, "match='seeded' needs replay"),
        ({"on_miss": "live"}, "on_miss='live' needs replay"),
        ({"replay": "x", "match": "nope"}, "'nope' is none of strict, lenient, seeded"),
        ({"replay": "x", "on_miss": "nope"}, "'nope' is none of fail, live"),
        ({"replay": "x", "match": "seeded", "on_miss": "live"}, "answers everything itself"),
    ],
)
def test_a_replay_that_cannot_be_meant_is_refused(asked: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Broker(**asked)  # type: ignore[arg-type]  # words alone


def test_nothing_runs_after_the_block() -> None:
    threads = threading.active_count()
    with Broker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    assert threading.active_count() == threads
    with socket.create_server(("127.0.0.1", port)):
        pass
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers


@pytest.mark.parametrize("end", ["", "if os.fork() == 0: sys.exit()\nos.wait()\nask()"])
def test_a_broker_nobody_stopped_leaves_nothing_when_the_process_ends(
    tmp_path: Path, end: str
) -> None:
    """A process forked off it ends well too, and does not take the broker with it."""
    script = (
        "import os, socket, sys\n"
        "from kafkalite.testing import Broker\n"
        "broker = Broker()\n"
        "broker.start()\n"
        "def ask(): socket.create_connection(broker.bootstrap_servers.split(':')).close()\n"
        f"{end}\n"
        "print(os.listdir(os.environ['TMPDIR']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "kafkalite-" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_block_can_be_entered_again(tmp_path: Path) -> None:
    broker = Broker(topics={"t": 2}, data_directory=tmp_path)
    cluster_ids = set()
    for _ in range(2):
        with broker:
            cluster_ids.add(broker.cluster_id)
            assert topics_of(broker) == {"t": 2}
    assert len(cluster_ids) == 1


def test_a_broker_that_cannot_start_says_why_and_leaves_no_thread() -> None:
    threads = threading.active_count()
    with (
        pytest.raises(ConfigError, match=r"no\.such\.setting"),
        Broker(config={"no.such.setting": "1"}),
    ):
        pass
    assert threading.active_count() == threads


def test_a_test_sees_transactions_and_fences_their_producers() -> None:
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"}
        zombie = Producer(settings)
        zombie.init_transactions(10)
        zombie.begin_transaction()
        zombie.produce("orders", b"two apples")
        zombie.flush(10)
        (before,) = broker.transactions()
        assert before.state is TransactionState.ONGOING
        assert before.partitions == {("orders", 0)}
        (fenced,) = broker.fence_producers("shop")
        assert (fenced.transactional_id, fenced.producer_id) == ("shop", before.producer_id)
        assert fenced.producer_epoch > before.producer_epoch
        (after,) = broker.transactions()
        assert (after.state, after.partitions) == (TransactionState.EMPTY, frozenset())
        with pytest.raises(KafkaException) as refusal:
            zombie.commit_transaction(10)
        assert refusal.value.args[0].code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}
        with pytest.raises(RuntimeError, match=r"cannot fence ''.*INVALID_REQUEST"):
            broker.fence_producers("")


def test_traffic_is_recorded_where_it_is_asked_for(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    broker = Broker(capture=captures, clock="manual@2020-01-01T00:00:00Z")
    for _ in range(2):
        with broker:
            host, port = broker.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\xff\xff")
                connection.recv(4096)
    problems: list[Problem] = []
    requests = [
        each
        for each in read([str(captures)], problems.append)
        if isinstance(each, Frame) and each.direction is Direction.REQUEST
    ]
    assert problems == []
    assert {each.at_ns for each in requests} == {1_577_836_800_000_000_000}
    assert [each.body for each in requests] == [b"\0\x12\0\0\0\0\0\7\xff\xff"] * 2


def test_where_nothing_can_be_recorded_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError), Broker(capture=tmp_path / "file"):
        pass


def test_a_recording_ends_where_the_broker_cannot_start(tmp_path: Path) -> None:
    broker = Broker(capture=tmp_path / "captures", replay=tmp_path / "none")
    with pytest.raises(StagingError, match="no requests to replay"):
        broker.start()
    (capture,) = (tmp_path / "captures").iterdir()
    problems: list[Problem] = []
    assert list(read([str(capture)], problems.append)) == []
    assert problems == []
    assert not [each for each in threading.enumerate() if each.name == "kafkalite-capture"]
