"""Kafka's own command-line tools with kafkalite."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.clients.tools import Output, run_tool
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from tests.oracle.target import Target

    Tool: TypeAlias = Callable[..., Output]

pytestmark = [pytest.mark.client, pytest.mark.endurance]


@pytest.fixture
def tool(broker: Target) -> Tool:
    """Run a tool against the broker; it must exit with the given status, by default 0."""
    with required():
        jar_directory()

    def run(name: str, *arguments: str, text: str = "", status: int = 0) -> Output:
        output = run_tool(name, broker.bootstrap, *arguments, text=text)
        assert output.status == status, output
        return output

    return run


def _create(tool: Tool, topic: str, *arguments: str) -> None:
    output = tool("kafka-topics", "--create", "--topic", topic, *arguments)
    assert output.lines == [f"Created topic {topic}."]


def test_kafka_topics_creates_describes_alters_and_deletes(tool: Tool) -> None:
    _create(tool, "made", "--partitions", "3", "--config", "retention.ms=1000")
    repeated = tool("kafka-topics", "--create", "--topic", "made", status=1)
    assert repeated.lines == ["Error while executing topic command : Topic 'made' already exists."]
    tool("kafka-topics", "--create", "--if-not-exists", "--topic", "made")

    heading, *partitions = tool("kafka-topics", "--describe", "--topic", "made").lines
    assert re.fullmatch(
        r"Topic: made\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\t"
        r"Configs: (min\.insync\.replicas=1,)?retention\.ms=1000",
        heading,
    )
    assert [line.split("\t")[:5] for line in partitions] == [
        ["Topic: made", f"Partition: {index}", "Leader: 1", "Replicas: 1", "Isr: 1"]
        for index in range(3)
    ]

    tool("kafka-topics", "--alter", "--topic", "made", "--partitions", "5")
    fewer = tool("kafka-topics", "--alter", "--topic", "made", "--partitions", "4", status=1)
    assert "InvalidPartitionsException" in fewer.stdout + fewer.stderr
    assert "made" in tool("kafka-topics", "--list").lines
    tool("kafka-topics", "--delete", "--topic", "made")
    assert "made" not in tool("kafka-topics", "--list").lines


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_producer_and_consumer_and_their_group(tool: Tool, protocol: str) -> None:
    topic, group = f"console-{protocol}", f"readers-{protocol}"
    _create(tool, topic, "--partitions", "1")
    tool(
        "kafka-console-producer",
        *("--topic", topic, "--reader-property", "parse.key=true"),
        *("--reader-property", "key.separator=:"),
        text="a:1\nb:2\nc:3\n",
    )
    consume = ["--topic", topic, "--group", group, "--from-beginning"]
    consume += ["--command-property", f"group.protocol={protocol}"]
    consume += [
        "--formatter-property",
        "print.key=true",
        "--formatter-property",
        "print.offset=true",
    ]
    read = tool("kafka-console-consumer", *consume, "--max-messages", "2")
    assert read.lines == ["Offset:0\ta\t1", "Offset:1\tb\t2"]
    next_read = tool("kafka-console-consumer", *consume, "--max-messages", "1")
    assert next_read.lines == ["Offset:2\tc\t3"]

    assert group in tool("kafka-consumer-groups", "--list").lines
    described = tool("kafka-consumer-groups", "--describe", "--group", group)
    assert [group, topic, "0", "3", "3", "0", "-", "-", "-"] in described.rows
    state = tool("kafka-consumer-groups", "--describe", "--group", group, "--state")
    assert ["Empty", "0"] in [row[-2:] for row in state.rows]


def test_kafka_consumer_groups_resets_and_deletes(tool: Tool) -> None:
    _create(tool, "rewound", "--partitions", "1")
    tool("kafka-console-producer", "--topic", "rewound", text="1\n2\n3\n")
    tool(
        "kafka-console-consumer",
        *("--topic", "rewound", "--group", "rewinders", "--from-beginning", "--max-messages", "3"),
    )
    group_options = ["--group", "rewinders"]
    reset = tool(
        "kafka-consumer-groups",
        *("--reset-offsets", "--topic", "rewound", "--shift-by", "-2", "--execute", *group_options),
    )
    assert ["rewinders", "rewound", "0", "1"] in reset.rows
    deleted_offsets = tool(
        "kafka-consumer-groups", "--delete-offsets", "--topic", "rewound", *group_options
    )
    assert ["rewound", "0", "Successful"] in deleted_offsets.rows
    deleted = tool("kafka-consumer-groups", "--delete", *group_options)
    assert "Deletion of requested consumer groups ('rewinders') was successful." in deleted.stdout
    unknown = tool("kafka-consumer-groups", "--delete", *group_options)
    assert "GroupIdNotFoundException" in unknown.stdout


def test_kafka_configs_alters_and_describes(tool: Tool) -> None:
    _create(tool, "tuned")
    topic = ["--entity-type", "topics", "--entity-name", "tuned"]
    altered = tool(
        "kafka-configs",
        "--alter",
        *topic,
        "--add-config",
        "retention.ms=5000,cleanup.policy=compact",
    )
    assert altered.lines == ["Completed updating config for topic tuned."]
    described = tool("kafka-configs", "--describe", *topic)
    assert (
        "cleanup.policy=compact sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, DEFAULT_CONFIG:log.cleanup.policy=delete}"
    ) in described.lines
    assert (
        "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}"
        in described.lines
    )
    tool("kafka-configs", "--alter", *topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in tool("kafka-configs", "--describe", *topic).stdout

    refused = tool("kafka-configs", "--alter", *topic, "--add-config", "no.such=1", status=1)
    assert "InvalidConfigurationException" in refused.stderr + refused.stdout
    broker = tool(
        "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    )
    assert any(line.startswith("num.partitions=6 sensitive=false") for line in broker.lines)
    assert any(line.startswith("advertised.listeners=PLAINTEXT://") for line in broker.lines)


def test_kafka_get_offsets_log_dirs_and_delete_records(tool: Tool, tmp_path: Path) -> None:
    _create(tool, "measured", "--partitions", "2")
    tool("kafka-console-producer", "--topic", "measured", text="a\nb\nc\n")
    offsets = tool("kafka-get-offsets", "--topic", "measured").lines
    counts = [int(line.removeprefix(f"measured:{i}:")) for i, line in enumerate(offsets)]
    assert sum(counts) == 3
    earliest = tool("kafka-get-offsets", "--topic", "measured", "--time", "earliest")
    assert earliest.lines == ["measured:0:0", "measured:1:0"]

    described = tool("kafka-log-dirs", "--describe", "--topic-list", "measured")
    (broker,) = json.loads(described.lines[-1])["brokers"]
    (directory,) = broker["logDirs"]
    sizes = {row["partition"]: row["size"] for row in directory["partitions"]}
    assert set(sizes) == {"measured-0", "measured-1"}
    assert [sizes[f"measured-{index}"] > 0 for index in (0, 1)] == [count > 0 for count in counts]

    full = counts.index(max(counts))
    requested = {"topic": "measured", "partition": full, "offset": -1}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [requested]}))
    deleted = tool("kafka-delete-records", "--offset-json-file", str(plan))
    assert f"partition: measured-{full}\tlow_watermark: {max(counts)}" in deleted.lines


def test_tools_describe_the_cluster(tool: Tool) -> None:
    versions = tool("kafka-broker-api-versions")
    assert re.match(r"127\.0\.0\.1:\d+ \(id: 1 rack: null isFenced: false\) -> \(", versions.stdout)
    assert "Produce(0): 0 to 13 [usable: 13]," in versions.lines
    assert "ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]," in versions.lines
    assert not [line for line in versions.lines if "unknown" in line.lower()]
    cluster = tool("kafka-cluster", "cluster-id")
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", cluster.lines[0])
    _create(tool, "elected", "--partitions", "1")
    election = ["--election-type", "preferred", "--topic", "elected", "--partition", "0"]
    elected = tool("kafka-leader-election", *election)
    assert "Valid replica already elected for partitions elected-0" in elected.stdout
