"""Errors with texts that programs compare and that no other scenario covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from tests.conformance.scenarios.configs import TOPIC, alter
from tests.conformance.scenarios.share_groups import new_share_group
from tests.conformance.setup import create_topic

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_TOO_MANY = 10_001
_HEARTBEAT = 1
_SET = 0


def _create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


def errors_of_invalid_topics_have_texts(cluster: ScenarioCluster) -> None:
    cluster.ask(_create("__cluster_metadata"), 7)
    cluster.ask(_create(cluster.name, _TOO_MANY), 7)


def the_error_of_a_too_large_value_has_a_text(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.ask(alter(TOPIC, cluster.name, ("min.cleanable.dirty.ratio", _SET, "1.1")), 1)


def the_error_of_a_share_member_two_epochs_behind_has_a_text(cluster: ScenarioCluster) -> None:
    group = new_share_group(cluster)
    first = cluster.ask(group.join("a"), _HEARTBEAT).member_epoch
    current = group.given(cluster, "a", first).member_epoch
    for topics in ([], [group.topic]):
        response = cluster.call_until(
            group.beat("a", current, subscribed_topic_names=topics),
            _HEARTBEAT,
            lambda answer: answer.member_epoch != current,  # noqa: B023 - asked at once
            is_recorded=False,
        )
        current = response.member_epoch
    cluster.ask(group.beat("a", first), _HEARTBEAT)
    cluster.ask(group.beat("a", current + 5), _HEARTBEAT)


SCENARIOS = (
    errors_of_invalid_topics_have_texts,
    the_error_of_a_too_large_value_has_a_text,
    the_error_of_a_share_member_two_epochs_behind_has_a_text,
)
