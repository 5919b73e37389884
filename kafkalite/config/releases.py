"""Releases of Kafka that a broker can emulate, with their APIs and feature levels.

Each release has a small table of the APIs that its brokers report to clients, without versions
under development. The table omits APIs that are the same as in the previous release. Kafka has
removed no API since it introduced KRaft. Decisions follow the rules of Kafka 4.4; releases before
4.4 follow those of Kafka 4.3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import AS_VERSION
from kafkalite.config.rules import Rules, absent_settings, rules_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.profiles import Profile

DEFAULT: Final = "4.4"
"""The release that is emulated by default."""


UNSTABLE_FEATURES: Final = "unstable.feature.versions.enable"
"""Setting: whether levels of features can be used that are under development in the release."""


class Feature(NamedTuple):
    """One feature of a release: supported levels, and the level of a newly formatted cluster."""

    lowest: int
    highest: int
    """0 if the feature is not supported."""
    formatted: int
    unstable: int
    """The highest level with `unstable.feature.versions.enable`: at least `highest`."""


FEATURE_SETTINGS: Final = (
    "eligible.leader.replicas.version",
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
)
"""Features whose level a setting of the same name selects at a start."""


class Release(NamedTuple):
    """The release that a broker emulates."""

    name: str
    features: Mapping[str, Feature]
    """All features that the release knows, also those that it supports only as unstable ones."""
    apis: Mapping[str, Versions] | None = None
    """Kafka's name of the API → versions; None for all served APIs."""
    settings: Mapping[str, str] = MappingProxyType({})
    """Broker key → its default in this release, if it differs from Kafka 4.4."""
    has_message_formats: bool = False
    """Whether topics have settings of record formats, as before 4.0."""
    has_group_configs: bool = True
    """Whether groups have settings, as since 4.0."""
    accepts_nonce_suffix: bool = False
    """Whether the nonce of SCRAM's last message needs only to end with the broker's, as before 4.0.

    librdkafka before 2.6.1 sends the client's part of the nonce twice.
    """
    rules: Rules = Rules()
    """Decisions that differ between releases."""
    absent_settings: frozenset[str] = frozenset()
    """Settings that only later releases have."""
    unstable: Mapping[str, int] = MappingProxyType({})
    """Kafka's name of the API → its latest version, if that needs `unstable.api.versions.enable`.
    Versions that a later release changed incompatibly are not served."""
    profile: Profile | None = None
    """The service that is emulated instead of Kafka; `name` is the release that it resembles."""
    internal_apis: frozenset[str] = frozenset()
    """Those of `apis` that only the nodes of the cluster may call."""
    changes_of_records: frozenset[int] = frozenset()
    """Levels of `metadata.version` with new records, which a downgrade to an earlier level could
    lose."""
    formats_unstable_features: bool = True
    """Whether a new cluster with `unstable.feature.versions.enable` has the unstable levels."""

    def level_problem(self, name: str, level: int) -> str | None:
        """Return why a feature cannot have a level, as the end of a sentence; None if it can."""
        feature = self.features.get(name)
        if feature is None:
            known = ", ".join(sorted(self.features))
            return f"does not have this feature; its features are {known}"
        if feature.lowest <= level <= feature.highest:
            return None
        is_single = feature.lowest == feature.highest
        problem = (
            f"has only level {feature.lowest}"
            if is_single
            else f"has levels {feature.lowest} to {feature.highest}"
        )
        if feature.unstable > feature.highest:
            problem += f", and up to {feature.unstable} with {UNSTABLE_FEATURES}=true"
        return problem

    def with_unstable_features(self) -> Release:
        """Return the release with `unstable.feature.versions.enable`: it has unstable levels."""
        features = {}
        for name, feature in self.features.items():
            is_formatted = self.formats_unstable_features
            features[name] = feature._replace(
                highest=feature.unstable,
                formatted=feature.unstable if is_formatted else feature.formatted,
            )
        return self._replace(features=features)


