"""GroupShard: the groups whose ids fall on one partition of `__consumer_offsets`.

The shard itself decides nothing: it holds the components that do and shows each record, timer
and change of metadata to the one it concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.groups import ClassicGroups
from kafkalite.groups.consumer.heartbeat import ConsumerGroups
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.offsets import Offsets

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.entropy import Entropy


class GroupShard:
    """One partition's worth of groups, as a machine on the coordinator runtime."""

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.directory = GroupDirectory(config=config, entropy=entropy, image=image)
        self.offsets = Offsets(self.directory)
        self.classic = ClassicGroups(self.directory)
        self.consumer = ConsumerGroups(self.directory)
        self._replayers = {
            **self.offsets.replayers,
            **self.classic.replayers,
            **self.consumer.replayers,
        }
        self._timers = {
            **self.offsets.timers,
            **self.classic.timers,
            **self.consumer.timers,
        }

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record of the log true."""
        self._replayers[type(record.key)](record.key, record.value)
