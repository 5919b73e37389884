"""Feature levels: which protocols the cluster as a whole has agreed to speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.records.feature_level import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig

METADATA_VERSION_4_3 = 30
"""The level of `metadata.version` that Kafka 4.3 formats a new cluster with."""

TRANSACTION_VERSION: Final = "transaction.version"
"""0: as ever; 1: flexible records in the log of transactions; 2: an epoch each (KIP-890)."""

BOOTSTRAP_FEATURES: Mapping[str, int] = {
    "metadata.version": METADATA_VERSION_4_3,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    TRANSACTION_VERSION: 2,
}
"""What a new cluster starts with; each feature comes with the APIs that need it."""


class Features:
    """Finalized feature levels by name."""

    __slots__ = ("_chosen", "_recorded", "levels")

    def __init__(self, config: BrokerConfig) -> None:
        self.levels: Mapping[str, int] = {}
        """What the cluster has; a feature at level 0 is none it has."""
        self._recorded: dict[str, int] = {}
        self._chosen: Mapping[str, int] = {
            name: level
            for name in (TRANSACTION_VERSION,)
            if isinstance(level := config.get(name), int)
        }

    def start_records(self) -> list[FeatureLevelRecord]:
        """Return records for features that the log does not know yet, or that are set otherwise."""
        unknown = {
            name: level for name, level in BOOTSTRAP_FEATURES.items() if name not in self._recorded
        }
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in {**unknown, **self._chosen}.items()
            if self._recorded.get(name) != level
        ]

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        """Make one FeatureLevelRecord true; level 0 is a feature given up."""
        # That it was given up is remembered: the next start shall not bring it back.
        self._recorded[record.name] = record.feature_level
        self.levels = {name: level for name, level in self._recorded.items() if level}