_API_CHANGES: Final[Mapping[str, str]] = {
    "3.3": """
Produce 0-9, Fetch 0-13, ListOffsets 0-7, Metadata 0-12, OffsetCommit 0-8, OffsetFetch 0-8,
FindCoordinator 0-4, JoinGroup 0-9, Heartbeat 0-4, LeaveGroup 0-5, SyncGroup 0-5,
DescribeGroups 0-5, ListGroups 0-4, SaslHandshake 0-1, ApiVersions 0-3, CreateTopics 0-7,
DeleteTopics 0-6, DeleteRecords 0-2, InitProducerId 0-4, OffsetForLeaderEpoch 0-4,
AddPartitionsToTxn 0-3, AddOffsetsToTxn 0-3, EndTxn 0-3, WriteTxnMarkers 0-1,
TxnOffsetCommit 0-3, DescribeAcls 0-3, CreateAcls 0-3, DeleteAcls 0-3, DescribeConfigs 0-4,
AlterConfigs 0-2, AlterReplicaLogDirs 0-2, DescribeLogDirs 0-4, SaslAuthenticate 0-2,
CreatePartitions 0-3, DeleteGroups 0-2, ElectLeaders 0-2, IncrementalAlterConfigs 0-1,
AlterPartitionReassignments 0-0, ListPartitionReassignments 0-0, OffsetDelete 0-0,
DescribeClientQuotas 0-1, AlterClientQuotas 0-1, DescribeQuorum 0-1, UpdateFeatures 0-1,
DescribeCluster 0-0, DescribeProducers 0-0, UnregisterBroker 0-0, DescribeTransactions 0-0,
ListTransactions 0-0
""",
    "3.4": "",
    "3.5": """
Fetch 0-15, ListOffsets 0-8, DescribeUserScramCredentials 0-0, AlterUserScramCredentials 0-0
""",
    "3.6": """
AddPartitionsToTxn 0-4, CreateDelegationToken 0-3, RenewDelegationToken 0-2,
ExpireDelegationToken 0-2, DescribeDelegationToken 0-3
""",
    "3.7": """
Produce 0-10, Fetch 0-16, OffsetCommit 0-9, OffsetFetch 0-9, DescribeCluster 0-1,
ConsumerGroupHeartbeat 0-0, GetTelemetrySubscriptions 0-0, PushTelemetry 0-0,
ListConfigResources 0-0
""",
    "3.8": """
Produce 0-11, FindCoordinator 0-5, ListGroups 0-5, InitProducerId 0-5, AddPartitionsToTxn 0-5,
AddOffsetsToTxn 0-4, EndTxn 0-4, TxnOffsetCommit 0-4, ListTransactions 0-1,
ConsumerGroupDescribe 0-0, DescribeTopicPartitions 0-0
""",
    "3.9": """
Fetch 0-17, ListOffsets 0-9, FindCoordinator 0-6, ApiVersions 0-4, DescribeQuorum 0-2,
AddRaftVoter 0-0, RemoveRaftVoter 0-0
""",
    "4.0": """
Produce 3-12, Fetch 4-17, ListOffsets 1-10, Metadata 0-13, OffsetCommit 2-9, OffsetFetch 1-9,
DescribeGroups 0-6, CreateTopics 2-7, DeleteTopics 1-6, OffsetForLeaderEpoch 2-4, EndTxn 0-5,
WriteTxnMarkers 1-1, TxnOffsetCommit 0-5, DescribeAcls 1-3, CreateAcls 1-3, DeleteAcls 1-3,
DescribeConfigs 1-4, AlterReplicaLogDirs 1-2, DescribeLogDirs 1-4, CreateDelegationToken 1-3,
RenewDelegationToken 1-2, ExpireDelegationToken 1-2, DescribeDelegationToken 1-3,
UpdateFeatures 0-2, DescribeCluster 0-2, ConsumerGroupHeartbeat 0-1, ConsumerGroupDescribe 0-1
""",
    "4.1": """
Produce 3-13, Fetch 4-18, AlterPartitionReassignments 0-1, ListTransactions 0-2,
ListConfigResources 0-1, ShareGroupHeartbeat 1-1, ShareGroupDescribe 1-1, ShareFetch 1-1,
ShareAcknowledge 1-1, InitializeShareGroupState 0-0, ReadShareGroupState 0-0,
WriteShareGroupState 0-0, DeleteShareGroupState 0-0, ReadShareGroupStateSummary 0-0,
DescribeShareGroupOffsets 0-0, AlterShareGroupOffsets 0-0, DeleteShareGroupOffsets 0-0
""",
    "4.2": """
ListOffsets 1-11, OffsetCommit 2-10, OffsetFetch 1-10, WriteTxnMarkers 1-2, ShareFetch 1-2,
ShareAcknowledge 1-2, AddRaftVoter 0-1, WriteShareGroupState 0-1,
ReadShareGroupStateSummary 0-1, StreamsGroupHeartbeat 0-0, StreamsGroupDescribe 0-0,
DescribeShareGroupOffsets 0-1
""",
    "4.3": """
DescribeLogDirs 1-5
""",
    "4.4": """
ApiVersions 0-5, TxnOffsetCommit 0-6, DeleteGroups 0-3, StreamsGroupHeartbeat 0-1,
StreamsGroupDescribe 0-1, StreamsGroupTopologyDescriptionUpdate 0-0, UnregisterController 0-0
""",
}
"""Release → changed APIs, as `name lowest-highest`; the oldest release is first."""

