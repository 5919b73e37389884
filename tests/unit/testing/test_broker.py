"""The broker for tests: both forms of `with`, isolation, and no remains after the block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from kafkalite.capture.model import Direction, Frame, Problem
from kafkalite.capture.reading.captures import read
from kafkalite.capture.recording.file_rotation import CaptureError
from kafkalite.config.definitions import ConfigError
from kafkalite.security.sasl.users import User
from kafkalite.server.addresses import AddressError
from kafkalite.testing import Broker
from kafkalite.transactions.state import TransactionState
from tests.unit.security.issued_files import Files
from tests.unit.telemetry.pushes import counter, push_metrics, serialized

ROOT = Path(__file__).parents[3]


def topics_of(broker: Broker) -> dict[str, int]:
    """Use a blocking client, as most clients in tests are."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def test_a_blocking_client_can_use_the_broker() -> None:
    with Broker(topics={"orders": 3}) as broker:
        assert topics_of(broker) == {"orders": 3}


async def test_an_async_test_may_block_without_stopping_its_broker() -> None:
    async with Broker(brokers=3, topics={"t": 3}) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        assert topics_of(broker) == {"t": 3}


def test_brokers_are_isolated() -> None:
    with Broker(topics={"here": 1}) as one, Broker(topics={"there": 1}) as other:
        assert one.cluster_id != other.cluster_id
        assert topics_of(one) == {"here": 1}
        assert topics_of(other) == {"there": 1}


def test_settings_take_effect() -> None:
    with Broker(config={"num.partitions": "5"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("made-by-use", b"value")
        assert producer.flush(10) == 0
        assert topics_of(broker) == {"made-by-use": 5}


def test_a_broker_emulates_the_given_release() -> None:
    with Broker(as_version="3.9") as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert client.list_topics(timeout=10).topics == {}
    with (
        pytest.raises(ConfigError, match=r"'2\.8' is not one of '3\.3', '3\.4'"),
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
        configs = described.result(10)
    assert {key: configs[key].value for key in config} == {
        "num.partitions": "5",
        "auto.create.topics.enable": "false",
        "log.cleaner.min.cleanable.ratio": "0.25",
    }


@pytest.mark.parametrize("topics", [["orders"], {"orders": "3"}])
def test_topics_need_numbers_of_partitions(topics: Any) -> None:  # noqa: ANN401 - invalid
    with pytest.raises(ValueError, match=r"^topics must have a number of partitions for each name"):
        Broker(topics=topics)


def test_an_unknown_log_level_is_rejected() -> None:
    with pytest.raises(ValueError, match="DEBUG, INFO, WARNING, ERROR"):
        Broker(log_level="loud")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"controller_id": -1}, "controller_id must be a number from 0 to 2147483647, not -1"),
        ({"match": "seeded"}, "match='seeded' needs replay"),
        ({"on_miss": "live"}, "on_miss='live' needs replay"),
        ({"replay": "x", "match": "nope"}, "'nope' is not one of strict, lenient, seeded"),
        ({"replay": "x", "on_miss": "nope"}, "'nope' is not one of fail, live"),
        ({"replay": "x", "match": "seeded", "on_miss": "live"}, "answers every request"),
    ],
)
def test_an_invalid_replay_is_rejected(asked: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Broker(**asked)  # type: ignore[arg-type]  # words alone


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"storage": "tape"}, "storage 'tape' is not one of disk, memory"),
        ({"storage": "memory", "data_directory": "d"}, "data_directory cannot be combined"),
        ({"memory_limit": "1m"}, "memory_limit needs storage='memory'"),
        ({"storage": "memory", "memory_limit": 5}, "a size such as '512m', not 5"),
        ({"storage": "memory", "memory_limit": "1k"}, "'1k' is not a size of 1m or more"),
    ],
)
def test_invalid_storage_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Broker(**given)


def test_data_in_memory_is_in_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker.produce("orders", "a")
        assert [record.value for record in broker.records("orders")] == [b"a"]
        assert broker.data_files()["orders-0/00000000000000000000.log"].endswith(b"a\0")
        with pytest.raises(RuntimeError, match="the data is in memory"):
            _ = broker.data_directory
    assert list(tmp_path.iterdir()) == []


def test_records_above_the_limit_of_the_memory_are_refused_and_others_accepted() -> None:
    with Broker(topics={"orders": 1}, storage="memory", memory_limit="2m") as broker:
        broker.produce("orders", bytes(900_000))
        broker.produce("orders", bytes(900_000))
        with pytest.raises(ValueError, match="KAFKA_STORAGE_ERROR"):
            broker.produce("orders", bytes(900_000))
        broker.produce("orders", b"small")
        assert [len(record.value or b"") for record in broker.records("orders")] == [
            900_000,
            900_000,
            5,
        ]


