"""`python -m kafkalite.docker.install`: the scripts and directories of Kafka images, in a root.

The build of the image runs it with the new root. Links are relative, so that any root works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from kafkalite.docker.programs import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRYPOINT: Final = "/usr/local/bin/kafkalite-entrypoint"

_LOG_DIRECTORIES: Final = ("/tmp/kafka-logs", "/tmp/kraft-combined-logs")  # noqa: S108 - of images
"""Default data directories of images; a volume gets the owner of the directory below it."""

DIRECTORIES: Final = (
    "/bitnami/kafka/config",
    "/bitnami/kafka/data",
    "/etc/confluent/docker",
    "/etc/kafka/docker",
    "/etc/kafka/secrets",
    "/kafka",
    "/mnt/shared/config",
    "/opt/bitnami/kafka/config/certs",
    "/opt/kafka/config",
    *_LOG_DIRECTORIES,
    "/var/lib/kafka/data",
    "/var/lib/kafkalite",
)
"""Directories that every user may write: compose files set other users than the image's."""

_OWNED: Final = ("/bitnami", "/etc/confluent", "/etc/kafka", "/kafka", "/mnt/shared",
                 "/opt/bitnami", "/opt/kafka", *_LOG_DIRECTORIES, "/var/lib/kafka",
                 "/var/lib/kafkalite")  # fmt: skip

_WRITABLE: Final = 0o777
"""As in the Confluent images, whose scripts the user of a container may change."""

_TOOL_DIRECTORIES: Final = (
    "/opt/kafka/bin",
    "/opt/bitnami/kafka/bin",
    "/usr/bin",
    "/usr/local/bin",
)
"""Directories with each tool of Kafka, with and without the suffix `.sh`."""

_COMMANDS: Final = ("nc",)
"""Tools that are commands of the operating system in other images."""

_LINKS: Final = (
    "/__cacert_entrypoint.sh",
    "/app-entrypoint.sh",
    "/entrypoint.sh",
    "/etc/confluent/docker/launch",
    "/etc/kafka/docker/launch",
    "/etc/kafka/docker/run",
    "/opt/bitnami/scripts/kafka/entrypoint.sh",
    "/opt/bitnami/scripts/kafka/run.sh",
    "/run.sh",
    "/start-kafka.sh",
    "/usr/bin/start-kafka.sh",
)
"""Scripts that are links to the entrypoint."""

SCRIPTS: Final[dict[str, str]] = {
    "/etc/confluent/docker/bash-config": "# Scripts of Testcontainers source this file.\n",
    "/etc/confluent/docker/configure": (
        "#!/bin/sh\n"
        "# The broker reads its variables itself. Scripts of Testcontainers append commands.\n"
    ),
    "/etc/confluent/docker/ensure": "#!/bin/sh\n# Scripts of Testcontainers empty this file.\n",
    "/etc/confluent/docker/run": (
        "#!/bin/sh\n"
        'directory=$(dirname "$0")\n'
        '. "$directory/bash-config"\n'
        'sh "$directory/configure" && sh "$directory/ensure" && exec "$directory/launch" "$@"\n'
    ),
    "/opt/bitnami/scripts/kafka/setup.sh": (
        "#!/bin/sh\n# The broker reads its variables itself. Start scripts run this file first.\n"
    ),
}
"""Scripts that Testcontainers changes before it runs them, so that they are files."""

_SERVER_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092
log.dirs=/tmp/kraft-combined-logs
"""
PROPERTIES: Final[dict[str, str]] = {
    "/etc/kafka/server.properties": _SERVER_PROPERTIES,
    "/opt/kafka/config/kraft/server.properties": _SERVER_PROPERTIES,
    "/opt/kafka/config/server.properties": _SERVER_PROPERTIES,
}
"""Files of a single node, which commands pass to `kafka-server-start` and `kafka-storage`."""

_BLOCKING: Final = "#!/usr/bin/env -S --block-signal=INT,TERM "
_FIRST_PROCESSES: Final = {
    ENTRYPOINT: "/usr/local/bin/python3",
    "/etc/confluent/docker/run": "/bin/sh",
}
"""Scripts that may be the first process of a container, and their interpreters.

The kernel drops a signal that the first process does not handle yet, unless it is blocked.
"""


def links() -> list[str]:
    """Return the paths of all links to the entrypoint."""
    tools = [
        f"{directory}/{tool}{suffix}"
        for directory in _TOOL_DIRECTORIES
        for tool in TOOLS
        if tool not in _COMMANDS
        for suffix in ("", ".sh")
    ]
    return [*_LINKS, *tools, *(f"/usr/bin/{command}" for command in _COMMANDS)]


def install(root: Path, owner: int | None = None) -> None:
    """Write scripts, links and directories below `root`, and give them to the user `owner`."""

    def real(path: str) -> Path:
        return root / path.lstrip("/")

    for directory in DIRECTORIES:
        real(directory).mkdir(parents=True, exist_ok=True)
        real(directory).chmod(_WRITABLE)
    for path, text in (SCRIPTS | PROPERTIES).items():
        real(path).parent.mkdir(parents=True, exist_ok=True)
        real(path).write_text(text, encoding="utf-8")
        real(path).chmod(_WRITABLE)
    for path in links():
        link = real(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        target = os.path.relpath(ENTRYPOINT, PurePosixPath(path).parent)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    if owner is not None:
        for directory in _OWNED:
            for file in (real(directory), *real(directory).rglob("*")):
                os.chown(file, owner, owner, follow_symlinks=False)


def block_signals(root: Path) -> None:
    """Let scripts start with blocked signals, by the `env` of GNU; the entrypoint unblocks them."""
    for path, interpreter in _FIRST_PROCESSES.items():
        script = root / path.lstrip("/")
        _, _, rest = script.read_text(encoding="utf-8").partition("\n")
        script.write_text(f"{_BLOCKING}{interpreter}\n{rest}", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Install into the root in the first argument, for the user id in the second.

    The root has the entrypoint.
    """
    root, owner = arguments
    install(Path(root), int(owner))
    block_signals(Path(root))


if __name__ == "__main__":
    main(sys.argv[1:])
