"""Scenarios of the versions that Kafka 4.4 added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.conformance.scenarios.classic_groups import stable_group
from tests.conformance.scenarios.commits import DELETE_UNNAMED
from tests.conformance.scenarios.consumer_groups import joined_consumer
from tests.conformance.setup import UNKNOWN_ID, create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import NEW, start_producer

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.transactional_producer import Transactor


def commit(
    producer: Transactor,
    group: str,
    *partitions: tuple[bytes, int],
    member_id: str = "",
    epoch: int = -1,
) -> Any:  # noqa: ANN401 - any response class
    """Commit offset 5 of partitions of topics with these ids."""
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.producer_epoch,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata="note"
                    )
                ],
            )
            for topic_id, index in partitions
        ],
    )
    return producer.cluster.ask(request, 6)


def transactional_commits_have_topic_ids(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, 2)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, NEW)
    unknown, zero = UNKNOWN_ID, bytes(16)
    commit(producer, cluster.name, (topic_id, 0))
    commit(producer, cluster.name, (unknown, 0))
    commit(producer, cluster.name, (zero, 0), (unknown, 1), (unknown, 0))
    commit(producer, cluster.name, (topic_id, 1), (topic_id, 2), (unknown, 3), (topic_id, 0))
    commit(producer, cluster.name, (topic_id, 1), (topic_id, 0))
    commit(producer, "", (topic_id, 0))
    producer.commit()


def transactional_commits_have_the_errors_of_other_commits(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, 2)
    wait_for_group_coordinator(cluster, cluster.name)
    producer = start_producer(cluster, NEW)
    commit(producer, f"{cluster.name}-unknown", (topic_id, 0), epoch=1)
    commit(producer, f"{cluster.name}-unknown", (topic_id, 0), epoch=1, member_id="m")
    joined = joined_consumer(cluster, cluster.name, cluster.name)
    for epoch in (-1, 0, 1, joined.member_epoch - 1, joined.member_epoch, joined.member_epoch + 1):
        commit(producer, cluster.name, (topic_id, 0), member_id="member-a", epoch=epoch)
    commit(producer, cluster.name, (topic_id, 0), member_id="other", epoch=joined.member_epoch)
    commit(producer, cluster.name, (topic_id, 0))
    producer.abort()


def deleted_groups_have_messages(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    joined_consumer(cluster, cluster.name, cluster.name)
    names = [cluster.name, f"{cluster.name}-unknown", "", cluster.name]
    cluster.probe(DELETE_UNNAMED, 2)
    cluster.ask(DeleteGroupsRequest(groups_names=names), 3)


def deleted_classic_groups_have_messages(cluster: ScenarioCluster) -> None:
    stable_group(cluster, cluster.name)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 3)


def clients_name_the_cluster_and_the_node(cluster: ScenarioCluster) -> None:
    cluster_id = cluster.probe(DescribeClusterRequest(), 0).cluster_id
    for named in (None, cluster_id, "", "another"):
        for node_id in (-1, 0, 1, 2, -2):
            request = ApiVersionsRequest(
                client_software_name="conformance-test",
                client_software_version="1.0",
                cluster_id=named,
                node_id=node_id,
            )
            answer = cluster.probe(request, 5)
            name = "its own" if named == cluster_id else named
            cluster.record(
                f"cluster {name!r}, node {node_id}",
                [answer.error_code, bool(answer.api_keys), bool(answer.supported_features)],
            )


SCENARIOS = (
    transactional_commits_have_topic_ids,
    transactional_commits_have_the_errors_of_other_commits,
    deleted_groups_have_messages,
    deleted_classic_groups_have_messages,
    clients_name_the_cluster_and_the_node,
)
