"""Java programs of the compose files: a client with a token, and a worker of Kafka Connect."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.clients.tools import MAIN_CLASSES
from tests.oracle.jars import SHORT_LIVED, jar_directory, java_command
from tests.oracle.requirements import required
from tests.unit.docker.image import DOCKER
from tests.unit.docker.recipes import RECIPES, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_TIMEOUT_S = 120.0
_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"


def release_of(machine: Machine, service: str) -> str:
    """Return the release of Kafka in a service's image, whose jars are then available."""
    release = str(machine.recipe.services[service].content["image"]).rpartition(":")[2]
    with required():
        jar_directory(release)
    return release


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(RECIPES["compose.secured.yaml"], tmp_path)
    machine.start("kafkalite")
    yield machine
    machine.stop()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(RECIPES["compose.connect.yaml"], tmp_path)
    machine.start("kafkalite")
    yield machine
    machine.stop()


def test_java_client_logs_in_with_a_token(secured: Machine, tmp_path: Path) -> None:
    client = secured.recipe.services["token-client"]
    script, *arguments = client.command
    properties = tmp_path / "token.properties"
    text = (DOCKER / "secured/token.properties").read_text(encoding="utf-8")
    properties.write_text(secured.text("token-client", text), encoding="utf-8")
    options = [
        str(properties) if word.startswith("/secured/") else secured.text("token-client", word)
        for word in arguments
    ]
    flag = secured.text("token-client", client.environment["KAFKA_OPTS"])
    main_class = MAIN_CLASSES[Path(script).stem]
    release = release_of(secured, "token-client")
    command = java_command(main_class, *options, flags=(*SHORT_LIVED, flag), release=release)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert "PartitionCount: 3" in done.stdout, done.stderr


def ask(address: str, method: str, body: str = "") -> object:
    """Send a request to a worker until it accepts it, and return its answer."""
    opener = build_opener(ProxyHandler({}))  # without an HTTP proxy
    headers = {"Content-Type": "application/json"}
    request = Request(address, body.encode() or None, headers, method=method)  # noqa: S310
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except (HTTPError, URLError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_connector_copies_the_lines_of_its_file(connect: Machine, tmp_path: Path) -> None:
    properties = tmp_path / "worker.properties"
    text = (DOCKER / "connect/worker.properties").read_text(encoding="utf-8")
    release = release_of(connect, "connect")
    (jar,) = jar_directory(release).glob("connect-file-*.jar")
    assert f"/{jar.name}\n" in text
    text = text.replace(f"/opt/kafka/libs/{jar.name}", str(jar))
    text = text.replace("rest.advertised.host.name=connect\n", "")
    properties.write_text(connect.text("connect", text), encoding="utf-8")
    config = connect.text("connector", (DOCKER / "connect/orders.json").read_text("utf-8"))
    address = connect.text("connector", connect.recipe.services["connector"].command[-1])
    with (tmp_path / "worker.log").open("wb") as log:
        command = java_command(_WORKER, str(properties), release=release)
        worker = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        assert ask(address.partition("/connectors")[0] + "/connectors", "GET") == []
        ask(address, "PUT", config)
        servers = connect.text("connect", "kafkalite:29092")
        read = connect.run(
            "kafkalite",
            ["kafka-console-consumer", "--bootstrap-server", servers, "--topic", "orders",
             "--from-beginning", "--max-messages", "2"],
        )  # fmt: skip
        assert read.stdout == (DOCKER / "connect/orders.txt").read_text("utf-8")
    finally:
        worker.kill()
        worker.wait()
