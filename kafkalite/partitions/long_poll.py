"""Long polls: who waits for which partitions, and until when.

A fetch that found too little waits here. It is counted down by the bytes that arrive, ended early
by a change of leadership, ended at its deadline by the clock, and when its asker goes away it is
abandoned; whichever comes first leaves nothing behind in any partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock, Timer


class Watcher(Protocol):
    """One who waits for a partition, as the partition sees it."""

    def on_append(self, size: int) -> None:
        """Take note of `size` more bytes."""

    def on_change(self) -> None:
        """Take note that the partition has a new leader, was cut, or is gone."""


class Watchable(Protocol):
    """A partition, as one who waits for it sees it."""

    def watch(self, watch: Watcher) -> None:
        """Call `watch` when data arrives or the partition changes, until `unwatch`."""

    def unwatch(self, watch: Watcher) -> None:
        """Forget `watch`; harmless when it is unknown."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which committed records may be read."""

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        """Return how much lies between two offsets, None where one read does not reach so far."""


class Watch:
    """One partition that one long poll waits for: every byte that arrives can be read."""

    __slots__ = ("_counted", "_max_bytes", "_poll", "_readable", "partition")

    def __init__(
        self, poll: LongPoll, partition: Watchable, *, readable: int, max_bytes: int
    ) -> None:
        self.partition = partition
        self._poll = poll
        self._max_bytes = max_bytes
        self._readable = readable
        self._counted = min(readable, max_bytes)

    def on_append(self, size: int) -> None:
        """Count `size` more bytes."""
        self.count(self._readable + size)

    def count(self, readable: int) -> None:
        """Let the wait know how much can be read by now."""
        self._readable = readable
        counted = min(readable, self._max_bytes)
        gained, self._counted = counted - self._counted, counted
        self._poll.gain(gained)

    def on_change(self) -> None:
        """End the wait: the partition has a new leader, was cut, or is gone."""
        self._poll.end()


class CommittedWatch(Watch):
    """A partition of which committed records are waited for.

    The end of one transaction can free what other producers wrote long ago, so what can be read
    is looked up then instead of being added up.
    """

    __slots__ = ("_limit_offset", "_offset")

    def __init__(
        self, poll: LongPoll, partition: Watchable, *, offset: int, readable: int, max_bytes: int
    ) -> None:
        super().__init__(poll, partition, readable=readable, max_bytes=max_bytes)
        self._offset = offset
        self._limit_offset = partition.last_stable_offset

    def on_append(self, size: int) -> None:
        """Count what can be read now, unless an open transaction hides all that arrived."""
        del size
        limit_offset = self.partition.last_stable_offset
        if limit_offset <= self._limit_offset:
            return
        self._limit_offset = limit_offset
        try:
            readable = self.partition.readable_bytes(self._offset, limit_offset)
        except OSError:
            readable = None
        if readable is None:
            # One read cannot give all that there is, or gives an error: no use to wait for more.
            self.on_change()
        else:
            self.count(readable)


class LongPoll:
    """One wait: `on_end` is called once, when enough bytes arrived or nothing more is to come."""

    __slots__ = ("_missing_bytes", "_on_end", "_timer", "_watches")

    def __init__(self, *, missing_bytes: int, on_end: Callable[[], None]) -> None:
        self._missing_bytes = missing_bytes
        self._on_end: Callable[[], None] | None = on_end
        self._watches: list[Watch] = []
        self._timer: Timer | None = None

    def add(
        self,
        partition: Watchable,
        *,
        offset: int,
        readable: int,
        max_bytes: int,
        committed: bool,
    ) -> None:
        """Wait for `partition` too, of which `readable` bytes from `offset` on were found."""
        watch = (
            CommittedWatch(self, partition, offset=offset, readable=readable, max_bytes=max_bytes)
            if committed
            else Watch(self, partition, readable=readable, max_bytes=max_bytes)
        )
        self._watches.append(watch)
        partition.watch(watch)

    def start(self, clock: Clock, deadline_ms: int) -> None:
        """End the wait at `deadline_ms` at the latest."""
        self._timer = clock.wait_at(deadline_ms, self.end)

    def gain(self, size: int) -> None:
        """Count `size` bytes that can be read; enough of them end the wait."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.end()

    def end(self) -> None:
        """End the wait now and say so; harmless when it is over."""
        on_end = self._on_end
        if on_end is not None:
            self.abandon()
            on_end()

    def abandon(self) -> None:
        """End the wait in silence: nobody is there any more."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.partition.unwatch(watch)