_SHARE_GROUP_PREVIEW: Final = """
ShareGroupHeartbeat 0, ShareGroupDescribe 0, ShareFetch 0, ShareAcknowledge 0,
InitializeShareGroupState 0, ReadShareGroupState 0, WriteShareGroupState 0,
DeleteShareGroupState 0, ReadShareGroupStateSummary 0
"""
_UNSTABLE: Final[Mapping[str, str]] = {
    "3.5": "AddPartitionsToTxn 4, ConsumerGroupHeartbeat 0",
    "3.6": "ConsumerGroupHeartbeat 0, OffsetCommit 9",
    "3.7": "ConsumerGroupDescribe 0",
    "3.9": _SHARE_GROUP_PREVIEW,
    "4.0": _SHARE_GROUP_PREVIEW,
    "4.1": """
InitProducerId 6, OffsetCommit 10, OffsetFetch 10, StreamsGroupHeartbeat 0, StreamsGroupDescribe 0
""",
    "4.2": "InitProducerId 6",
    "4.3": "InitProducerId 6",
    "4.4": "InitProducerId 6",
}
"""Release → APIs whose latest version is unstable, as `name version`."""

_FEATURES: Final[Mapping[str, str]] = {
    "3.3": "metadata.version 1-7=7",
    "3.4": "metadata.version 1-8=8",
    "3.5": "metadata.version 1-11=11",
    "3.6": "metadata.version 1-14=14",
    "3.7": "metadata.version 1-19/20=19",
    "3.8": "metadata.version 1-20/21=20",
    "3.9": "metadata.version 1-21/23=21, kraft.version 0-1=1, transaction.version 0-0/2=0",
    "4.0": """
metadata.version 7-25/26=25, eligible.leader.replicas.version 0-1=0, group.version 0-1=1,
kraft.version 0-1=1, transaction.version 0-2=2
""",
    "4.1": """
metadata.version 7-27/29=27, eligible.leader.replicas.version 0-1=1, group.version 0-1=1,
kraft.version 0-1=1, share.version 0-1=0, streams.version 0-0/1=0, transaction.version 0-2=2
""",
    "4.2": """
metadata.version 7-29/30=29, eligible.leader.replicas.version 0-1=1, group.version 0-1=1,
kraft.version 0-1=1, share.version 0-1=1, streams.version 0-1=1, transaction.version 0-2=2
""",
    "4.3": """
metadata.version 7-30/31=30, eligible.leader.replicas.version 0-1=1, group.version 0-1=1,
kraft.version 0-1=1, share.version 0-1=1, streams.version 0-1=1, transaction.version 0-2=2
""",
    "4.4": """
metadata.version 7-33/34=33, eligible.leader.replicas.version 0-1=1, group.version 0-1=1,
kraft.version 0-1=1, share.version 0-2=2, streams.version 0-1=1, transaction.version 0-2=2
""",
}
"""Release → features, as `name lowest-highest=formatted`, or with unstable levels as
`name lowest-highest/unstable=formatted`.

`kraft.version` has the level of a controller whose storage was formatted with `--standalone`; with
`controller.quorum.voters`, it is formatted at level 0."""

