"""The image of `docker/Dockerfile`: its user, health check, ports, volumes and signals."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.containers.clients import consume, produce
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from tests.containers.containers import Containers
    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

MAX_STOP_S = 2.0
MAX_BYTES = 100_000_000
"""The limit of the layers that this project adds to the image of Python."""


def published(port: int) -> tuple[str, ...]:
    """Return options that publish and advertise a port of the host."""
    advertise = f"OUTSIDE://localhost:{port},INSIDE://broker:29092"
    return (f"--publish=127.0.0.1:{port}:9092", f"--env=KAFKALITE_ADVERTISE={advertise}")


def test_broker_runs_as_its_user(engine: Engine, containers: Containers) -> None:
    name = containers.start()
    assert engine.run("exec", name, "id", "-u") == "10001"
    assert engine.run("exec", name, "stat", "-c", "%u", "/proc/1") == "10001"


def test_clients_of_the_host_use_the_published_port(containers: Containers) -> None:
    port = free_port()
    containers.start(*published(port), "--env=KAFKALITE_TOPICS=orders:3")
    produce(f"localhost:{port}", "orders", [b"a", b"b"])
    assert sorted(consume(f"localhost:{port}", "orders", 2)) == [b"a", b"b"]


def test_clients_in_other_containers_find_the_broker_by_name(
    engine: Engine, containers: Containers, network: str, kcat: str
) -> None:
    containers.start(
        f"--network={network}", "--hostname=broker", "--network-alias=broker",
        "--env=KAFKALITE_TOPICS=orders:3",
    )  # fmt: skip
    client = ["run", "--rm", "--interactive", f"--network={network}", kcat, "-b", "broker:29092"]
    engine.run(*client, "-P", "-t", "orders", stdin="one\ntwo\n")
    read = engine.run(*client, "-C", "-t", "orders", "-o", "beginning", "-e", "-q")
    assert sorted(read.splitlines()) == ["one", "two"]
    metadata = json.loads(engine.run(*client, "-L", "-J", "-t", "orders"))
    assert [broker["name"] for broker in metadata["brokers"]] == ["broker:29092"]
    assert len(metadata["topics"][0]["partitions"]) == 3


def test_health_check_passes_only_with_all_topics(engine: Engine, containers: Containers) -> None:
    name = containers.start("--env=KAFKALITE_TOPICS=orders:3")
    engine.run("healthcheck", "run", name)
    check = ("exec", "--env=KAFKALITE_TOPICS=orders:3,absent:1", name, "kafkalite-entrypoint")
    failed = engine.try_run(*check, "healthcheck")
    assert failed.status == 1
    assert failed.errors.startswith("unhealthy: topic absent returned error 3")


def test_health_check_of_the_dockerfile_is_in_the_image(engine: Engine, image: str) -> None:
    description = engine.inspect(image)
    configuration = description["Config"]
    assert description["Healthcheck"]["Test"] == ["CMD", "kafkalite-entrypoint", "healthcheck"]
    assert configuration["User"] == "10001"
    assert set(configuration["ExposedPorts"]) == {"9092/tcp", "29092/tcp", "9097/tcp"}


def test_stop_ends_the_broker_quickly_with_status_0(engine: Engine, containers: Containers) -> None:
    port = free_port()
    name = containers.start(*published(port), "--env=KAFKALITE_TOPICS=orders:3")
    produce(f"localhost:{port}", "orders", [b"a"])
    started = time.monotonic()
    engine.run("stop", "--time=30", name)
    assert time.monotonic() - started < MAX_STOP_S
    state = engine.inspect(name)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)


@pytest.mark.parametrize(
    "script",
    [
        "echo 'kill -TERM 1' >> /etc/confluent/docker/configure; exec /etc/confluent/docker/run",
        (
            "echo 'import os; os.kill(1, 15)' > /tmp/sitecustomize.py; "
            "PYTHONPATH=/tmp exec /entrypoint.sh /run.sh"
        ),
    ],
    ids=["in a start script", "before the first statement of the entrypoint"],
)
def test_a_stop_at_the_very_start_ends_the_container_with_status_0(
    engine: Engine, image: str, script: str
) -> None:
    completed = engine.try_run("run", "--rm", image, "sh", "-c", script)
    assert (completed.status, completed.output) == (0, "")


def test_compiled_libraries_work_without_their_symbols(
    engine: Engine, containers: Containers
) -> None:
    port = free_port()
    name = containers.start(
        "--env=KAFKALITE_TOPICS=orders:1", "--env=KAFKALITE_TLS=auto",
        "--env=KAFKALITE_LISTEN=SSL://0.0.0.0:9093",
        f"--env=KAFKALITE_ADVERTISE=SSL://localhost:{port}", f"--publish=127.0.0.1:{port}:9093",
    )  # fmt: skip
    secure: dict[str, str | bool] = {
        "security.protocol": "SSL",
        "enable.ssl.certificate.verification": False,
    }
    produce(f"localhost:{port}", "orders", [b"a"], **secure)
    assert consume(f"localhost:{port}", "^ord.*", 1, **secure) == [b"a"]
    engine.run("healthcheck", "run", name)
    statements = (
        "import cramjam, crc32c, greenlet, re2, uvloop",
        "assert bytes(cramjam.zstd.decompress(cramjam.zstd.compress(b'a'))) == b'a'",
        "assert crc32c.crc32c(b'123456789') == 0xE3069283",
        "assert greenlet.greenlet(lambda: 1).switch() == 1",
        "assert re2.fullmatch('a+', 'aa')",
        "uvloop.new_event_loop().close()",
    )
    engine.run("exec", name, "python", "-c", "\n".join(statements))


def test_read_only_root_file_system_is_sufficient(engine: Engine, containers: Containers) -> None:
    port = free_port()
    name = containers.start("--read-only", *published(port), "--env=KAFKALITE_TOPICS=orders:1")
    assert engine.try_run("exec", name, "touch", "/var/lib/kafkalite/file").status != 0
    produce(f"localhost:{port}", "orders", [b"a"])
    assert consume(f"localhost:{port}", "orders", 1) == [b"a"]
    engine.run("healthcheck", "run", name)


def test_volume_keeps_records_for_the_next_container(
    engine: Engine, containers: Containers
) -> None:
    port = free_port()
    stored = (
        *published(port), "--env=KAFKALITE_TOPICS=orders:1",
        "--env=KAFKALITE_DATA_DIR=/var/lib/kafkalite/data",
        "--volume=kafkalite-tests-data:/var/lib/kafkalite",
    )  # fmt: skip
    first = containers.start(*stored)
    produce(f"localhost:{port}", "orders", [b"stored"])
    engine.run("rm", "--force", "--time=10", first)
    containers.start(*stored)
    assert consume(f"localhost:{port}", "orders", 1) == [b"stored"]
    containers.remove()
    engine.run("volume", "rm", "kafkalite-tests-data")


@pytest.mark.parametrize("user", ["12345", "12345:0", "0"])
def test_another_user_can_run_the_broker(engine: Engine, containers: Containers, user: str) -> None:
    port = free_port()
    name = containers.start(f"--user={user}", *published(port), "--env=KAFKALITE_TOPICS=orders:1")
    assert engine.run("exec", name, "id", "-u") == user.partition(":")[0]
    produce(f"localhost:{port}", "orders", [b"a"])
    assert consume(f"localhost:{port}", "orders", 1) == [b"a"]
    engine.run("healthcheck", "run", name)


def test_commands_in_the_container_control_the_broker(
    engine: Engine, containers: Containers
) -> None:
    name = containers.start("--env=KAFKALITE_CONTROL=0.0.0.0:9097", "--env=KAFKALITE_CLOCK=manual")
    before = json.loads(engine.run("exec", name, "kafkalite", "clock", "--json"))
    engine.run("exec", name, "kafkalite", "clock", "advance", "7d")
    after = json.loads(engine.run("exec", name, "kafkalite", "clock", "--json"))
    assert after["now_ms"] - before["now_ms"] == 7 * 24 * 60 * 60 * 1000


def test_log_of_the_container_has_the_addresses(engine: Engine, containers: Containers) -> None:
    name = containers.start("--hostname=broker")
    log = engine.try_run("logs", name)
    assert "kafkalite is ready" in log.output
    assert "broker:29092" in log.output + log.errors


def test_port_checks_of_compose_files_pass(engine: Engine, containers: Containers) -> None:
    name = containers.start()
    engine.run("exec", name, "sh", "-c", "nc -z localhost 9092 || exit 1")
    engine.run("exec", name, "/bin/nc", "-zv", "-w", "2", "localhost", "9092", "29092")
    engine.run("exec", name, "bash", "-c", "</dev/tcp/localhost/9092")
    assert engine.try_run("exec", name, "nc", "-z", "localhost", "9093").status == 1


def test_invalid_option_ends_the_container_with_one_line(engine: Engine, image: str) -> None:
    completed = engine.try_run("run", "--rm", image, "--brokers=none")
    assert completed.status == 2
    assert completed.errors.splitlines()[-1].startswith("kafkalite")


def test_the_image_is_small(engine: Engine, image: str) -> None:
    layers = json.loads(engine.run("history", "--format=json", image))
    assert sum(layer["size"] for layer in layers) < MAX_BYTES


def test_numbers_and_times_have_no_fallback_in_python(engine: Engine, image: str) -> None:
    program = "import datetime, decimal; print(datetime.date.min, decimal.Decimal('0.10'))"
    printed = engine.run("run", "--rm", "--entrypoint", "python3", image, "-c", program)
    assert printed == "0001-01-01 0.10"
