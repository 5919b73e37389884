"""The programs of Kafka images, by the names of their scripts."""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkalite.docker.start import USAGE_STATUS, print_line, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOT_FOUND_STATUS: Final = 127
_SCRIPT_SUFFIX: Final = ".sh"

START_PROGRAMS: Final = ("run", "launch", "start-kafka")
"""Names of scripts that start the broker; their arguments are options of `kafkalite serve`."""

TOOLS: Final = {
    "connect-internal-topics": "connect_internal_topics",
    "connect-distributed": "absent",
    "connect-mirror-maker": "absent",
    "connect-plugin-path": "absent",
    "connect-standalone": "absent",
    "cub": "cub",
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-client-metrics": "client_metrics",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-console-share-consumer": "console_share_consumer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-delegation-tokens": "delegation_tokens",
    "kafka-delete-records": "delete_records",
    "kafka-dump-log": "dump_log",
    "kafka-e2e-latency": "e2e_latency",
    "kafka-features": "features",
    "kafka-get-offsets": "get_offsets",
    "kafka-groups": "groups",
    "kafka-jmx": "absent",
    "kafka-leader-election": "leader_election",
    "kafka-log-dirs": "log_dirs",
    "kafka-metadata-quorum": "metadata_quorum",
    "kafka-metadata-shell": "absent",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-replica-verification": "replica_verification",
    "kafka-run-class": "run_class",
    "kafka-server-start": "server_start",
    "kafka-server-stop": "server_stop",
    "kafka-share-consumer-perf-test": "share_consumer_perf_test",
    "kafka-share-groups": "share_groups",
    "kafka-storage": "storage",
    "kafka-streams-application-reset": "streams_application_reset",
    "kafka-streams-groups": "streams_groups",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable_consumer",
    "kafka-verifiable-producer": "verifiable_producer",
    "kafka-verifiable-share-consumer": "verifiable_share_consumer",
    "nc": "netcat",
    "trogdor": "absent",
    "zookeeper-server-start": "zookeeper",
    "zookeeper-shell": "zookeeper",
}
"""Program → the module of `kafkalite.docker.tools` that runs it."""


def run_program(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the program of a script, by its path; return its exit status.

    An unknown name is the entrypoint of the image: options start the broker, and other arguments
    are a program to run.
    """
    name = program.rpartition("/")[2].removesuffix(_SCRIPT_SUFFIX)
    if name in TOOLS:
        tool = import_module(f"kafkalite.docker.tools.{TOOLS[name]}")
        status: int = tool.main(name, arguments, environment)
        return status
    if name in START_PROGRAMS or not arguments or arguments[0].startswith("-"):
        return run(environment, socket.gethostname(), arguments)
    if arguments[0] == "serve":
        return run(environment, socket.gethostname(), arguments[1:])
    return _execute(arguments)


def _execute(command: Sequence[str]) -> int:
    """Replace this process by another program; return an exit status if that fails."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - the command of the container
    except FileNotFoundError:
        print_line(f"there is no program {command[0]}")
        return _NOT_FOUND_STATUS
    except OSError as error:
        print_line(f"cannot run {command[0]}: {(error.strerror or '').lower()}")
    return USAGE_STATUS
