"""UpdateFeatures: allowed and refused levels, and the APIs that level 0 disables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
TRANSACTION, METADATA = "transaction.version", "metadata.version"
KRAFT = "kraft.version"
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
_BROKER, _SET, _DELETE = 4, 0, 1


def update(
    *updates: tuple[str, int, int], validate_only: bool = False, allow_downgrade: bool = False
) -> UpdateFeaturesRequest:
    """Request levels of features, each with its type of upgrade."""
    return UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=upgrade_type,
                allow_downgrade=allow_downgrade,
            )
            for name, level, upgrade_type in updates
        ],
        validate_only=validate_only,
    )


def ask_for_update(cluster: ScenarioCluster, request: UpdateFeaturesRequest, version: int) -> None:
    """Ask for an update; the transcript also has the texts of the response."""
    response = cluster.ask(request, version)
    cluster.record("message", response.error_message)
    cluster.record("messages of features", [row.error_message for row in response.results])


def _await_level(cluster: ScenarioCluster, name: str, level: int) -> None:
    """Wait until a feature has a level, and put all finalized levels into the transcript."""

    def level_of(response: Any) -> int:  # noqa: ANN401 - an ApiVersions response
        rows = response.finalized_features
        return next((row.max_version_level for row in rows if row.name == name), 0)

    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1.0"
    )
    response = cluster.call_until(
        request, 4, lambda answer: level_of(answer) == level, is_recorded=False
    )
    levels = {
        row.name: row.max_version_level
        for row in response.finalized_features
        if row.name != "kraft.version"
    }
    cluster.record("finalized levels", dict(sorted(levels.items())))


def updates_are_refused(cluster: ScenarioCluster) -> None:
    refused = (
        (GROUP, 0, UPGRADE),
        (GROUP, -1, SAFE_DOWNGRADE),
        (GROUP, 2, UPGRADE),
        (GROUP, 1, 0),
        (GROUP, 1, 7),
        ("no.such.feature", 1, UPGRADE),
        ("", 1, UPGRADE),
        (TRANSACTION, 3, SAFE_DOWNGRADE),
        (METADATA, 6, SAFE_DOWNGRADE),
        (METADATA, 32, UPGRADE),
        (METADATA, 29, SAFE_DOWNGRADE),
        (METADATA, 29, UNSAFE_DOWNGRADE),
        (METADATA, 34, UPGRADE),
        (METADATA, 0, UNSAFE_DOWNGRADE),
        (KRAFT, 0, UPGRADE),
        (KRAFT, 0, SAFE_DOWNGRADE),
        (KRAFT, 2, UPGRADE),
    )
    for each in refused:
        ask_for_update(cluster, update(each), 2)
    ask_for_update(cluster, update((GROUP, 0, SAFE_DOWNGRADE), (METADATA, 6, SAFE_DOWNGRADE)), 2)
    ask_for_update(
        cluster, update((ELIGIBLE_REPLICAS, 1, UPGRADE), (METADATA, 22, SAFE_DOWNGRADE)), 2
    )
    ask_for_update(cluster, update((METADATA, 6, SAFE_DOWNGRADE), (GROUP, 1, UPGRADE)), 2)
    several = (
        (STREAMS, 5, UPGRADE),
        (SHARE, 6, UPGRADE),
        (TRANSACTION, 7, UPGRADE),
        (GROUP, 8, UPGRADE),
        (METADATA, 99, UPGRADE),
    )
    for version in (0, 1, 2):
        ask_for_update(
            cluster, update(*several, (GROUP, 8, UPGRADE), (METADATA, 99, UPGRADE)), version
        )
        ask_for_update(cluster, update((GROUP, 0, UPGRADE), allow_downgrade=True), version)
    _await_level(cluster, GROUP, 1)


def present_levels_are_accepted(cluster: ScenarioCluster) -> None:
    for version in (0, 1, 2):
        ask_for_update(cluster, update((GROUP, 1, UPGRADE), (METADATA, 33, UPGRADE)), version)
        ask_for_update(cluster, update(), version)
    ask_for_update(cluster, update((KRAFT, 1, UPGRADE)), 1)
    ask_for_update(cluster, update((KRAFT, 1, SAFE_DOWNGRADE), (GROUP, 1, UPGRADE)), 2)
    ask_for_update(cluster, update((GROUP, 1, SAFE_DOWNGRADE), (GROUP, 1, UNSAFE_DOWNGRADE)), 1)
    ask_for_update(cluster, update((SHARE, 0, SAFE_DOWNGRADE), validate_only=True), 1)
    ask_for_update(
        cluster, update((SHARE, 0, SAFE_DOWNGRADE), (SHARE, 1, UPGRADE), validate_only=True), 2
    )
    _await_level(cluster, SHARE, 2)


def level_zero_disables_consumer_groups(cluster: ScenarioCluster) -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=cluster.name,
        member_id="m",
        member_epoch=0,
        subscribed_topic_names=["t"],
        rebalance_timeout_ms=5000,
        topic_partitions=[],
    )
    ask_for_update(cluster, update((GROUP, 0, SAFE_DOWNGRADE)), 2)
    _await_level(cluster, GROUP, 0)
    cluster.ask(heartbeat, 1)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[cluster.name]), 1)
    ask_for_update(cluster, update((GROUP, 0, UPGRADE)), 2)
    ask_for_update(cluster, update((GROUP, 1, UPGRADE)), 1)
    _await_level(cluster, GROUP, 1)


def level_zero_disables_streams_groups(cluster: ScenarioCluster) -> None:
    ask_for_update(cluster, update((STREAMS, 0, UNSAFE_DOWNGRADE)), 2)
    _await_level(cluster, STREAMS, 0)
    cluster.ask(
        StreamsGroupHeartbeatRequest(group_id=cluster.name, member_id="m", member_epoch=0), 0
    )
    cluster.ask(StreamsGroupDescribeRequest(group_ids=[cluster.name]), 0)
    ask_for_update(cluster, update((STREAMS, 1, UPGRADE)), 2)
    _await_level(cluster, STREAMS, 1)


def level_zero_disables_share_groups(cluster: ScenarioCluster) -> None:
    ask_for_update(cluster, update((SHARE, 0, SAFE_DOWNGRADE)), 2)
    _await_level(cluster, SHARE, 0)
    heartbeat = ShareGroupHeartbeatRequest(
        group_id=cluster.name, member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    cluster.ask(heartbeat, 1)
    cluster.ask(ShareGroupDescribeRequest(group_ids=[cluster.name]), 1)
    cluster.ask(ShareFetchRequest(group_id=cluster.name, member_id="m"), 2)
    cluster.ask(ShareAcknowledgeRequest(group_id=cluster.name, member_id="m"), 2)
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=cluster.name, topics=None
    )
    cluster.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1)
    cluster.ask(AlterShareGroupOffsetsRequest(group_id=cluster.name), 0)
    cluster.ask(DeleteShareGroupOffsetsRequest(group_id=cluster.name), 0)
    for level in (1, 2):
        ask_for_update(cluster, update((SHARE, level, UPGRADE)), 2)
        _await_level(cluster, SHARE, level)


def groups_are_disabled_from_the_start(cluster: ScenarioCluster) -> None:
    """Ask a cluster whose levels are 0 by its settings."""
    answer = cluster.probe(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4
    )
    levels = {row.name: row.max_version_level for row in answer.finalized_features}
    cluster.record("finalized levels", {name: str(levels[name]) for name in sorted(levels)})
    name = cluster.name
    offsets = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=name, topics=None
    )
    state = ReadShareGroupStateRequest.ReadStateData(
        topic_id=bytes(range(16)),
        partitions=[ReadShareGroupStateRequest.PartitionData(partition=0)],
    )
    description = StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription()
    for request, versions in (
        (
            ConsumerGroupHeartbeatRequest(
                group_id=name,
                member_id="m",
                member_epoch=0,
                subscribed_topic_names=["t"],
                rebalance_timeout_ms=5000,
                topic_partitions=[],
            ),
            (0, 1),
        ),
        (ConsumerGroupDescribeRequest(group_ids=[name]), (0, 1)),
        (
            ShareGroupHeartbeatRequest(
                group_id=name, member_id="m", member_epoch=0, subscribed_topic_names=["t"]
            ),
            (1,),
        ),
        (ShareGroupDescribeRequest(group_ids=[name]), (1,)),
        (ShareFetchRequest(group_id=name, member_id="m"), (1, 2)),
        (ShareAcknowledgeRequest(group_id=name, member_id="m"), (1, 2)),
        (DescribeShareGroupOffsetsRequest(groups=[offsets]), (0, 1)),
        (AlterShareGroupOffsetsRequest(group_id=name), (0,)),
        (DeleteShareGroupOffsetsRequest(group_id=name), (0,)),
        (ReadShareGroupStateRequest(group_id=name, topics=[state]), (0,)),
        (StreamsGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=0), (0, 1)),
        (StreamsGroupDescribeRequest(group_ids=[name]), (0, 1)),
        (
            StreamsGroupTopologyDescriptionUpdateRequest(
                group_id=name, member_id="m", topology_description=description
            ),
            (0,),
        ),
    ):
        for version in versions:
            cluster.ask(request, version)


def several_levels_change_together(cluster: ScenarioCluster) -> None:
    zero = ((TRANSACTION, 0, SAFE_DOWNGRADE), (ELIGIBLE_REPLICAS, 0, SAFE_DOWNGRADE))
    ask_for_update(cluster, update(*zero, (GROUP, 9, UPGRADE)), 1)
    _await_level(cluster, TRANSACTION, 2)
    ask_for_update(cluster, update(*zero), 1)
    _await_level(cluster, TRANSACTION, 0)
    ask_for_update(cluster, update((TRANSACTION, 2, UPGRADE), (ELIGIBLE_REPLICAS, 1, UPGRADE)), 2)
    _await_level(cluster, TRANSACTION, 2)


def _minimum_isr(operation: int, resource: str) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name="min.insync.replicas",
        config_operation=operation,
        value="2" if operation == _SET else None,
    )
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_BROKER, resource_name=resource, configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[row])


def minimum_of_in_sync_replicas_depends_on_eligible_replicas(cluster: ScenarioCluster) -> None:
    cluster.ask(_minimum_isr(_DELETE, ""), 1)
    ask_for_update(cluster, update((ELIGIBLE_REPLICAS, 0, SAFE_DOWNGRADE)), 2)
    _await_level(cluster, ELIGIBLE_REPLICAS, 0)
    cluster.ask(_minimum_isr(_DELETE, ""), 1)
    cluster.ask(_minimum_isr(_SET, "1"), 1)
    ask_for_update(cluster, update((ELIGIBLE_REPLICAS, 1, UPGRADE)), 2)
    _await_level(cluster, ELIGIBLE_REPLICAS, 1)
    cluster.ask(_minimum_isr(_SET, "1"), 1)


SCENARIOS = (
    updates_are_refused,
    present_levels_are_accepted,
    level_zero_disables_consumer_groups,
    level_zero_disables_streams_groups,
    level_zero_disables_share_groups,
    several_levels_change_together,
    minimum_of_in_sync_replicas_depends_on_eligible_replicas,
)
