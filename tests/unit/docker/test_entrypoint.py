"""The entrypoint of the image: it runs the broker, and the health check finds topics."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from struct import pack
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.start import plan_from
from kafkalite.testing import Broker
from tests.unit.docker.image import ENTRYPOINT, ROOT, load_entrypoint

if TYPE_CHECKING:
    from collections.abc import Iterator

entrypoint = load_entrypoint()


def listener(environment: dict[str, str]) -> tuple[str, int, str]:
    """Return host, port and security protocol of the listener that a health check uses."""
    spec = entrypoint.health_check_listener(plan_from(environment, "host"))
    return spec.listen_address.host, spec.listen_address.port, spec.protocol.value


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        (None, "0.0.0.0", 9092),  # noqa: S104
        ("", "0.0.0.0", 9092),  # noqa: S104
        ("A://0.0.0.0:19,B://0.0.0.0:20", "0.0.0.0", 19),  # noqa: S104
        ("A://:19", "", 19),
        ("A://[::]:19", "::", 19),
        ("A://kafkalite:19", "kafkalite", 19),
    ],
)
def test_health_check_uses_the_first_listener(listen: str | None, host: str, port: int) -> None:
    environment = {} if listen is None else {"KAFKALITE_LISTEN": listen}
    assert listener(environment) == (host, port, "PLAINTEXT")


def test_health_check_prefers_a_listener_without_tls() -> None:
    environment = {
        "KAFKALITE_LISTEN": "SSL://:19,B://:20",
        "KAFKALITE_CONFIG": "listener.security.protocol.map=B:PLAINTEXT",
    }
    assert listener(environment) == ("", 20, "PLAINTEXT")
    environment["KAFKALITE_CONFIG"] = "listener.security.protocol.map=B:SSL"
    assert listener(environment) == ("", 19, "SSL")


def test_health_check_prefers_a_listener_without_sasl() -> None:
    environment = {
        "KAFKA_LISTENERS": "SASL://:19,PLAINTEXT://:20",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    assert listener(environment) == ("", 20, "PLAINTEXT")


def test_a_broker_with_sasl_is_healthy() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {
            "KAFKALITE_LISTEN": f"SASL_PLAINTEXT://0.0.0.0:{port}",
            "KAFKALITE_TOPICS": "orders:3",
        }
        assert entrypoint.healthcheck(environment) == 0


def test_a_controller_without_broker_is_healthy() -> None:
    assert entrypoint.healthcheck({"KAFKA_PROCESS_ROLES": "controller"}) == 0


def test_topics_of_another_image_must_exist(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_CREATE_TOPICS": "orders:3:1",
    }
    assert entrypoint.healthcheck(environment) == 0
    environment["KAFKA_CREATE_TOPICS"] = "missing:1"
    assert entrypoint.healthcheck(environment) == 1
    assert "missing" in capsys.readouterr().err


def test_a_broker_with_tls_is_healthy() -> None:
    with Broker(security="SSL", topics={"orders": 3}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {"KAFKALITE_LISTEN": f"SSL://0.0.0.0:{port}", "KAFKALITE_TOPICS": "orders:3"}
        assert entrypoint.healthcheck(environment) == 0


def test_invalid_address_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.healthcheck({"KAFKALITE_LISTEN": "kafkalite"}) == 1
    assert "kafkalite" in capsys.readouterr().err


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
