"""Containers of the image: start, wait for a line of the log, and remove."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.containers.engine import Engine

READY = "kafkalite is ready"
_READY_TIMEOUT_S = 60.0


def wait_for_line(engine: Engine, container: str, text: str) -> str:
    """Return the first line of a container's log with this text.

    Raises AssertionError with the whole log if the container stops before it, or after a timeout.
    """
    follower = subprocess.Popen(
        [engine.podman, "logs", "--follow", container],
        env=engine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert follower.stdout is not None
    timeout = threading.Timer(_READY_TIMEOUT_S, follower.kill)
    timeout.start()
    lines = []
    with follower:
        try:
            for line in follower.stdout:
                if text in line:
                    return line.rstrip("\n")
                lines.append(line)
        finally:
            timeout.cancel()
            follower.kill()
    raise AssertionError(f"no line with {text!r} in the log:\n{''.join(lines)}")


class Containers:
    """Starts containers of one image with new names, and removes all of them."""

    def __init__(self, engine: Engine, image: str, names: Iterator[str]) -> None:
        self._engine = engine
        self._image = image
        self._names = names
        self._started: list[str] = []

    def start(self, *options: str, command: tuple[str, ...] = (), wait: str = READY) -> str:
        """Return the name of a new container with this line in its log."""
        name = next(self._names)
        self._started.append(name)
        self._engine.run("run", "--detach", f"--name={name}", *options, self._image, *command)
        wait_for_line(self._engine, name, wait)
        return name

    def remove(self) -> None:
        """Remove all containers and their volumes."""
        for name in self._started:
            self._engine.run("rm", "--force", "--ignore", "--volumes", "--time=0", name)
        self._started.clear()