def test_a_fork_and_its_source_do_not_see_each_others_work() -> None:
    with Broker(topics={"orders": 1}, storage="memory", brokers=2) as broker:
        broker.produce("orders", "a")
        with broker.fork() as fork:
            assert fork.bootstrap_servers != broker.bootstrap_servers
            assert fork.cluster_id == broker.cluster_id
            fork.produce("orders", "f")
            fork.create_topic("own")
            broker.produce("orders", "b")
            with fork.fork() as second:
                second.produce("orders", "s")
                fork.nodes[2].stop()
                assert [each.value for each in second.records("orders")] == [b"a", b"f", b"s"]
            assert [each.value for each in fork.records("orders")] == [b"a", b"f"]
            assert (fork.topics(), broker.topics()) == (["orders", "own"], ["orders"])
            fork.restore(broker.snapshot())
            assert [each.value for each in fork.records("orders")] == [b"a", b"b"]
        with pytest.raises(RuntimeError, match="the broker is not running"):
            fork.topics()
        with pytest.raises(RuntimeError, match="a fork cannot start again"):
            fork.start()
        assert [each.value for each in broker.records("orders")] == [b"a", b"b"]


def test_a_path_is_not_a_snapshot() -> None:
    reason = r"'s\.zip' is not a Snapshot: Broker.load_snapshot\(path\) reads"
    with Broker(storage="memory") as broker:
        for refuse in (broker.restore, broker.fork, lambda path: broker.cluster("a", path)):
            with pytest.raises(TypeError, match=reason):
                refuse("s.zip")  # type: ignore[arg-type]  # a mistake
        with pytest.raises(TypeError, match="the name of a cluster must be text, not 3"):
            broker.cluster(3)  # type: ignore[arg-type]  # a mistake


def test_forks_end_with_their_source() -> None:
    with Broker(topics={"orders": 1}, storage="memory", clock="manual", seed=3) as broker:
        snapshot = broker.snapshot()
        broker.clock.advance(hours=1)
        fork = broker.fork(snapshot)
        assert fork.clock.now_ms() == broker.clock.now_ms() - 3_600_000
        assert fork.create_topic("next").topic_id == broker.create_topic("next").topic_id
    with pytest.raises(RuntimeError, match="the broker is not running"):
        fork.topics()


def test_nothing_runs_after_the_block() -> None:
    threads = set(threading.enumerate())
    with Broker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    assert set(threading.enumerate()) <= threads
    with socket.create_server(("127.0.0.1", port)):
        pass
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers


@pytest.mark.parametrize("end", ["", "if os.fork() == 0: sys.exit()\nos.wait()\nask()"])
def test_a_broker_that_is_not_stopped_leaves_nothing_after_the_process(
    tmp_path: Path, end: str
) -> None:
    """A forked process ends without stopping the broker of its parent."""
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


def test_a_failed_start_has_a_reason_and_leaves_no_thread() -> None:
    threads = set(threading.enumerate())
    with (
        pytest.raises(ConfigError, match=r"no\.such\.setting"),
        Broker(config={"no.such.setting": "1"}),
    ):
        pass
    # A thread of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= threads


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


def test_a_secured_broker_returns_settings_for_clients() -> None:
    with Broker(security="SSL", brokers=2, topics={"orders": 3}) as broker:
        config = broker.client_config("librdkafka")
        assert config["bootstrap.servers"] == broker.bootstrap_servers
        found = AdminClient(config).list_topics(timeout=10)
        assert len(found.topics["orders"].partitions) == 3
        assert len(found.brokers) == 2
        (fenced,) = broker.fence_producers("shop")
        assert fenced.transactional_id == "shop"
        with pytest.raises(ValueError, match="library 'kcat' is not one of"):
            broker.client_config("kcat")


def test_the_traffic_of_a_secured_broker_is_recorded_without_encryption(tmp_path: Path) -> None:
    with Broker(security="SSL", topics={"orders": 1}) as broker:
        admin = AdminClient(broker.client_config("librdkafka"))
        admin.list_topics(timeout=10)
        broker.start_recording(tmp_path / "capture")
        admin.list_topics(timeout=10)
        broker.stop_recording()
        assert "orders" in admin.list_topics(timeout=10).topics
    problems: list[Problem] = []
    frames = [
        each
        for each in read([str(tmp_path / "capture")], problems.append)
        if isinstance(each, Frame)
    ]
    assert problems == []
    assert any(b"orders" in frame.body for frame in frames)


