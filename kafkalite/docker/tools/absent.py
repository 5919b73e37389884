"""The scripts of Kafka's distribution that are not in the image: each prints the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import FAILED_STATUS
from kafkalite.docker.tools.running import run_tool, write_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WORKER: Final = "workers of Kafka Connect run connectors in Java; run one in its own container"

REASONS: Final[Mapping[str, str]] = {
    "connect-distributed": _WORKER,
    "connect-mirror-maker": _WORKER,
    "connect-plugin-path": "it reads plugins in Java of a worker of Kafka Connect",
    "connect-standalone": _WORKER,
    "kafka-jmx": "it reads the metrics of a Java virtual machine, and the broker is not in Java",
    "kafka-metadata-shell": (
        "it prints the internal objects of a controller in Java; kafka-dump-log "
        "--cluster-metadata-decoder prints the records of the log of metadata"
    ),
    "trogdor": "its agents run workloads and faults in Java",
}
"""Script → the reason why it is not in the image."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print the reason; return the exit status of a failure."""
    del arguments, environment

    def command() -> int:
        write_error(f"{name} is not in this image: {REASONS[name]}")
        return FAILED_STATUS

    return run_tool(name, command)