_CHANGES_OF_RECORDS: Final = "1 3 5 6 7 8 11 13 14 15 17 23 30 32 33"
"""Released levels of metadata.version with new records."""

_UNSTABLE_CHANGES_OF_RECORDS: Final[Mapping[str, str]] = {"3.7": "20", "3.8": "21", "3.9": "22"}
"""Release → its unstable levels of metadata.version with new records. Levels can change until they
are released."""

_FORMATTED_WITH_RELEASED_LEVELS: Final = frozenset(("3.7", "3.8"))
"""Releases with unstable levels that format new clusters without them."""

_REBALANCE_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
_COMMIT_FENCING: Final = "group.consumer.offset.commit.fencing"

_ASSIGNORS: Final = "org.apache.kafka.coordinator.group.assignor."
_BEFORE_4_3: Final = {
    # Targets of groups were computed at once.
    f"group.{group_type}.assignment.interval.ms": "0"
    for group_type in ("consumer", "share", "streams")
}
_BEFORE_4: Final = {
    **_BEFORE_4_3,
    # The consumer protocol was a preview that had to be enabled.
    _REBALANCE_PROTOCOLS: "classic",
    _COMMIT_FENCING: "strict",
    "log.message.timestamp.after.max.ms": str(2**63 - 1),  # KIP-1030
    "num.recovery.threads.per.data.dir": "1",  # KIP-1030
    "group.consumer.assignors": f"{_ASSIGNORS}UniformAssignor,{_ASSIGNORS}RangeAssignor",
    "group.consumer.migration.policy": "disabled",
    "group.coordinator.append.linger.ms": "10",
    "group.coordinator.threads": "1",
    "group.share.partition.max.record.locks": "200",
    "metric.reporters": "",
    "remote.log.manager.thread.pool.size": "10",
}
"""The defaults of Kafka before 4.0, as it describes them."""
_RELEASES_BEFORE_4: Final = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(_RELEASES_BEFORE_4, _BEFORE_4),
    "4.0": {
        **_BEFORE_4_3,
        _REBALANCE_PROTOCOLS: "classic,consumer",
        _COMMIT_FENCING: "strict",
        "group.coordinator.append.linger.ms": "5",
        "group.share.partition.max.record.locks": "200",
        "share.coordinator.append.linger.ms": "10",
    },
    "4.1": {
        **_BEFORE_4_3,
        _COMMIT_FENCING: "strict",
        "group.coordinator.append.linger.ms": "5",
        "share.coordinator.append.linger.ms": "5",
    },
    "4.2": {**_BEFORE_4_3, _COMMIT_FENCING: "strict"},
    "4.3": {},
    "4.4": {},
}


_CALLS_BETWEEN_NODES: Final = frozenset(("WriteTxnMarkers",))
"""APIs that nodes call, and that a service may refuse to clients."""


def release_names() -> tuple[str, ...]:
    """Return the names of the releases that can be emulated, oldest first."""
    return tuple(_API_CHANGES)


