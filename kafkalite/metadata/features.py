"""Feature levels: which protocols the cluster as a whole has agreed to speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.records.feature_level import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA_VERSION_4_3 = 30
"""The level of `metadata.version` that Kafka 4.3 formats a new cluster with."""

BOOTSTRAP_FEATURES: Mapping[str, int] = {
    "metadata.version": METADATA_VERSION_4_3,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""What a new cluster starts with; each feature comes with the APIs that need it."""


class Features:
    """Finalized feature levels by name."""

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}

    def bootstrap_records(self) -> list[FeatureLevelRecord]:
        """Return records for the features that the log does not know yet."""
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in BOOTSTRAP_FEATURES.items()
            if name not in self.levels
        ]

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        """Make one FeatureLevelRecord true; level 0 is a feature given up."""
        if record.feature_level == 0:
            self.levels.pop(record.name, None)
        else:
            self.levels[record.name] = record.feature_level
