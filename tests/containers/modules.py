"""Programs that start the image by a Kafka module of Testcontainers in their own language."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.containers.clients import consume, produce

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SERVERS = "servers="


def check_module(command: Sequence[str], docker_host: str, directory: Path) -> None:
    """Check that a client of the host can use the broker that the program starts.

    The program prints the address of the broker, and stops it when its input has a line.
    """
    variables = {
        "DOCKER_HOST": docker_host,
        # The image of the cleaner would be pulled.
        "TESTCONTAINERS_RYUK_DISABLED": "true",
    }
    log = directory / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = next((each for each in process.stdout if each.startswith(_SERVERS)), None)
        assert line is not None, log.read_text()
        bootstrap = line.strip().removeprefix(_SERVERS).rpartition("/")[2]
        produce(bootstrap, "orders", [b"a", b"b"])
        assert sorted(consume(bootstrap, "orders", 2)) == [b"a", b"b"]
        process.communicate("\n")
    assert process.returncode == 0, log.read_text()
