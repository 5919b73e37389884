"""Settings of single nodes: each node creates topics and coordinates groups by its own ones.

`tests.conformance.node_comparison` has the settings of node 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchView
from tests.conformance.batches import batch
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import (
    BROKER,
    DELETE,
    SET,
    TOPIC,
    alter,
    describe,
    settled,
)
from tests.conformance.setup import produce

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNode, ScenarioNodes

_NODES: Final = (1, 2)
_BY_DEFAULT: Final = -1
_METADATA: Final = 9
_TIMEOUT_MS: Final = 10_000
_MAX_GROUPS: Final = 1_000
_RECORDS: Final = 2


def each_node_has_its_own_settings(nodes: ScenarioNodes) -> None:
    """Create topics at two nodes, and commit to the groups of both."""
    nodes.begin("topics")
    for node_id in _NODES:
        node = nodes.node(node_id)
        name = nodes.full_name(f"automatic-{node_id}")
        node.record("partitions", _partitions_of_created(node, name))
        rows = CreateTopicsRequest
        topic = rows.CreatableTopic(
            name=nodes.full_name(f"requested-{node_id}"),
            num_partitions=_BY_DEFAULT,
            replication_factor=_BY_DEFAULT,
        )
        created = node.probe(rows(topics=[topic], timeout_ms=_TIMEOUT_MS), 7).topics[0]
        node.record("requested", [created.num_partitions, created.replication_factor])

    nodes.begin("groups")
    nodes.create("committed", (1, 2))
    # A node that was stopped before coordinates no group until it leads its partitions again.
    nodes.node(_NODES[0]).probe(
        ElectLeadersRequest(topic_partitions=None, timeout_ms=_TIMEOUT_MS), 2
    )
    for node_id in _NODES:
        node = nodes.node(node_id)
        group = _group_of(node, node_id, nodes.full_name("group"))
        committed = nodes.full_name("committed")
        # A coordinator may still load its partition.
        node.call_until(commit(group, committed, 0), 8, _is_committed, is_recorded=False)
        for size in (10, 11):
            node.ask(commit(group, committed, 0, metadata="m" * size), 8)


def _is_committed(response: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(response.topics[0].partitions[0].error_code == ErrorCode.NONE)


def _partitions_of_created(node: ScenarioNode, name: str) -> int:
    """Let a node create a topic, and return the number of its partitions."""
    row = MetadataRequest.MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=[row], allow_auto_topic_creation=True)

    def is_created(response: Any) -> bool:  # noqa: ANN401 - any response class
        return bool(response.topics[0].partitions)

    response = node.call_until(request, _METADATA, is_created, is_recorded=False)
    return len(response.topics[0].partitions)


def _group_of(node: ScenarioNode, node_id: int, prefix: str) -> str:
    """Return the name of a group that a node coordinates."""

    def is_found(response: Any) -> bool:  # noqa: ANN401 - any response class
        return bool(response.error_code == ErrorCode.NONE)

    for number in range(_MAX_GROUPS):
        name = f"{prefix}-{number}"
        request = FindCoordinatorRequest(key=name, key_type=0)
        if node.call_until(request, 3, is_found, is_recorded=False).node_id == node_id:
            return name
    raise AssertionError(f"node {node_id} coordinates no group")


_OWN_DEFAULTS: Final = {
    "log.retention.ms": "3600000",
    "log.message.timestamp.type": "LogAppendTime",
    "message.max.bytes": "300",
    "compression.type": "gzip",
}
_TOPIC_KEYS: Final = (
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "retention.ms",
)


def a_topic_has_the_defaults_of_the_node_that_leads(nodes: ScenarioNodes) -> None:
    """Set defaults of topics at one node, and write to topics that this and another node lead."""
    nodes.create("led-1", (1, 2))
    nodes.create("led-2", (2, 1))
    nodes.begin("own defaults")
    node = nodes.node(1)
    node.ask(alter(BROKER, "1", *((key, SET, value) for key, value in _OWN_DEFAULTS.items())), 1)
    settled(node, "retention.ms", "3600000", name=nodes.full_name("led-1"))
    for each in nodes.running():
        each.ask(describe(TOPIC, nodes.full_name("led-1"), [*_TOPIC_KEYS], fully=False), 4)
        each.ask(describe(TOPIC, nodes.full_name("led-2"), [*_TOPIC_KEYS]), 4)
        each.ask(describe(BROKER, each.name[-1], [*_OWN_DEFAULTS]), 4)
    for leader in (1, 2):
        for size in (10, 400):
            _produce_at(nodes.node(leader), nodes.full_name(f"led-{leader}"), size)
        row = nodes.node(leader).probe(nodes.fetch_request(f"led-{leader}", 0), 12)
        stored = BatchView(row.responses[0].partitions[0].records)
        nodes.node(leader).record("codec and type of timestamps", stored.attributes & 0xF)

    nodes.begin("removed defaults")
    node.ask(alter(BROKER, "1", *((key, DELETE, None) for key in _OWN_DEFAULTS)), 1)
    settled(node, "retention.ms", "-1", name=nodes.full_name("led-1"))
    _produce_at(node, nodes.full_name("led-1"), 400)


def _produce_at(node: ScenarioNode, topic: str, size: int) -> None:
    """Write one record, and record the error and whether the answer has a time."""
    request = produce(topic, batch(b"x" * size), acks=-1, timeout_ms=_TIMEOUT_MS)
    (row,) = node.probe(request, 10).responses[0].partition_responses
    node.record(f"{size} bytes", [row.error_code, row.log_append_time_ms >= 0])


def each_leader_removes_records_by_its_own_settings(nodes: ScenarioNodes) -> None:
    """Let the records of one node expire; their timestamps are in the past."""
    nodes.begin("retention")
    topics = {"led-1": 1, "led-2": 2, "led-2-and-copied": 2}
    for topic, leader in topics.items():
        nodes.create(topic, (leader, 1) if topic.endswith("copied") else (leader,))
        for _ in range(_RECORDS):
            _produce_at(nodes.node(leader), nodes.full_name(topic), 10)
    nodes.node(1).ask(alter(BROKER, "1", ("log.retention.ms", SET, "3600000")), 1)

    def starts_at_the_end(response: Any) -> bool:  # noqa: ANN401 - any response class
        return bool(response.responses[0].partitions[0].log_start_offset == _RECORDS)

    nodes.node(1).call_until(nodes.fetch_request("led-1", _RECORDS), 12, starts_at_the_end)
    for topic, leader in topics.items():
        row = nodes.node(leader).probe(nodes.fetch_request(topic, _RECORDS), 12).responses[0]
        nodes.node(leader).record(f"start of {topic}", int(row.partitions[0].log_start_offset))
    nodes.node(1).ask(alter(BROKER, "1", ("log.retention.ms", DELETE, None)), 1)


SCENARIOS = (
    each_node_has_its_own_settings,
    a_topic_has_the_defaults_of_the_node_that_leads,
    each_leader_removes_records_by_its_own_settings,
)
