"""Two log directories of one node: kafkalite answers as Kafka, also after a restart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_runs import compared
from tests.conformance.scenarios import log_directories
from tests.conformance.scenarios.log_directories import directories_after_a_restart
from tests.conformance.setup import create_topic
from tests.oracle.fixtures import broker_under_test, running_targets
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG, Target, restart

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def test_two_log_directories_are_those_of_kafka(tmp_path: Path) -> None:
    def config(name: str) -> dict[str, str]:
        paths = (str(tmp_path / name / each) for each in ("first", "second"))
        return {**COMMON_CONFIG, "log.dirs": ",".join(paths)}

    real = RealKafka(tmp_path / "kafka", config("kafka"))
    emulator = broker_under_test(tmp_path / "emulator", config("emulator"))
    with running_targets(real, emulator):
        for scenario in log_directories.SCENARIOS:
            lines = compared(scenario, real, emulator)
            assert not lines, f"{scenario.__name__}:\n{lines}"
        for target in (real, emulator):
            restart(target)
        lines = "\n".join(differences(*map(_described_again, (real, emulator))))
        assert not lines, lines


def test_a_directory_that_is_a_file_is_offline(tmp_path: Path) -> None:
    targets: list[Target] = []
    for name in ("kafka", "emulator"):
        first, second = (tmp_path / name / each for each in ("first", "second"))
        second.parent.mkdir()
        config = {**COMMON_CONFIG, "log.dirs": f"{first},{second}"}
        if name == "kafka":
            real = RealKafka(tmp_path / f"{name}-process", config)
            real.prepare()  # its storage tool needs directories
            shutil.rmtree(second)
            targets.append(real)
        else:
            targets.append(broker_under_test(tmp_path / f"{name}-process", config))
        second.write_text("")
    with running_targets(*targets):
        real_answers, answers = (
            _offline_directory(target.port, tmp_path / name)
            for target, name in zip(targets, ("kafka", "emulator"), strict=True)
        )
    assert answers == real_answers
    (_, _, topics), offline = real_answers[:2]
    assert topics == ["t"]
    assert offline == [ErrorCode.KAFKA_STORAGE_ERROR, "second", []]


def _offline_directory(port: int, directory: Path) -> list[list[object]]:
    """Return the rows of both directories, and the errors of moves."""
    cluster = ScenarioCluster(port, "offline")
    try:
        create_topic(cluster, "t", partitions=4)
        rows = cluster.probe(DescribeLogDirsRequest(topics=None), 4).results
        answers: list[list[object]] = [
            [row.error_code, Path(row.log_dir).name, [topic.name for topic in row.topics]]
            for row in sorted(rows, key=lambda row: str(row.log_dir))
        ]
        move = AlterReplicaLogDirsRequest
        for name in ("first", "second", "third"):
            topic = move.AlterReplicaLogDirTopic(name="t", partitions=[0, 9])
            target = move.AlterReplicaLogDir(path=str(directory / name), topics=[topic])
            (result,) = cluster.probe(move(dirs=[target]), 2).results
            answers.append([name, [row.error_code for row in result.partitions]])
        return answers
    finally:
        cluster.close()


def _described_again(target: Target) -> list[Entry]:
    cluster = ScenarioCluster(target.port, "restarted")
    try:
        directories_after_a_restart(cluster)
    finally:
        cluster.close()
    return cluster.transcript
