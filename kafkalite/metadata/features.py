"""Feature levels: which protocols the cluster as a whole has agreed to speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.records.feature_level import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig

METADATA_VERSION: Final = "metadata.version"

TRANSACTION_VERSION: Final = "transaction.version"
"""0: as ever; 1: flexible records in the log of transactions; 2: an epoch each (KIP-890)."""


class Features:
    """Finalized feature levels by name."""

    __slots__ = ("_chosen", "_formatted", "_recorded", "levels")

    def __init__(self, config: BrokerConfig) -> None:
        self.levels: Mapping[str, int] = {}
        """What the cluster has; a feature at level 0 is none it has."""
        self._recorded: dict[str, int] = {}
        self._formatted = {
            name: feature.formatted for name, feature in config.release.features.items()
        }
        self._chosen = {
            name: level
            for name in (TRANSACTION_VERSION,)
            if isinstance(level := config.get(name), int)
        }

    def start_records(self) -> list[FeatureLevelRecord]:
        """Return records for features that the log does not know, or that are to be otherwise.

        A cluster keeps its levels, but for those that are set, until it starts as another release:
        then it takes all of that one's, as if it had been formatted by it.
        """
        recorded, formatted = self._recorded, self._formatted
        here = formatted[METADATA_VERSION]
        wanted = {name: level for name, level in formatted.items() if name not in recorded}
        if recorded.get(METADATA_VERSION, here) != here:
            wanted = dict.fromkeys(recorded, 0) | formatted
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in (wanted | self._chosen).items()
            if recorded.get(name) != level
        ]

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        """Make one FeatureLevelRecord true; level 0 is a feature given up."""
        # That it was given up is remembered: the next start shall not bring it back.
        self._recorded[record.name] = record.feature_level
        self.levels = {name: level for name, level in self._recorded.items() if level}
