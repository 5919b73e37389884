"""The Kafka modules of Testcontainers in six languages: their variables, scripts and log lines.

Each module starts a container that waits for a script, copies the script with the port on the host,
and waits for a line in the log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.oracle.target import free_port
from tests.unit.docker.test_programs import environment, image_root

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance

_COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
_LOG_TOPICS = {
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
}
_WITHOUT_ZOOKEEPER = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:{controller}",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
}
_LISTENERS = (
    "PLAINTEXT://0.0.0.0:{client},BROKER://0.0.0.0:{broker},CONTROLLER://0.0.0.0:{controller}"
)
_EMPTY_ENSURE = "echo '' > {root}/etc/confluent/docker/ensure"
_WITH_ZOOKEEPER = (
    "echo 'clientPort={zookeeper}' > zookeeper.properties",
    "echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties",
    "zookeeper-server-start zookeeper.properties &",
)
_NO_ZOOKEEPER_SETTING = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {root}/etc/confluent/docker/configure"
_FORMAT = (
    """echo 'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)" """
    """-c /etc/kafka/kafka.properties' >> {root}/etc/confluent/docker/configure"""
)
_RECOVERED = r".*Transitioning from RECOVERY to RUNNING.*"
_STARTED = r".*\[KafkaServer id=\d+\] started.*"


class Sequence(NamedTuple):
    """The start of a container by a module: its variables, its script, and the line it awaits."""

    module: str
    variables: dict[str, str]
    script: tuple[str, ...]
    line: str
    shell: str = "{script}"
    """The command that runs the script."""


def _advertise(*addresses: str) -> str:
    return f"export KAFKA_ADVERTISED_LISTENERS={','.join(addresses)}"


_HOST = "PLAINTEXT://localhost:{client}"
_NAME = "BROKER://localhost:{broker}"
SEQUENCES = (
    Sequence(
        "Java, KafkaContainer",
        {**_COMMON, **_LOG_TOPICS, **_WITHOUT_ZOOKEEPER, "KAFKA_LISTENERS": _LISTENERS},
        (_advertise(_HOST, _NAME), "{root}/etc/kafka/docker/run"),
        _RECOVERED,
    ),
    Sequence(
        "Java, ConfluentKafkaContainer",
        {**_COMMON, **_LOG_TOPICS, **_WITHOUT_ZOOKEEPER, "KAFKA_LISTENERS": _LISTENERS},
        (_advertise(_HOST, _NAME), "{root}/etc/confluent/docker/run"),
        _RECOVERED,
    ),
    Sequence(
        "Python",
        {
            **_COMMON,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:{client},BROKER://0.0.0.0:{broker}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
        },
        (
            *_WITH_ZOOKEEPER,
            "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'",
            _advertise(_HOST, "BROKER://$(hostname -i):{broker}"),
            ". {root}/etc/confluent/docker/bash-config",
            "{root}/etc/confluent/docker/configure",
            "{root}/etc/confluent/docker/launch",
        ),
        _STARTED,
        "sh {script}",
    ),
    Sequence(
        "Go",
        {
            **_COMMON,
            **_LOG_TOPICS,
            **{name: value for name, value in _WITHOUT_ZOOKEEPER.items() if name != "CLUSTER_ID"},
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LISTENERS": _LISTENERS,
            "KAFKA_REST_BOOTSTRAP_SERVERS": _LISTENERS,
        },
        (
            "source {root}/etc/confluent/docker/bash-config",
            _advertise(_HOST, _NAME),
            "echo Starting Kafka KRaft mode",
            _NO_ZOOKEEPER_SETTING,
            _FORMAT,
            _EMPTY_ENSURE,
            "{root}/etc/confluent/docker/configure",
            "{root}/etc/confluent/docker/launch",
        ),
        _RECOVERED,
        "bash {script}",
    ),
    Sequence(
        "Node.js",
        {
            **_COMMON,
            **_WITHOUT_ZOOKEEPER,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:{broker}",
            "KAFKA_LISTENERS": _LISTENERS,
        },
        (_advertise(_NAME, _HOST), "{root}/etc/confluent/docker/run "),
        # The module waits for the port.
        r".*kafkalite is ready.*",
    ),
    Sequence(
        ".NET",
        {
            **_COMMON,
            **_LOG_TOPICS,
            **_WITHOUT_ZOOKEEPER,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LISTENERS": (
                "PLAINTEXT://:{client},BROKER://:{broker},CONTROLLER://:{controller}"
            ),
        },
        (_advertise(_HOST, "BROKER://127.0.0.1:{broker}"), "exec {root}/etc/kafka/docker/run"),
        _RECOVERED,
    ),
    Sequence(
        ".NET, first version with vendors",
        {
            **_COMMON,
            **_LOG_TOPICS,
            **_WITHOUT_ZOOKEEPER,
            "KAFKA_LISTENERS": _LISTENERS,
        },
        (
            "",
            _advertise(_HOST, "BROKER://127.0.0.1:{broker}", ""),
            " exec {root}/etc/kafka/docker/run",
        ),
        _RECOVERED,
    ),
    Sequence(
        "Rust",
        {
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            **{name: value for name, value in _WITHOUT_ZOOKEEPER.items() if name != "CLUSTER_ID"},
            "KAFKA_BROKER_ID": "1",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{client},BROKER://localhost:9092",
            "KAFKA_LISTENERS": _LISTENERS,
        },
        (_advertise("PLAINTEXT://127.0.0.1:{client}", _NAME), "{root}/etc/kafka/docker/run "),
        r".*Kafka Server started.*",
        "chmod 755 {script} && {script}",
    ),
)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.module)
def test_start_sequence_of_a_module_runs_the_broker(tmp_path: Path, sequence: Sequence) -> None:
    root = image_root(tmp_path)
    first = free_port(4)
    starter = root / "start.sh"
    values = {
        "client": first, "broker": first + 1, "controller": first + 2,
        "zookeeper": first + 3, "root": root, "script": starter,
    }  # fmt: skip
    variables = {name: text.format(**values) for name, text in sequence.variables.items()}
    waiting = f"while [ ! -f {starter} ]; do sleep 0.1; done; {sequence.shell.format(**values)}"
    process = subprocess.Popen(
        ["sh", "-c", waiting],
        env={**environment(root), **variables},
        cwd=root / "var" / "lib" / "kafkalite",
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a test can stop a script with its programs
    )
    try:
        written = root / "start.sh.new"
        commands = (line.format(**values) for line in sequence.script)
        written.write_text("\n".join(["#!/bin/bash", *commands, ""]), encoding="utf-8")
        written.chmod(0o755)
        written.rename(starter)
        assert process.stdout is not None
        assert any(re.match(sequence.line, line) for line in process.stdout)
        asked = subprocess.run(
            [root / "opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server",
             f"127.0.0.1:{first}"],
            env=environment(root),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        assert re.match(rf"(localhost|127\.0\.0\.1):{first} \(id: 1 ", asked.stdout)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=10)
