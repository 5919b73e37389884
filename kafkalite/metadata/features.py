"""Feature levels of the cluster, and the rules of UpdateFeatures (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.releases import FEATURE_SETTINGS, Feature, features_with
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.feature_level import FeatureLevelRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.releases import Release

METADATA_VERSION: Final = "metadata.version"

KRAFT_VERSION: Final = "kraft.version"
"""1: a quorum whose voters can change (KIP-853); 0: the voters of `controller.quorum.voters`."""

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""1: replicas that leave an ISR below its minimum remain eligible as leader (KIP-966)."""

GROUP_VERSION: Final = "group.version"
"""1: groups with the consumer protocol (KIP-848)."""

SHARE_VERSION: Final = "share.version"
"""1: share groups (KIP-932); 2: also dead-letter topics (KIP-1191)."""

STREAMS_VERSION: Final = "streams.version"
"""1: streams groups (KIP-1071)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""0: original; 1: flexible records in the transaction log; 2: epoch per transaction (KIP-890)."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

FIRST_WITH_DIRECTORIES: Final = 17
"""The level of metadata.version that Kafka names 3.7-IV2; records have ids of directories."""
FIRST_WITH_CORDONED_DIRECTORIES: Final = 30
"""The level of metadata.version that Kafka names 4.3-IV0; nodes can cordon directories."""
FIRST_WITH_HOST_RANGES: Final = 32
"""The level of metadata.version that Kafka 4.4 names 4.4-IV1; ACLs can have ranges of hosts."""
FIRST_WITH_CONTROLLER_UNREGISTRATION: Final = 33
"""The level of metadata.version that Kafka 4.4 names 4.4-IV2; controllers can be unregistered."""
FIRST_WITH_DEAD_LETTERS: Final = 2
"""The level of share.version since which share groups have dead-letter topics (KIP-1191)."""
_LOWEST_METADATA_VERSION: Final = 7
"""The level that Kafka names 3.3-IV3; other features need it."""
_NEEDED_METADATA_VERSION: Final[Mapping[str, int]] = {ELIGIBLE_LEADER_REPLICAS: 23}
"""Feature → the level of metadata.version that its levels above 0 need."""


class FeatureUpdate(NamedTuple):
    """A requested level of one feature."""

    name: str
    level: int
    upgrade_type: int = UPGRADE
    """1 for an upgrade, 2 for a safe downgrade, 3 for an unsafe one."""


class UpdatedLevels(NamedTuple):
    """The result of an update of features."""

    records: Sequence[FeatureLevelRecord]
    errors: Mapping[str, KafkaError]
    """Feature → why its level does not change."""


_UNKNOWN: Final = Feature(0, 0, 0, 0)

_MAX_HASHED_CHARACTERS: Final = 256
"""The names of all features of a release have fewer characters."""


class UnsupportedLevelError(ValueError):
    """A cluster has a feature level that the release does not support; the text is a sentence."""


def supported_features(release: Release) -> dict[str, Feature]:
    """Return the features of a release of which it supports other levels than 0."""
    return {name: feature for name, feature in release.features.items() if feature.highest}


def with_formatted_levels(release: Release, levels: Mapping[str, int]) -> Release:
    """Return the release if it formats new clusters with these levels of features.

    Other features have the level that new clusters of this metadata.version have.
    """
    version = levels.get(METADATA_VERSION)
    known = release.features if version is None else features_with(METADATA_VERSION, version)
    features = {}
    for name, feature in release.features.items():
        default = known[name].formatted if name in known else 0
        level = levels.get(name, min(default, feature.highest))
        features[name] = feature._replace(formatted=level)
    return release._replace(features=features)


def is_disabled(name: str, release: Release, finalized: Mapping[str, int]) -> bool:
    """Return whether a feature that the release has is at level 0."""
    return not finalized.get(name) and name in release.features


class Features:
    """Finalized feature levels by name."""

    __slots__ = ("_configured", "_formatted", "_recorded", "_release", "levels")

    def __init__(self, config: BrokerConfig) -> None:
        self.levels: Mapping[str, int] = {}
        """Finalized levels; a feature at level 0 is disabled."""
        self._release = config.release
        self._recorded: dict[str, int] = {}
        self._formatted = {
            name: feature.formatted for name, feature in config.release.features.items()
        }
        if KRAFT_VERSION in self._formatted and config.list("controller.quorum.voters"):
            self._formatted[KRAFT_VERSION] = 0
        self._configured = {
            name: level for name in FEATURE_SETTINGS if isinstance(level := config.get(name), int)
        }

    @property
    def supported(self) -> Mapping[str, Feature]:
        """The features of the release of which it supports other levels than 0."""
        return supported_features(self._release)

    def start_records(self) -> list[FeatureLevelRecord]:
        """Return records for features that are not in the log or whose level changes.

        As in Kafka, a cluster keeps its levels when another release supports them: UpdateFeatures
        raises them. Configured levels have precedence. Raises UnsupportedLevelError if the release
        does not support a level of the cluster; Kafka does not start either.
        """
        self._check_levels()
        recorded = self._recorded
        target_levels = {
            name: level for name, level in self._first_levels().items() if name not in recorded
        }
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in (target_levels | self._configured).items()
            if recorded.get(name) != level
        ]

    def start_level(self, name: str) -> int:
        """Return the level of a feature after `start_records`."""
        first = self._first_levels().get(name, 0)
        return self._configured.get(name, self._recorded.get(name, first))

    def _check_levels(self) -> None:
        for name, level in self.levels.items():
            problem = self._release.level_problem(name, level)
            if problem is not None:
                raise UnsupportedLevelError(
                    f"{name} is at level {level}, but Kafka {self._release.name} {problem}: start "
                    "with a release that supports this level, or with another directory"
                )

    def _first_levels(self) -> Mapping[str, int]:
        """Return the level of each feature when the cluster was formatted.

        A log can lack features that kafkalite did not know when it formatted the cluster.
        """
        formatted = self._formatted
        version = self._recorded.get(METADATA_VERSION, formatted[METADATA_VERSION])
        if version == formatted[METADATA_VERSION]:
            return formatted
        features = features_with(METADATA_VERSION, version)
        return {name: features[name].formatted if name in features else 0 for name in formatted}

    def update(self, updates: Sequence[FeatureUpdate], controller_id: int) -> UpdatedLevels:
        """Return the records of new levels; the last update of a feature applies.

        Kafka's quorum keeps kraft.version in control records, and its controller appends a record
        without effect. A Kafka that reads a FeatureLevelRecord of kraft.version ignores it.

        If the release updates all features or none, it raises KafkaError INVALID_UPDATE_VERSION
        with the error of one feature. As in Kafka, the order of a Java HashMap decides which one it
        is.
        """
        requested = {update.name: update for update in updates}
        proposed = {**self.levels, **{name: each.level for name, each in requested.items()}}
        is_atomic = self._release.rules.updates_features_together
        records, errors = [], {}
        for name in _in_order_of_kafka(requested):
            try:
                self._check(requested[name], proposed, controller_id)
            except KafkaError as error:
                if is_atomic:
                    raise KafkaError(
                        error.code,
                        "The update failed for all features since the following feature had an "
                        f"error: {error.message}",
                    ) from None
                errors[name] = error
            else:
                if self._is_updated(name):
                    level = requested[name].level
                    records.append(FeatureLevelRecord(name=name, feature_level=level))
        return UpdatedLevels(records, errors)

    def _is_updated(self, name: str) -> bool:
        return name != KRAFT_VERSION or self._release.rules.updates_kraft_version

    def _check(
        self, update: FeatureUpdate, proposed: Mapping[str, int], controller_id: int
    ) -> None:
        """Raise KafkaError INVALID_UPDATE_VERSION for an update that is not allowed."""
        levels = self._release.features.get(update.name, _UNKNOWN)
        current = self.levels.get(update.name, 0) if self._is_updated(update.name) else 0
        problem = (
            _type_problem(update)
            or _range_problem(update, levels, controller_id)
            or _direction_problem(update, current)
            or dependency_problem(update, proposed)
        )
        if problem is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {update.level} for feature {update.name}. {problem}",
            )
        if update.name == METADATA_VERSION:
            _check_metadata_downgrade(current, update, self._release)

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        """Apply one FeatureLevelRecord; level 0 disables a feature."""
        # Level 0 is stored, so that the next start does not enable the feature again.
        self._recorded[record.name] = record.feature_level
        self.levels = {name: level for name, level in self._recorded.items() if level}


def _type_problem(update: FeatureUpdate) -> str | None:
    if update.upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        return "The controller does not support the given upgrade type."
    return "A feature version cannot be less than 0." if update.level < 0 else None


def _range_problem(update: FeatureUpdate, levels: Feature, controller_id: int) -> str | None:
    lowest, highest, *_ = levels
    if lowest <= update.level <= highest:
        return None
    if not highest:
        return f"Local controller {controller_id} does not support this feature."
    return f"Local controller {controller_id} only supports versions {lowest}-{highest}"


def _direction_problem(update: FeatureUpdate, current: int) -> str | None:
    is_upgrade = update.upgrade_type == UPGRADE
    if update.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    if update.name == KRAFT_VERSION and update.level < current:
        return "Can't downgrade the version of this feature."
    return None


def dependency_problem(update: FeatureUpdate, proposed: Mapping[str, int]) -> str | None:
    """Return why the proposed level of metadata.version does not allow an update."""
    if update.name in {METADATA_VERSION, KRAFT_VERSION} or not update.level:
        return None
    version = proposed.get(METADATA_VERSION, 0)
    text = f"{update.name} could not be set to {update.level} because it depends on "
    if version < _LOWEST_METADATA_VERSION:
        return f"{text}{METADATA_VERSION}={_LOWEST_METADATA_VERSION} (3.3-IV3)"
    needed = _NEEDED_METADATA_VERSION.get(update.name, version)
    return None if version >= needed else f"{text}{METADATA_VERSION} level {needed}"


def _check_metadata_downgrade(current: int, update: FeatureUpdate, release: Release) -> None:
    """Raise KafkaError INVALID_UPDATE_VERSION for a downgrade that could lose metadata."""
    if not any(update.level < level <= current for level in release.changes_of_records):
        return
    rules = release.rules
    if update.upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
        if not rules.omits_advice_for_refused_downgrade:
            reason += " Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
    refused = (
        f"Unsupported metadata.version downgrade from {current} to {update.level}."
        if rules.names_levels_of_refused_downgrade
        else f"Invalid metadata.version {update.level}."
    )
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{refused} {reason}")


def _in_order_of_kafka(names: Iterable[str]) -> list[str]:
    """Return names in the order of a Java HashMap to which they were added one after the other.

    Names whose hashes take long to compute remain in their order. No feature has such a name.
    """
    from kafkalite.coordinator.java_order import in_java_order, string_hash  # noqa: PLC0415 - only for errors

    names = list(names)
    if sum(map(len, names)) > _MAX_HASHED_CHARACTERS:
        return names
    return in_java_order(names, string_hash)
