"""The entrypoint of the image: variables become options, and the health check finds topics."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from struct import pack
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.docker.image import ENTRYPOINT, ROOT, load_entrypoint

if TYPE_CHECKING:
    from collections.abc import Iterator

entrypoint = load_entrypoint()


def options(**environment: str) -> list[str]:
    found: list[str] = entrypoint.serve_arguments(environment, "container-1")
    return found


def test_default_listeners_are_for_the_host_and_the_network() -> None:
    assert options() == [
        "--listen=OUTSIDE://0.0.0.0:9092",
        "--listen=INSIDE://0.0.0.0:29092",
        "--advertise=OUTSIDE://localhost:9092",
        "--advertise=INSIDE://container-1:29092",
    ]


def test_variables_become_options() -> None:
    assert options(
        KAFKALITE_LISTEN="A://0.0.0.0:1, B://0.0.0.0:2",
        KAFKALITE_ADVERTISE="A://a:1 B://b:2",
        KAFKALITE_TOPICS="orders:3,audit:1",
        KAFKALITE_BROKERS="3",
        KAFKALITE_DATA_DIR="/data",
        KAFKALITE_CONFIG="log.cleanup.policy=compact,delete; num.partitions=2\nx=y",
        KAFKALITE_PROPERTIES="/p",
        KAFKALITE_AS_VERSION="3.9",
        KAFKALITE_CONTROL="0.0.0.0:9097",
        KAFKALITE_CLOCK="manual",
        KAFKALITE_LOG_FORMAT="json",
        KAFKALITE_LOG_LEVEL="debug",
    ) == [
        "--listen=A://0.0.0.0:1",
        "--listen=B://0.0.0.0:2",
        "--advertise=A://a:1",
        "--advertise=B://b:2",
        "--topic=orders:3",
        "--topic=audit:1",
        "--config=log.cleanup.policy=compact,delete",
        "--config=num.partitions=2",
        "--config=x=y",
        "--brokers=3",
        "--data-dir=/data",
        "--properties=/p",
        "--as-version=3.9",
        "--control=0.0.0.0:9097",
        "--clock=manual",
        "--log-format=json",
        "--log-level=debug",
    ]


def test_own_listeners_have_no_default_advertised_addresses() -> None:
    assert options(KAFKALITE_LISTEN="0.0.0.0:9092") == ["--listen=0.0.0.0:9092"]


def test_empty_variables_have_no_effect() -> None:
    assert options(KAFKALITE_TOPICS="", KAFKALITE_DATA_DIR="", KAFKALITE_CONFIG=" ;\n") == options()
    assert options(KAFKALITE_LISTEN="", KAFKALITE_ADVERTISE=" ") == options()


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        (None, "127.0.0.1", 9092),
        ("", "127.0.0.1", 9092),
        ("A://0.0.0.0:19,B://0.0.0.0:20", "127.0.0.1", 19),
        ("A://:19", "127.0.0.1", 19),
        ("A://[::]:19", "::1", 19),
        ("A://kafkalite:19", "kafkalite", 19),
    ],
)
def test_health_check_uses_the_first_listener(listen: str | None, host: str, port: int) -> None:
    environment = {} if listen is None else {"KAFKALITE_LISTEN": listen}
    assert entrypoint.health_check_address(environment) == (host, port, False)


def test_health_check_prefers_a_listener_without_tls() -> None:
    environment = {
        "KAFKALITE_LISTEN": "SSL://:19,B://:20",
        "KAFKALITE_CONFIG": "listener.security.protocol.map=B:PLAINTEXT",
    }
    assert entrypoint.health_check_address(environment) == ("127.0.0.1", 20, False)
    environment["KAFKALITE_CONFIG"] = "listener.security.protocol.map=B:SSL"
    assert entrypoint.health_check_address(environment) == ("127.0.0.1", 19, True)


def test_a_broker_with_tls_is_healthy() -> None:
    with Broker(security="SSL", topics={"orders": 3}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {"KAFKALITE_LISTEN": f"SSL://0.0.0.0:{port}", "KAFKALITE_TOPICS": "orders:3"}
        assert entrypoint.healthcheck(environment) == 0


def test_invalid_address_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.healthcheck({"KAFKALITE_LISTEN": "kafkalite"}) == 1
    assert "kafkalite" in capsys.readouterr().err


def test_misspelt_variable_is_reported_and_those_of_kubernetes_are_not() -> None:
    environment = {
        "KAFKALITE_TOPIC": "orders:3",
        "KAFKALITE_BROKERS": "1",
        "KAFKALITE_PORT": "tcp://10.0.0.7:9092",
        "KAFKALITE_SERVICE_HOST": "10.0.0.7",
        "PATH": "/bin",
    }
    assert entrypoint.find_misspelt_variables(environment) == {
        "KAFKALITE_TOPIC": "KAFKALITE_TOPICS"
    }


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Broker(topics={"orders": 3}) as broker:
        yield int(broker.bootstrap_servers.rpartition(":")[2])


def test_broker_with_its_topics_is_healthy(port: int) -> None:
    entrypoint.check("127.0.0.1", port, ["orders"])
    entrypoint.check("127.0.0.1", port, [])


def test_missing_topic_is_unhealthy_and_is_not_created(port: int) -> None:
    for _ in range(2):
        with pytest.raises(entrypoint.UnhealthyError, match="missing"):
            entrypoint.check("127.0.0.1", port, ["orders", "missing"])


def health(port: int, topics: str = "orders:3") -> int:
    environment = {"KAFKALITE_LISTEN": f"A://0.0.0.0:{port}", "KAFKALITE_TOPICS": topics}
    status: int = entrypoint.healthcheck(environment)
    return status


def test_exit_status_is_the_health(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert health(port) == 0
    assert capsys.readouterr().err == ""
    assert health(port, "missing:1") == 1
    assert "missing" in capsys.readouterr().err


def test_closed_port_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert health(port) == 1


@pytest.mark.parametrize("answer", [b"", pack(">i", 100) + b"cut", pack(">iih", 6, 1, 35)])
def test_listener_of_another_protocol_is_unhealthy(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        assert health(server.getsockname()[1]) == 1
        thread.join()


def test_entrypoint_runs_a_broker_and_checks_its_health() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KAFKALITE_LISTEN": f"OUTSIDE://127.0.0.1:{port}",
        "KAFKALITE_TOPICS": "orders:3",
    }
    command = [sys.executable, str(ENTRYPOINT)]
    with subprocess.Popen(
        [*command, "--brokers", "1"], stdout=subprocess.PIPE, text=True, env=environment
    ) as serving:
        assert serving.stdout is not None
        assert f"127.0.0.1:{port}" in serving.stdout.readline()
        checked = subprocess.run([*command, "healthcheck"], env=environment, check=False)
        assert checked.returncode == 0
        serving.terminate()
        assert serving.wait(5) == 0
