"""What share groups want done at the share coordinator, and the news brought back to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.share.intents import InitializeShareState
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.groups.share.intents import ShareStart
    from kafkalite.server.outbox import Outbox
    from kafkalite.shares.coordinator import ShareCoordinator


class ShareIntents:
    """Carries out the intents of share groups."""

    __slots__ = ("_groups", "_shares")

    def __init__(self, groups: GroupCoordinator, shares: ShareCoordinator) -> None:
        self._groups = groups
        self._shares = shares

    def join(self, outbox: Outbox) -> None:
        """Be the one who carries out these intents."""
        outbox.assign(InitializeShareState, self.initialize)

    def initialize(self, intent: InitializeShareState) -> None:
        """Give partitions a state, then tell the group; KafkaError when that is not possible now.

        What the group has by now, or does not want any more, is passed over: an intent that waited
        must not begin anew what others have read from since.
        """
        log = self._groups.partition_for(intent.group_id)
        wanted = self._groups.read(log, lambda machine, _: machine.share.still_wanted(intent))
        for start in wanted.partitions:
            self._begin(ShareKey(intent.group_id, start.topic_id, start.partition), start)
        if wanted.partitions:
            self._groups.write(
                log, lambda machine, now_ms: machine.share.state_initialized(wanted, now_ms)
            )

    def _begin(self, key: ShareKey, start: ShareStart) -> None:
        state = self._shares.read(
            self._shares.partition_for(key.text), lambda machine, _: machine.state(key)
        )
        # An intent may come twice, and what was settled since it came first must not be lost.
        if state is None or state.state_epoch != start.state_epoch:
            self._shares.initialize_state(
                *key, state_epoch=start.state_epoch, start_offset=start.start_offset
            )
