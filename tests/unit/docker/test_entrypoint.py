"""The entrypoint of the image: variables become options, and the health check finds topics."""

from __future__ import annotations

import os
import signal
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
    from pathlib import Path

entrypoint = load_entrypoint()


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
    assert entrypoint.health_check_target(environment)[:3] == (host, port, False)


@pytest.mark.parametrize(
    ("listen", "config", "target"),
    [
        ("SSL://:1,B://:2", "listener.security.protocol.map=B:PLAINTEXT", (2, False, False, False)),
        ("SSL://:1,B://:2", "listener.security.protocol.map=B:SSL", (1, True, False, False)),
        ("SASL_PLAINTEXT://:1,SSL://:2", "", (2, True, False, False)),
        ("SASL_SSL://:1,SASL_PLAINTEXT://:2", "", (2, False, True, False)),
        ("SSL://:1", "ssl.client.auth=required", (1, True, False, True)),
        ("SSL://:1", "ssl.client.auth=requested", (1, True, False, False)),
        ("SSL://:1,SASL_SSL://:2", "ssl.client.auth=required", (2, True, True, False)),
        ("SASL_SSL://:2", "listener.name.sasl_ssl.ssl.client.auth=required", (2, True, True, True)),
        (
            "SSL://:1",
            "ssl.client.auth=required;listener.name.ssl.ssl.client.auth=none",
            (1, True, False, False),
        ),
    ],
)
def test_health_check_uses_the_listener_with_the_fewest_requirements(
    listen: str, config: str, target: tuple[object, ...]
) -> None:
    environment = {"KAFKALITE_LISTEN": listen, "KAFKALITE_CONFIG": config}
    assert entrypoint.health_check_target(environment) == ("127.0.0.1", *target)


def test_health_check_reads_the_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listener.security.protocol.map=B:SASL_SSL\n")
    environment = {"KAFKALITE_LISTEN": "B://:1", "KAFKALITE_PROPERTIES": str(file)}
    assert entrypoint.health_check_target(environment) == ("127.0.0.1", 1, True, True, False)
    environment["KAFKALITE_CONFIG"] = "listener.security.protocol.map=B:SSL"
    assert entrypoint.health_check_target(environment) == ("127.0.0.1", 1, True, False, False)


