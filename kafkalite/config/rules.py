"""Rules: decisions of coordinators, controllers and brokers that differ between releases of Kafka.

Releases before Kafka 4.4 have the rules of Kafka 4.3, except those of UpdateFeatures and
OffsetFetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rules(NamedTuple):
    """Rules that differ between releases; the defaults are those of Kafka 4.4."""

    admits_static_members_to_full_groups: bool = True
    """Whether a member that takes over an instance id may join a consumer group of maximum size."""
    explains_malformed_subscriptions: bool = True
    """Whether a classic member of a consumer group gets INCONSISTENT_GROUP_PROTOCOL for a malformed
    subscription; if not, UNKNOWN_SERVER_ERROR."""
    raises_epoch_for_assignor: bool = True
    """Whether a consumer group gets a new epoch when members prefer another assignor."""
    resets_empty_targets: bool = True
    """Whether the removal of the last member sets the target epoch to the group epoch, in consumer,
    share and streams groups."""
    accepts_all_streams_members: bool = True
    """Whether members of streams groups may be static, own warm-up tasks and report offsets of
    tasks."""
    admits_rejoins_to_full_streams_groups: bool = True
    """Whether a member of a streams group of maximum size may join again."""
    converts_tasks: bool = True
    """Whether a member of a streams group may change the role of a task, such as active, without
    releasing it."""
    starts_from_current_tasks: bool = True
    """Whether the assignor of streams groups retains the current tasks of members; if not, their
    target tasks."""
    skips_processes_with_task: bool = True
    """Whether a standby task of a streams group may stay with any previous member; if not, with the
    first one only."""
    computes_processes: bool = True
    """Whether the assignor of streams groups adds processes by HashMap.computeIfAbsent, which
    changes their order; if not, by HashMap.put."""
    reports_changed_endpoints: bool = True
    """Whether the changed address of a member of a streams group is reported at once, and removed
    by a join without an address."""
    sends_offset_settings: bool = True
    """Whether members of streams groups get the interval of task offsets and the acceptable
    recovery lag."""
    has_rack_tags: bool = True
    """Whether the assignment settings of streams groups have the tags for rack-aware assignment."""
    stores_topic_ids_in_transactions: bool = True
    """Whether the offsets of a transaction are stored with topic ids."""
    starts_added_partitions_at_zero: bool = True
    """Whether share groups read partitions that are added to a topic from their first record; if
    not, `share.auto.offset.reset` applies to them too."""
    has_ranges_of_group_settings: bool = True
    """Whether a setting of a group outside of its range is refused with both limits, and only
    changed settings are checked."""
    refuses_negative_epochs: bool = True
    """Whether the share coordinator refuses negative leader and state epochs."""
    retains_start_of_share_state: bool = True
    """Whether the stored start offset of a share partition never decreases, with its count."""
    answers_unknown_share_topics: bool = True
    """Whether a share session with an unknown topic id gets UNKNOWN_TOPIC_ID for that topic only;
    if not, every ShareFetch of the session fails."""
    requires_acl_hosts: bool = True
    """Whether the host of a new ACL must not be empty, and may be a range of addresses."""
    limits_added_partitions: bool = True
    """Whether one CreatePartitions adds at most 10,000 partitions to all of its topics."""
    requires_finite_quotas: bool = True
    """Whether a quota must be a finite number."""
    requires_token_names: bool = True
    """Whether signed tokens need an expected audience and issuer, unless settings allow others."""
    refuses_repeated_broker_values: bool = True
    """Whether a list that repeats a value is refused as a dynamic setting of brokers. At the start,
    and with a prefix of a listener, the repeated value is ignored."""
    names_unknown_lists: bool = True
    """Whether APPEND and SUBTRACT of an unknown setting of brokers are INVALID_CONFIG; if not,
    UNKNOWN_SERVER_ERROR."""
    prints_sets_of_java: bool = True
    """Whether the refusal of a dynamic change lists settings as a set of Java is printed, in
    brackets; if not, as one of Scala."""
    omits_text_of_refused_broker_changes: bool = True
    """Whether a client that must not change settings of a broker gets no message."""
    updates_features_together: bool = True
    """Whether UpdateFeatures changes all requested levels or none; if not, the allowed ones."""
    names_levels_of_refused_downgrade: bool = True
    """Whether the refusal of a lower `metadata.version` names both levels; if not, one."""
    omits_advice_for_refused_downgrade: bool = True
    """Whether the refusal of a lower `metadata.version` does not mention unsafe downgrades."""
    updates_kraft_version: bool = True
    """Whether UpdateFeatures changes `kraft.version`; if not, levels above 0 are upgrades, and no
    level has an effect."""
    reports_group_errors_by_partition: bool = True
    """Whether OffsetFetch v0 and v1, which have no error of the group, return the error for each
    partition; if not, they return no topics."""
    has_client_metrics: bool = True
    """Whether there are subscriptions of client metrics, as resources with settings."""
    describes_synonyms_of_groups: bool = True
    """Whether settings of groups are described with the settings of brokers that they override."""
    describes_unset_client_metrics: bool = True
    """Whether all settings of a client metrics subscription are described; if not, those set."""
    reads_old_offset_fetches: bool = True
    """Whether OffsetFetch v0 returns offsets of the coordinator; if not, UNSUPPORTED_VERSION,
    because this version reads offsets in ZooKeeper."""


_RULES_OF_3_3: Final = Rules(*[False] * len(Rules._fields))
_RULES_OF_3_7: Final = _RULES_OF_3_3._replace(
    omits_advice_for_refused_downgrade=True, has_client_metrics=True
)
_RULES_OF_4_0: Final = _RULES_OF_3_7._replace(
    updates_features_together=True, reads_old_offset_fetches=True
)
_RULES_OF_4_1: Final = _RULES_OF_4_0._replace(
    updates_kraft_version=True,
    reports_group_errors_by_partition=True,
    describes_unset_client_metrics=True,
)
_RULES_OF_4_2: Final = _RULES_OF_4_1._replace(names_levels_of_refused_downgrade=True)

_RULES: Final[Mapping[str, Rules]] = {
    **dict.fromkeys(("3.3", "3.4", "3.5", "3.6"), _RULES_OF_3_3),
    **dict.fromkeys(("3.7", "3.8", "3.9"), _RULES_OF_3_7),
    "4.0": _RULES_OF_4_0,
    "4.1": _RULES_OF_4_1,
    "4.2": _RULES_OF_4_2,
    "4.3": _RULES_OF_4_2._replace(
        describes_synonyms_of_groups=True, names_unknown_lists=True, prints_sets_of_java=True
    ),
    "4.4": Rules(),
}
"""Release → its rules."""


def rules_of(release: str) -> Rules:
    """Return the rules of a release."""
    return _RULES[release]


ADDED_BY_4_4: Final = frozenset(
    (
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.group.enable",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.name.prefix",
        "group.streams.acceptable.recovery.lag",
        "group.streams.assignors",
        "group.streams.min.task.offset.interval.ms",
        "group.streams.rack.aware.assignment.tags",
        "group.streams.task.offset.interval.ms",
        "group.streams.topology.description.plugin.class",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "streams.acceptable.recovery.lag",
        "streams.assignor.name",
        "streams.rack.aware.assignment.tags",
        "streams.task.offset.interval.ms",
    )
)
"""Settings of brokers, topics and groups that Kafka 4.4 added."""

_HAS_SETTINGS_OF_4_4: Final = frozenset(("4.4",))


def absent_settings(release: str) -> frozenset[str]:
    """Return the known settings that a release does not have."""
    if release in _HAS_SETTINGS_OF_4_4:
        return frozenset()
    from kafkalite.config.older_keys import added_after  # noqa: PLC0415 - only for older releases

    return ADDED_BY_4_4 | added_after(release)
