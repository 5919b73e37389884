"""RecordChanges: notices new records for a page, at a cost that does not depend on their number.

A page is notified of the first append only: then its partitions are not watched until it waits
again, a quarter of a second later at the earliest. What happened meanwhile is seen by the offsets.
So a producer has the cost of a page a few times a second, and without a page it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkalite.ports.watchers import Watchers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.partitions.partition import Partition

_State: TypeAlias = "tuple[object, ...]"


class RecordChanges(Watchers):
    """Functions that are called after changes of some partitions, until `unwatch`."""

    __slots__ = ("_find", "_states", "_watched")

    def __init__(self, find: Callable[[], Sequence[Partition]]) -> None:
        """Watch the partitions that `find` returns, which can be others each time."""
        super().__init__()
        self._find = find
        self._watched: Sequence[Partition] = ()
        self._states: Sequence[_State] = ()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after the next change."""
        super().watch(watcher)
        self._watch_partitions(self._find())
        self._states = self._present_states()

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling a watcher."""
        super().unwatch(watcher)
        self._watch_partitions(())

    def resume(self) -> None:
        """Call the watchers after the next change, or now if something has changed meanwhile."""
        self._watch_partitions(self._find())
        states = self._present_states()
        if states != self._states:
            self._end_watch()

    def on_append(self, size: int) -> None:
        """Notify the watchers of appended bytes."""
        del size
        self._end_watch()

    def on_change(self) -> None:
        """Notify the watchers of another change of a partition."""
        self._end_watch()

    def _end_watch(self) -> None:
        self._states = self._present_states()
        self._watch_partitions(())
        self.notify()

    def _watch_partitions(self, partitions: Sequence[Partition]) -> None:
        for each in self._watched:
            each.unwatch(self)
        self._watched = partitions
        for each in partitions:
            each.watch(self)

    def _present_states(self) -> Sequence[_State]:
        return [_state_of(each) for each in self._watched]


def _state_of(partition: Partition) -> _State:
    log = partition.log
    return (
        id(partition), partition.leader, partition.leader_epoch, partition.isr, log.start_offset,
        log.end_offset, partition.high_watermark, partition.last_stable_offset,
    )  # fmt: skip
