"""Start scripts and preparations of other Kafka images, as the first process of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.docker.variables import Image
from tests.containers import test_environments
from tests.containers.clients import consume, produce
from tests.oracle.target import free_port
from tests.unit.docker.environments import FORMS, Form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.containers.containers import Containers
    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
PORT = 9092
_SCRAM = "SCRAM-SHA-256=[iterations=8192,password=pw]"
_SASL = {
    "KAFKA_LISTENERS": f"SASL_PLAINTEXT://:{PORT}",
    "KAFKA_ADVERTISED_LISTENERS": "SASL_PLAINTEXT://localhost:{port}",
    "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_PLAINTEXT",
    "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "SCRAM-SHA-256",
}
_LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "alice",
    "sasl.password": "pw",
}
_BITNAMI = {
    "ALLOW_PLAINTEXT_LISTENER": "yes",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{port}",
}


class Start(NamedTuple):
    """A start of a container, and what a client and a tool see."""

    name: str
    environment: Mapping[str, str]
    command: tuple[str, ...]
    """The first program is the entrypoint of the container."""
    login: Mapping[str, str] = {}
    tool: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    """Texts of the tool's output."""


STARTS = (
    Start("bitnami, entrypoint and run", _BITNAMI, ("/entrypoint.sh", "/run.sh")),
    Start("bitnami, old entrypoint", _BITNAMI, ("/app-entrypoint.sh", "/run.sh")),
    Start(
        "bitnami, long names after a command",
        _BITNAMI,
        (
            "bash", "-c", (
                "echo prepared && . /opt/bitnami/scripts/kafka/setup.sh && "
                "exec /opt/bitnami/scripts/kafka/entrypoint.sh /opt/bitnami/scripts/kafka/run.sh"
            ),
        ),
    ),
    Start(
        "wurstmeister, with settings of topics",
        {
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_HOST_NAME": "localhost",
            "KAFKA_ADVERTISED_PORT": "{port}",
            "KAFKA_CREATE_TOPICS": "compacted:3:1:compact --config=retention.ms=60000,plain:1:1",
        },
        ("/start-kafka.sh",),
        tool=("kafka-topics", "--describe", "--topic", "compacted"),
        output=("PartitionCount: 3", "cleanup.policy=compact", "retention.ms=60000"),
    ),
    Start(
        "confluent, a user of ZooKeeper before the start",
        {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", "KAFKA_BROKER_ID": "1", **_SASL},
        (
            "sh", "-c", (
                "kafka-configs --zookeeper zookeeper:2181 --alter --entity-type users "
                f"--entity-name alice --add-config '{_SCRAM}' && exec /etc/confluent/docker/run"
            ),
        ),
        login=_LOGIN,
    ),
    Start(
        "apache, formatted before the start",
        {
            **_SASL,
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_LISTENERS": f"SASL_PLAINTEXT://:{PORT},PLAIN://:19092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": (
                "SASL_PLAINTEXT://localhost:{port},PLAIN://localhost:19092"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
        },
        (
            "/__cacert_entrypoint.sh", "bash", "-c", (
                f"/opt/kafka/bin/kafka-storage.sh format -t {CLUSTER_ID} --standalone "
                "-c /opt/kafka/config/server.properties --feature kraft.version=1 "
                "--ignore-formatted --add-scram 'SCRAM-SHA-256=[name=alice,password=pw]' "
                "&& exec /etc/kafka/docker/run"
            ),
        ),
        login=_LOGIN,
        tool=("kafka-cluster", "cluster-id"),
        output=(f"Cluster ID: {CLUSTER_ID}",),
    ),
    Start(
        "apache, the start script of Kafka",
        {},
        (
            "/opt/kafka/bin/kafka-server-start.sh", "/opt/kafka/config/server.properties",
            "--override", "num.partitions=4",
            "--override", "advertised.listeners=PLAINTEXT://localhost:{port}",
        ),
        tool=("kafka-topics", "--describe", "--topic", "orders"),
        output=("PartitionCount: 4",),
    ),
)  # fmt: skip


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_start_runs_the_broker_and_ends_with_status_0(
    engine: Engine, containers: Containers, start: Start
) -> None:
    port = free_port()
    variables = [
        f"--env={name}={value.replace('{port}', str(port))}"
        for name, value in start.environment.items()
    ]
    entrypoint, *arguments = (text.replace("{port}", str(port)) for text in start.command)
    name = containers.start(
        f"--publish=127.0.0.1:{port}:{PORT}", f"--entrypoint={entrypoint}", *variables,
        command=tuple(arguments),
    )  # fmt: skip
    produce(f"localhost:{port}", "orders", [b"a"], **start.login)
    assert consume(f"localhost:{port}", "orders", 1, **start.login) == [b"a"]
    if start.tool:
        inside = "localhost:19092" if start.login else f"localhost:{PORT}"
        tool, *options = start.tool
        printed = engine.run("exec", name, tool, *options, "--bootstrap-server", inside)
        assert [text for text in start.output if text not in printed] == []
    engine.run("stop", "--time=30", name)
    assert engine.inspect(name)["State"]["ExitCode"] == 0


def _parameters(test: Callable[..., None]) -> Sequence[Form | Start]:
    """Return what a test runs with; it has no mark that could omit one of them."""
    (mark,) = test.pytestmark  # type: ignore[attr-defined] # pytest sets it
    assert mark.name == "parametrize"
    parameters: Sequence[Form | Start] = mark.args[1]
    return parameters


def test_at_least_forty_environments_and_start_scripts_run_in_containers() -> None:
    forms = _parameters(test_environments.test_container_becomes_healthy_and_has_its_topics)
    starts = _parameters(test_start_runs_the_broker_and_ends_with_status_0)
    assert len(forms) + len(starts) >= 40
    assert {form.image for form in FORMS} == set(Image)
    assert set(map(id, FORMS)) == set(map(id, forms))
    shapes = [*(f"{form.image.value}: {form.name}" for form in FORMS), *(s.name for s in STARTS)]
    assert len(set(shapes)) == len(forms) + len(starts)
