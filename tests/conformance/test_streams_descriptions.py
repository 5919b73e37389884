"""Descriptions of topologies that Kafka's plugin stores in memory, compared with a real Kafka."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.compare import differences
from tests.conformance.raw import RawClient
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.streams_groups import LEAVE, new_group
from tests.conformance.scenarios.streams_roles import (
    NODES,
    a_description_is_requested_once,
    topologies_are_described,
    update,
)
from tests.oracle.fixtures import broker_under_test
from tests.oracle.jars import compiled
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.oracle

_PLUGIN = "group.streams.topology.description.plugin.class"
_CONFIG = {
    **COMMON_CONFIG,
    _PLUGIN: "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",
}


def test_descriptions_are_stored_as_in_kafka(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka", _CONFIG)
        kafka.start()
    emulator = broker_under_test(tmp_path / "kafkalite", _CONFIG)
    try:
        emulator.start()
        lines = [
            line
            for scenario in (topologies_are_described, a_description_is_requested_once)
            for line in differences(*(play(scenario, target) for target in (kafka, emulator)))
        ]
    finally:
        emulator.kill()
        kafka.kill()
    assert not lines, "\n".join(lines)


def deletions(port: int, fault: AbstractContextManager[object]) -> list[tuple[ErrorCode, bool]]:
    """Return the results of deletions of a group by v2 and v3, and whether they have a message."""
    cluster = ScenarioCluster(port, "described")
    group = new_group(cluster)
    assert cluster.probe(group.join("a"), 1).error_code == ErrorCode.NONE
    description = update(group.group, "a", 0, NODES)
    assert cluster.probe(description, 0).error_code == ErrorCode.NONE
    cluster.probe(group.heartbeat("a", LEAVE), 1)
    results = []
    with fault:
        for version in (2, 3):
            request = DeleteGroupsRequest(groups_names=[group.group])
            (row,) = cluster.probe(request, version).results
            results.append((ErrorCode(row.error_code), bool(row.error_message)))
    cluster.close()
    return results


def test_a_description_that_cannot_be_deleted(tmp_path: Path) -> None:
    with required():
        plugin = compiled(Path(__file__).parent / "failing_plugin")
        kafka = RealKafka(tmp_path, {**COMMON_CONFIG, _PLUGIN: "FailingPlugin"}, classes=plugin)
        kafka.start()
    try:
        real = deletions(kafka.port, nullcontext())
    finally:
        kafka.kill()
    failed = ErrorCode.GROUP_DELETION_FAILED
    assert real == [(ErrorCode.UNKNOWN_SERVER_ERROR, False), (failed, True)]
    with Broker(config=_CONFIG, log_level="error") as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        assert deletions(port, broker.faults.add(api="DeleteGroups", error=failed.name)) == real
        # The fault is the only cause of this error.
        with closing(RawClient(port)) as client:
            (row,) = client.call(DeleteGroupsRequest(groups_names=["described"]), 3).results
        assert row.error_code == ErrorCode.NONE
