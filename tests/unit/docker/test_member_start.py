"""The start of a container of a cluster: its registration, and which container is the primary."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.security_protocols import PROTOCOL_MAP_KEY
from kafkalite.docker.cluster_messages import RequestedTopic
from kafkalite.docker.member_start import (
    _with_controller,
    is_own_address,
    registration_of,
    stored_node_id,
)
from kafkalite.docker.membership import Membership
from kafkalite.docker.start import plan_from
from kafkalite.server.addresses import Address
from kafkalite.server.settings import Settings
from tests.containers.clients import consume, produce
from tests.unit.docker.cluster_environments import CLUSTER_FORMS, CLUSTER_ID, apache_combined
from tests.unit.docker.image import ENTRYPOINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from kafkalite.docker.cluster_messages import Registration


def registration(environment: Mapping[str, str], host: str) -> Registration:
    plan = plan_from(environment, host)
    assert plan.translation.membership is not None
    return registration_of(plan, plan.translation.membership, host)


def test_registration_has_what_the_environment_says() -> None:
    environment = {
        **apache_combined({1: "kafka-1", 2: "kafka-2"})["kafka-2"],
        "KAFKA_BROKER_RACK": "b",
        "KAFKA_CREATE_TOPICS": "orders:3:2:compact --config=retention.ms=60000",
        "KAFKALITE_TOPICS": "audit:1",
    }
    found = registration(environment, "kafka-2")
    assert (found.node_id, found.host, found.is_broker) == (2, "kafka-2", True)
    assert found.listen == ("PLAINTEXT://:19092", "PLAINTEXT_HOST://:9092")
    assert found.advertise == (
        "PLAINTEXT://kafka-2:19092",
        "PLAINTEXT_HOST://localhost:39092",
    )
    assert found.config["broker.rack"] == "b"
    assert found.cluster_id == CLUSTER_ID
    assert found.topics == (
        RequestedTopic("orders", 3, 2, {"cleanup.policy": "compact", "retention.ms": "60000"}),
        RequestedTopic("audit", 1),
    )


def test_registration_of_a_controller_has_no_listeners_for_clients() -> None:
    form = next(form for form in CLUSTER_FORMS if "separate" in form.name)
    found = registration(form.containers["controller-2"], "controller-2")
    assert (found.node_id, found.is_broker, found.listen) == (2, False, ())


def test_own_address_is_one_that_can_be_bound() -> None:
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.1")  # reserved for documentation
    assert not is_own_address("no-such-host.invalid")


def test_first_node_of_stored_data_is_read_from_its_directory(tmp_path: Path) -> None:
    assert stored_node_id("") is None
    assert stored_node_id(str(tmp_path)) is None
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=4\n")
    assert stored_node_id(str(tmp_path)) == 4


@pytest.fixture
def start() -> Iterator[Callable[[Mapping[str, str]], subprocess.Popen[str]]]:
    """Return a function that starts the program of a container; the test ends with all of them."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA")}
    processes: list[subprocess.Popen[str]] = []

    def started(environment: Mapping[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(ENTRYPOINT)],
            env={**variables, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("config", "advertised"),
    [
        ({}, "kafka-1:9093"),
        ({PROTOCOL_MAP_KEY: "CONTROLLER:SASL_PLAINTEXT"}, "kafka-1:9093"),
        ({PROTOCOL_MAP_KEY: "CONTROLLER:SSL"}, None),
        ({PROTOCOL_MAP_KEY: "CONTROLLER:SSL", "ssl.keystore.key": "…"}, "kafka-1:9093"),
        (
            {
                PROTOCOL_MAP_KEY: "CONTROLLER:SASL_SSL",
                "listener.name.controller.ssl.keystore.location": "/s.jks",
            },
            "kafka-1:9093",
        ),
    ],
)
def test_controller_is_served_unless_its_key_store_is_missing(
    config: dict[str, str], advertised: str | None
) -> None:
    membership = Membership("kafka-1", 39092, True, "VOTERS", 1, 3)
    controllers = [Address("", 9093, "CONTROLLER")]
    settings = _with_controller(Settings(config=config), controllers, membership)
    assert settings.controller_advertise == advertised


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """Return the next line with a text; raises StopIteration if the program ends before."""
    assert process.stdout is not None
    return next(line for line in process.stdout if text in line)


@pytest.fixture
def network() -> str:
    """Return the first three bytes of addresses that stand for containers."""
    numbers = random.SystemRandom()
    return f"127.{numbers.randrange(1, 255)}.{numbers.randrange(1, 255)}"


@pytest.mark.endurance
@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
def test_programs_are_one_cluster(
    start: Callable[[Mapping[str, str]], subprocess.Popen[str]],
    tmp_path: Path,
    network: str,
    roles: str,
) -> None:
    def environment(node_id: int, roles: str) -> dict[str, str]:
        host = f"{network}.{node_id}"
        return {
            "KAFKALITE_ROOT": str(tmp_path),
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": roles,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{network}.1:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "2",
            **({} if roles == "controller" else {"KAFKA_LISTENERS": f"PLAINTEXT://{host}:9092"}),
            **({"KAFKALITE_PRIMARY": host} if node_id == 1 else {}),
        }

    first = start(environment(1, roles))
    second, third = start(environment(2, "broker")), start(environment(3, "broker"))
    for process, node_id in ((second, 2), (third, 3)):
        line = line_with(process, "kafkalite is ready")
        assert f"node {node_id} at PLAINTEXT://{network}.{node_id}:9092" in line
    bootstrap = f"{network}.2:9092"
    produce(bootstrap, "orders", [b"a"])
    assert consume(f"{network}.3:9092", "orders", 1) == [b"a"]
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 0
    assert network in line_with(third, "the cluster has ended with its primary")
    third.send_signal(signal.SIGTERM)
    assert third.wait(10) == 0
