"""Feature levels of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.records.feature_level import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig

METADATA_VERSION: Final = "metadata.version"

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""1: replicas that leave an ISR below its minimum remain eligible as leader (KIP-966)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""0: original; 1: flexible records in the transaction log; 2: epoch per transaction (KIP-890)."""


class Features:
    """Finalized feature levels by name."""

    __slots__ = ("_configured", "_formatted", "_recorded", "levels")

    def __init__(self, config: BrokerConfig) -> None:
        self.levels: Mapping[str, int] = {}
        """Finalized levels; a feature at level 0 is disabled."""
        self._recorded: dict[str, int] = {}
        self._formatted = {
            name: feature.formatted for name, feature in config.release.features.items()
        }
        self._configured = {
            name: level
            for name in (TRANSACTION_VERSION,)
            if isinstance(level := config.get(name), int)
        }

    def start_records(self) -> list[FeatureLevelRecord]:
        """Return records for features that are not in the log or whose level changes.

        A cluster keeps its levels until it starts as another release. Then it gets all levels of
        that release, as if that release had formatted it. Configured levels have precedence.
        """
        recorded, formatted = self._recorded, self._formatted
        emulated_version = formatted[METADATA_VERSION]
        target_levels = {name: level for name, level in formatted.items() if name not in recorded}
        if recorded.get(METADATA_VERSION, emulated_version) != emulated_version:
            target_levels = dict.fromkeys(recorded, 0) | formatted
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in (target_levels | self._configured).items()
            if recorded.get(name) != level
        ]

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        """Apply one FeatureLevelRecord; level 0 disables a feature."""
        # Level 0 is stored, so that the next start does not enable the feature again.
        self._recorded[record.name] = record.feature_level
        self.levels = {name: level for name, level in self._recorded.items() if level}