def emulated_release(name: str | None) -> Release:
    """Return the release or service with this name, or the default release with all served APIs.

    Raises ConfigError for an unknown name; its message has the known names.
    """
    if name is None:
        return Release(
            DEFAULT,
            _features(DEFAULT),
            rules=rules_of(DEFAULT),
            absent_settings=absent_settings(DEFAULT),
            unstable=_unstable(DEFAULT),
            changes_of_records=_changes_of_records(DEFAULT),
        )
    if name not in _API_CHANGES:
        return _emulated_service(name)
    apis: dict[str, Versions] = {}
    for release, table in _API_CHANGES.items():
        apis |= {api: Versions.parse(versions) for api, versions in _entries(table)}
        if release == name:
            break
    return Release(
        name,
        _features(name),
        apis,
        _SETTINGS[name],
        has_message_formats=name in _RELEASES_BEFORE_4,
        has_group_configs=name not in _RELEASES_BEFORE_4,
        accepts_nonce_suffix=name in _RELEASES_BEFORE_4,
        rules=rules_of(name),
        absent_settings=absent_settings(name),
        unstable=_unstable(name),
        changes_of_records=_changes_of_records(name),
        formats_unstable_features=name not in _FORMATTED_WITH_RELEASED_LEVELS,
    )


def features_with(name: str, level: int) -> Mapping[str, Feature]:
    """Return the features of the release whose new clusters have this level; none for another."""
    for release in _FEATURES:
        features = _features(release)
        if features[name].formatted == level:
            return features
    return {}


def _emulated_service(name: str) -> Release:
    """Return the release that a service resembles, with the APIs and settings of its profile."""
    from kafkalite.config.profiles import NOT_SERVED, OTHERS, PROFILES, Kind  # noqa: PLC0415 - rarely used

    profile = PROFILES.get(name)
    if profile is None:
        known = ", ".join(map(repr, (*_API_CHANGES, *PROFILES)))
        raise ConfigError(AS_VERSION.name, f"{AS_VERSION.name} {name!r} is not one of {known}")
    base = emulated_release(profile.base)
    assert base.apis is not None
    rows = {row.subject: row.value for row in profile.of_kind(Kind.API)}
    refused = {api for api in base.apis if rows.get(api, rows.get(OTHERS)) == NOT_SERVED}
    internal = refused & _CALLS_BETWEEN_NODES
    inherited = {api: each for api, each in base.apis.items() if api not in refused - internal}
    listed = {api: Versions.parse(each) for api, each in rows.items() if each != NOT_SERVED}
    return base._replace(
        apis=inherited | listed,
        settings={**base.settings, **profile.defaults},
        unstable={},
        profile=profile,
        internal_apis=frozenset(internal),
    )


def _unstable(name: str) -> Mapping[str, int]:
    entries = _entries(_UNSTABLE.get(name, ""))
    return {api: int(version) for api, version in entries}


def _changes_of_records(name: str) -> frozenset[int]:
    lowest, highest, *_ = _features(name)["metadata.version"]
    released = (level for level in map(int, _CHANGES_OF_RECORDS.split()) if level <= highest)
    unstable = map(int, _UNSTABLE_CHANGES_OF_RECORDS.get(name, "").split())
    return frozenset((*(level for level in released if level >= lowest), *unstable))


def _features(name: str) -> Mapping[str, Feature]:
    features = {}
    for feature, text in _entries(_FEATURES[name]):
        versions, _, formatted = text.partition("=")
        stable, _, unstable = versions.partition("/")
        lowest, _, highest = stable.partition("-")
        features[feature] = Feature(
            int(lowest), int(highest), int(formatted), int(unstable or highest)
        )
    return features


def _entries(table: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each entry of a table."""
    for entry in table.replace("\n", " ").split(","):
        name, _, text = entry.strip().partition(" ")
        if name:
            yield name, text
