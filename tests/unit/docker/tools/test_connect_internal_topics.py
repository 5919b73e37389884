"""`connect-internal-topics`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "connect-internal-topics"
WORKER = """\
config.storage.topic=worker-configs
config.storage.replication.factor=1
offset.storage.topic=worker-offsets
offset.storage.partitions=2
offset.storage.replication.factor=1
offset.storage.segment.bytes=1048576
status.storage.topic=orders
status.storage.replication.factor=-1
"""


def test_topics_have_the_settings_of_the_worker(
    tmp_path: Path, broker: Broker, tools: ToolRunner
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(f"{WORKER}bootstrap.servers={broker.bootstrap_servers}\n")
    created = tools.run(TOOL, "create", "--worker-config", str(file))
    assert (created.status, created.lines[4:]) == (
        0,
        [
            "Created internal topic: worker-offsets",
            "Created internal topic: worker-configs",
            "Internal topic already exists: orders",
            "Command executed successfully",
        ],
    )
    (described, *partitions) = tools.ask(
        "kafka-topics", "--describe", "--topic", "worker-offsets"
    ).lines
    assert "cleanup.policy=compact" in described
    assert "segment.bytes=1048576" in described
    assert len(partitions) == 2


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "offset.storage.topic must be specified in the worker config"),
        (
            "offset.storage.topic=a\noffset.storage.partitions=many",
            "Invalid value many for configuration offset.storage.partitions: a number larger than",
        ),
    ],
)
def test_invalid_workers_are_refused(
    tmp_path: Path, offline_tools: ToolRunner, line: str, error: str
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(line)
    result = offline_tools.run(TOOL, "create", "--worker-config", str(file))
    assert result.status == 1
    assert result.error.startswith(error)