def test_the_files_of_a_secured_broker_remain_in_its_data_directory(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        with Broker(security="SSL", data_directory=tmp_path) as broker:
            path = Path(broker.client_config("java")["ssl.truststore.location"])
            assert path == tmp_path / "ca.pem"
            contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_a_secured_broker_can_have_its_own_key_store(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with Broker(security="SSL", config=files.config()) as broker:
        config = broker.client_config("librdkafka")
        assert config.keys() == {"bootstrap.servers", "security.protocol"}
        admin = AdminClient({**config, "ssl.ca.location": files.authority})
        assert len(admin.list_topics(timeout=10).brokers) == 1


def test_an_unknown_security_protocol_is_rejected() -> None:
    with pytest.raises(ValueError, match="security 'TLS' is not one of PLAINTEXT, SSL"):
        Broker(security="TLS")


def test_traffic_is_recorded_on_request(tmp_path: Path) -> None:
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


def test_an_impossible_recording_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError), Broker(capture=tmp_path / "file"):
        pass


def test_a_recording_ends_if_the_broker_cannot_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = Broker(capture=tmp_path / "captures", port=other.getsockname()[1])
        with pytest.raises(AddressError, match="in use"):
            broker.start()
    (capture,) = (tmp_path / "captures").iterdir()
    problems: list[Problem] = []
    assert list(read([str(capture)], problems.append)) == []
    assert problems == []
    assert not [each for each in threading.enumerate() if each.name == "kafkalite-capture"]


PASSWORD = "s3cr3t-passw0rd"  # noqa: S105 - of a test
LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_clients_of_a_broker_with_users_authenticate() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"alice": PASSWORD}, topics={"t": 1}) as broker:
        config = broker.client_config("librdkafka")
        assert config["sasl.mechanisms"] == "SCRAM-SHA-512"
        assert "t" in AdminClient(config).list_topics(timeout=10).topics
        config |= {"sasl.mechanisms": "PLAIN", "sasl.username": "bob", "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(config).list_topics(timeout=1)
        broker.fence_producers("id")


def test_users_of_one_mechanism_have_it_in_the_settings_of_clients() -> None:
    users = [User("alice", PASSWORD, ("PLAIN",))]
    with Broker(security="SASL_SSL", users=users, topics={"t": 1}) as broker:
        config = broker.client_config("librdkafka")
        assert config["sasl.mechanisms"] == "PLAIN"
        assert "t" in AdminClient(config).list_topics(timeout=10).topics


def test_an_invalid_user_is_rejected() -> None:
    with pytest.raises(ValueError, match="user 'alice' needs a name and a password"):
        Broker(security="SASL_PLAINTEXT", users={"alice": ""})
    with pytest.raises(ValueError, match=r"objects of User, not str$"):
        Broker(security="SASL_PLAINTEXT", users=["alice:secret"])  # type: ignore[list-item]


def test_passwords_are_neither_recorded_nor_logged_nor_described(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    with Broker(
        security="SASL_PLAINTEXT",
        users={"alice": PASSWORD},
        config={jaas: f'{LOGIN_MODULE} user_bob="{PASSWORD}";'},
        log_level="debug",
        capture=tmp_path,
    ) as broker:
        config = broker.client_config("librdkafka")
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin = AdminClient({**config, "sasl.mechanisms": mechanism})
            described = admin.describe_configs([resource])[resource].result(10)
            assert (described[jaas].value, described[jaas].is_sensitive) == (None, True)
        config |= {"sasl.mechanisms": "PLAIN", "sasl.username": "carol", "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(config).list_topics(timeout=1)
        assert PASSWORD not in f"{broker.explain()}{broker!r}"
    logged = capfd.readouterr()
    recorded = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert "Invalid username or password" in logged.err
    assert PASSWORD not in logged.out + logged.err
    assert PASSWORD.encode() not in recorded
    assert b",p=" not in recorded, "the proof of SCRAM"
    assert b",s=" not in recorded, "the salt of SCRAM"


def test_pushed_metrics_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(config={"kafkalite.client.telemetry": True}) as broker:
        assert broker.client_metrics() == []
        push_metrics(broker, serialized(counter(value=4, topic="t")))
        (client,) = broker.client_metrics("conformance")
        assert client.client.client_software_name == "unknown"
        assert [each.value for each in client.find("messages.total", topic="t")] == [4]
        monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
        with pytest.raises(ModuleNotFoundError, match=r"kafkalite\[telemetry\]"):
            broker.client_metrics()


def test_metrics_are_not_pushed_by_default() -> None:
    with Broker() as broker, pytest.raises(ValueError, match=r"kafkalite\.client\.telemetry=true"):
        broker.client_metrics()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"brokers": "3"}, "brokers must be a number from 1 on, not '3'"),
        ({"request_log": -1}, "request_log must be a number from 1 on, not -1"),
        ({"request_log": True}, "request_log must be a number from 1 on, not True"),
        ({"config": ["x"]}, "config must have a value for each name"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Broker(**arguments)


def test_an_unknown_pace_is_refused() -> None:
    with pytest.raises(ValueError, match="pace 'fast' is not one of kafka"):
        Broker(pace="fast")
