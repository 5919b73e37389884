"""The modules of group shards, of which the first FindCoordinator for a group needs some 150."""

from __future__ import annotations

from typing import Final

from kafkalite.ports.module_steps import ModuleSteps

SHARD_MODULES: Final = ModuleSteps(
    "groups.classic.group",
    "groups.classic.rebalance",
    "groups.classic.groups",
    "groups.consumer.member",
    "groups.modern.topics",
    "groups.consumer.consumer_group_records",
    "groups.consumer.group",
    "groups.migration.upgrade",
    "groups.consumer.sessions",
    "groups.consumer.target",
    "groups.consumer.heartbeat",
    "groups.consumer.groups",
    "groups.migration.members",
    "groups.offsets",
    "groups.share.share_group_records",
    "groups.share.describe",
    "groups.share.groups",
    "groups.streams.member",
    "groups.streams.streams_group_records",
    "groups.streams.descriptions",
    "groups.streams.admission",
    "groups.streams.configured_topology",
    "groups.streams.groups",
    "groups.shard",
    "coordinator.runtime",
    "groups.coordinator",
    "storage.compaction",
)