@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_broker_with_sasl_is_healthy(security: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Broker(security=security, users={"alice": "secret"}, topics={"orders": 3}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {
            "KAFKALITE_LISTEN": f"{security}://0.0.0.0:{port}",
            "KAFKALITE_TOPICS": "orders:3",
        }
        assert entrypoint.healthcheck(environment) == 0
    assert entrypoint.healthcheck(environment) == 1
    # Clients of librdkafka that other tests did not close still write lines that begin with "%".
    lines = [each for each in capfd.readouterr().err.splitlines() if not each.startswith("%")]
    assert [each for each in lines if "unhealthy" not in each] == []


def test_a_broker_with_acls_is_healthy() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "super.users": "User:admin"}
    with Broker(config=config, topics={"orders": 3}) as broker:
        assert health(int(broker.bootstrap_servers.rpartition(":")[2])) == 0


CLIENT_AUTH = {"ssl.client.auth": "required"}


def certificate_environment(broker: Broker, **variables: str) -> dict[str, str]:
    """Return the environment of a broker whose clients need a certificate."""
    port = broker.bootstrap_servers.rpartition(":")[2]
    return {
        "KAFKALITE_LISTEN": f"SSL://0.0.0.0:{port}",
        "KAFKALITE_TOPICS": "orders:3",
        "KAFKALITE_CONFIG": "ssl.client.auth=required",
        **variables,
    }


def test_the_client_certificate_of_generated_ones_is_used(tmp_path: Path) -> None:
    with Broker(
        security="SSL", config=CLIENT_AUTH, topics={"orders": 3}, data_directory=tmp_path
    ) as broker:
        environment = certificate_environment(
            broker, KAFKALITE_TLS="auto", KAFKALITE_DATA_DIR=str(tmp_path)
        )
        assert entrypoint.client_certificate(environment) == str(tmp_path / "client.pem")
        assert entrypoint.healthcheck(environment) == 0
        environment["KAFKALITE_TLS"] = f"auto:{tmp_path}"
        assert entrypoint.healthcheck(environment) == 0
        assert entrypoint.healthcheck({**environment, "KAFKALITE_TOPICS": "missing:1"}) == 1


@pytest.mark.parametrize(("tls", "status"), [("on", 0), ("off", 0), ("wrong", 1)])
def test_the_control_api_is_used_if_there_is_no_certificate(tls: str, status: int) -> None:
    with Broker(
        security="SSL",
        config=CLIENT_AUTH,
        control=True,
        control_token="auto",  # noqa: S106
        control_tls="off" if tls != "on" else None,
    ) as broker:
        port = broker.control_url.rpartition(":")[2]
        environment = certificate_environment(broker, KAFKALITE_CONTROL=f"0.0.0.0:{port}")
        if tls == "off":
            environment["KAFKALITE_CONTROL_TLS"] = "off"
        assert entrypoint.healthcheck(environment) == status


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_asks_for_a_certificate_is_healthy(version: str) -> None:
    config = {**CLIENT_AUTH, "ssl.enabled.protocols": version}
    with Broker(security="SSL", config=config) as broker:
        environment = certificate_environment(broker)
        assert entrypoint.healthcheck(environment) == 0
    assert entrypoint.healthcheck(environment) == 1


def test_a_broker_that_does_not_ask_for_a_certificate_is_unhealthy() -> None:
    with Broker(security="SSL") as broker:
        assert entrypoint.healthcheck(certificate_environment(broker)) == 1


def test_a_broker_with_tls_is_healthy() -> None:
    with Broker(security="SSL", topics={"orders": 3}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {"KAFKALITE_LISTEN": f"SSL://0.0.0.0:{port}", "KAFKALITE_TOPICS": "orders:3"}
        assert entrypoint.healthcheck(environment) == 0


def test_invalid_address_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.healthcheck({"KAFKALITE_LISTEN": "kafkalite"}) == 1
    assert "kafkalite" in capsys.readouterr().err


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


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Broker(topics={"orders": 3}) as broker:
        yield int(broker.bootstrap_servers.rpartition(":")[2])


def test_broker_with_its_topics_is_healthy(port: int) -> None:
    entrypoint.check(entrypoint.Target("127.0.0.1", port), ["orders"])
    entrypoint.check(entrypoint.Target("127.0.0.1", port), [])


def test_missing_topic_is_unhealthy_and_is_not_created(port: int) -> None:
    for _ in range(2):
        with pytest.raises(entrypoint.UnhealthyError, match="missing"):
            entrypoint.check(entrypoint.Target("127.0.0.1", port), ["orders", "missing"])


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


@pytest.mark.parametrize(
    ("listener", "variables"),
    [
        ("OUTSIDE", {}),
        ("SASL_PLAINTEXT", {"KAFKALITE_USERS": "alice:secret"}),
        ("SASL_SSL", {"KAFKALITE_USERS": "alice:secret", "KAFKALITE_TLS": "auto"}),
        ("SSL", {"KAFKALITE_TLS": "auto", "KAFKALITE_CONFIG": "ssl.client.auth=required"}),
    ],
    ids=["plaintext", "sasl", "sasl-tls", "client-certificate"],
)
def test_entrypoint_runs_a_broker_and_checks_its_health(
    listener: str, variables: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KAFKALITE_LISTEN": f"{listener}://127.0.0.1:{port}",
        "KAFKALITE_TOPICS": "orders:3",
        **variables,
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


def test_a_command_in_the_container_finds_a_generated_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KAFKALITE_LISTEN": "OUTSIDE://127.0.0.1:0",
        "KAFKALITE_CONTROL": f"0.0.0.0:{port}",
    }
    with subprocess.Popen(
        [sys.executable, str(ENTRYPOINT)], stdout=subprocess.PIPE, text=True, env=environment
    ) as serving:
        assert serving.stdout is not None
        assert "ready" in serving.stdout.readline()
        assert "with the token in /" in serving.stdout.readline()
        clock = [sys.executable, "-m", "kafkalite", "clock"]
        for given in ("", "auto"):
            environment["KAFKALITE_CONTROL_TOKEN"] = given
            assert subprocess.run(clock, env=environment, check=False).returncode == 0
        environment["KAFKALITE_CONTROL_TOKEN"] = "a-token-of-tests"  # noqa: S105
        assert subprocess.run(clock, env=environment, check=False).returncode == 1
        serving.terminate()
        assert serving.wait(5) == 0


def test_signal_during_the_imports_ends_the_container_with_status_0(tmp_path: Path) -> None:
    imported = tmp_path / "kafkalite" / "config" / "options.py"
    imported.parent.mkdir(parents=True)
    for package in (imported.parent, imported.parent.parent):
        (package / "__init__.py").touch()
    imported.write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    program = tmp_path / "run"
    program.symlink_to(ENTRYPOINT)
    with subprocess.Popen(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_blocked_signal_ends_the_container_with_status_0(tmp_path: Path) -> None:
    program = tmp_path / "run"
    program.symlink_to(ENTRYPOINT)

    def send_to_itself() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        os.kill(os.getpid(), signal.SIGTERM)

    with subprocess.Popen([sys.executable, program], preexec_fn=send_to_itself) as process:  # noqa: PLW1509 - sets the mask only
        assert process.wait(10) == 0
