"""kafka-share-groups.sh and the share console consumer, as administrators run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.tools import Output, run_tool
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.configs import GROUP, SET, alter
from tests.conformance.scenarios.share_groups import LEAVE, V1, sharing
from tests.conformance.setup import create_topic, fill
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance]

TOOL = "kafka-share-groups"


@pytest.fixture
def cluster(broker: Target) -> Iterator[ScenarioCluster]:
    """Return a `ScenarioCluster` for requests that no tool sends."""
    with required():
        jar_directory()
    cluster = ScenarioCluster(broker.port, "shared")
    yield cluster
    cluster.close()


def run(broker: Target, name: str, *arguments: str) -> Output:
    output = run_tool(name, broker.bootstrap, *arguments)
    assert output.status == 0, output
    return output


def test_kafka_share_groups_lists_describes_resets_and_deletes(
    broker: Target, cluster: ScenarioCluster
) -> None:
    group, epoch = sharing(cluster, partitions=2)
    fill(cluster, group.topic, b"a", b"b", b"c", partition=1)
    name, topic = group.group, group.topic

    assert [name, "Stable"] in run(broker, TOOL, "--list", "--state").rows
    heading, row = run(broker, TOOL, "--describe", "--group", name, "--members", "--verbose").rows
    assert (heading[0], row[0]) == ("GROUP", name)
    assert row[-1] == f"{topic}:0,1"
    assert str(epoch) in row
    cluster.ask(group.beat("a", LEAVE), V1)
    reset = run(
        broker, TOOL, "--reset-offsets", "--group", name, "--topic", topic, "--to-earliest",
        "--execute",
    )  # fmt: skip
    assert reset.rows[1:] == [[name, topic, "0", "0"], [name, topic, "1", "0"]]
    output = run(broker, TOOL, "--describe", "--group", name)
    assert output.rows[1:] == [[name, topic, "0", "0", "0"], [name, topic, "1", "0", "3"]]
    forgotten = run(broker, TOOL, "--delete-offsets", "--group", name, "--topic", topic)
    assert forgotten.rows[1:] == [[topic, "Successful"]]
    deleted = run(broker, TOOL, "--delete", "--group", name)
    assert deleted.lines == [f"Deletion of requested share groups ('{name}') was successful."]


def test_console_share_consumer_reads_existing_records(
    broker: Target, cluster: ScenarioCluster
) -> None:
    create_topic(cluster, "shared-console")
    fill(cluster, "shared-console", b"one", b"two", b"three")
    reset = ("share.auto.offset.reset", SET, "earliest")
    cluster.ask(alter(GROUP, "console-sharers", reset), 1)
    read = run(
        broker, "kafka-console-share-consumer", "--topic", "shared-console", "--group",
        "console-sharers", "--max-messages", "3", "--timeout-ms", "15000",
    )  # fmt: skip
    assert read.lines[:3] == ["one", "two", "three"]
