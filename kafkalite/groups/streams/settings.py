"""Settings of streams groups: group configuration within the broker's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.group import STREAMS_ASSIGNOR_NAME, streams_assignor_names
from kafkalite.groups.modern.settings import GroupSettingsCache
from kafkalite.groups.streams.target import RACK_TAGS, STANDBY_REPLICAS
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


class StreamsSettings(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    """The maximum time between two heartbeats of a member."""
    heartbeat_interval_ms: int
    """The heartbeat interval of members."""
    assignment_interval_ms: int
    """The minimum time between two target assignments (KIP-1263)."""
    initial_delay_ms: int
    """The delay of the first assignment of a group that was empty."""
    max_size: int
    """The maximum number of members."""
    task_offset_interval_ms: int
    """The interval at which members report offsets of their tasks."""
    acceptable_recovery_lag: int
    """The lag at which a member counts as caught up with a task."""
    assignor: str
    """The name of the assignor."""
    rack_tags: tuple[str, ...]
    """The tags that each member must have for rack-aware assignment."""
    assignment_configs: Mapping[str, str]
    """The settings of the assignor, as in the group's record."""
    stores_descriptions: bool
    """Whether descriptions of topologies are stored."""


class StreamsSettingsCache(GroupSettingsCache[StreamsSettings]):
    """The settings of all streams groups in one shard."""

    __slots__ = ()

    def compute(self, config: BrokerConfig, group_id: GroupId) -> StreamsSettings:
        """Compute a group's settings."""
        standby_replicas = config.group_int(group_id, "streams.num.standby.replicas")
        assignment_configs = {STANDBY_REPLICAS: str(standby_replicas)}
        rack_tags: tuple[str, ...] = ()
        if config.release.rules.has_rack_tags:
            rack_tags = config.group_list(group_id, "streams.rack.aware.assignment.tags")
        if rack_tags:
            assignment_configs[RACK_TAGS] = ",".join(rack_tags)
        return StreamsSettings(
            session_timeout_ms=config.group_int(group_id, "streams.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "streams.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "streams.assignment.interval.ms"),
            initial_delay_ms=config.group_int(group_id, "streams.initial.rebalance.delay.ms"),
            max_size=config.int("group.streams.max.size"),
            task_offset_interval_ms=config.group_int(group_id, "streams.task.offset.interval.ms"),
            acceptable_recovery_lag=config.group_int(group_id, "streams.acceptable.recovery.lag"),
            assignor=_assignor(config, group_id),
            rack_tags=rack_tags,
            assignment_configs=assignment_configs,
            stores_descriptions=stores_descriptions(config),
        )


def stores_descriptions(config: BrokerConfig) -> bool:
    """Return whether a plugin stores descriptions of topologies."""
    return bool(config.str_or_none("group.streams.topology.description.plugin.class"))


def _assignor(config: BrokerConfig, group_id: GroupId) -> str:
    """Return the group's assignor; one that is not configured any more is replaced."""
    known = streams_assignor_names(config.list("group.streams.assignors"))
    requested = config.own_group_setting(group_id, STREAMS_ASSIGNOR_NAME)
    return str(requested) if requested in known else known[0]
