"""Long polls: fetches that wait for records or a deadline.

A fetch that found too few bytes waits here. It ends when enough bytes have arrived, when the leader
changes, at its deadline, or when the connection is closed. Then it is removed from all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock, Timer


class Watcher(Protocol):
    """Receives notifications of a partition."""

    def on_append(self, size: int) -> None:
        """Handle `size` appended bytes."""

    def on_change(self) -> None:
        """Handle a change: the partition has a new leader, was truncated, or was deleted."""


class Watchable(Protocol):
    """A partition that can be waited for."""

    def watch(self, watcher: Watcher) -> None:
        """Notify `watcher` when data arrives or the partition changes, until `unwatch`."""

    def unwatch(self, watcher: Watcher) -> None:
        """Remove `watcher`; no effect if it is unknown."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open; read_committed consumers read up to it."""

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        """Return the number of bytes between two offsets; None if one read cannot cover them."""


class Watch:
    """A partition that a long poll waits for, with isolation level read_uncommitted.

    Every appended byte is readable.
    """

    __slots__ = ("_counted_bytes", "_max_bytes", "_poll", "_readable_bytes", "partition")

    def __init__(
        self, poll: LongPoll, partition: Watchable, *, readable_bytes: int, max_bytes: int
    ) -> None:
        self.partition = partition
        self._poll = poll
        self._max_bytes = max_bytes
        self._readable_bytes = readable_bytes
        self._counted_bytes = min(readable_bytes, max_bytes)

    def on_append(self, size: int) -> None:
        """Count `size` more bytes."""
        self.set_readable_bytes(self._readable_bytes + size)

    def set_readable_bytes(self, readable_bytes: int) -> None:
        """Set the number of readable bytes, and report the new ones to the long poll."""
        self._readable_bytes = readable_bytes
        counted_bytes = min(readable_bytes, self._max_bytes)
        new_bytes, self._counted_bytes = counted_bytes - self._counted_bytes, counted_bytes
        self._poll.add_bytes(new_bytes)

    def on_change(self) -> None:
        """End the wait: the partition has a new leader, was truncated, or was deleted."""
        self._poll.end()


class CommittedWatch(Watch):
    """A partition that a long poll waits for, with isolation level read_committed.

    The end of one transaction can make earlier records of other producers readable. So the
    readable bytes are looked up in the log when the last stable offset has changed.
    """

    __slots__ = ("_limit_offset", "_offset")

    def __init__(
        self,
        poll: LongPoll,
        partition: Watchable,
        *,
        offset: int,
        readable_bytes: int,
        max_bytes: int,
    ) -> None:
        super().__init__(poll, partition, readable_bytes=readable_bytes, max_bytes=max_bytes)
        self._offset = offset
        self._limit_offset = partition.last_stable_offset

    def on_append(self, size: int) -> None:
        """Count the readable bytes, if the last stable offset has changed."""
        del size
        limit_offset = self.partition.last_stable_offset
        if limit_offset <= self._limit_offset:
            return
        self._limit_offset = limit_offset
        try:
            readable_bytes = self.partition.readable_bytes(self._offset, limit_offset)
        except OSError:
            readable_bytes = None
        if readable_bytes is None:
            # The read ends at the end of its segment, or fails: more records do not change it.
            self.on_change()
        else:
            self.set_readable_bytes(readable_bytes)


class LongPoll:
    """One wait: `on_end` is called once, when enough bytes have arrived or the wait is over."""

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
        readable_bytes: int,
        max_bytes: int,
        is_read_committed: bool,
    ) -> None:
        """Wait for `partition` too; it already has `readable_bytes` from `offset` on."""
        watch = (
            CommittedWatch(
                self, partition, offset=offset, readable_bytes=readable_bytes, max_bytes=max_bytes
            )
            if is_read_committed
            else Watch(self, partition, readable_bytes=readable_bytes, max_bytes=max_bytes)
        )
        self._watches.append(watch)
        partition.watch(watch)

    def start(self, clock: Clock, deadline_ms: int) -> None:
        """End the wait at `deadline_ms` at the latest."""
        self._timer = clock.wait_at(deadline_ms, self.end)

    def add_bytes(self, size: int) -> None:
        """Count `size` readable bytes; the wait ends when there are enough."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.end()

    def end(self) -> None:
        """End the wait now and call `on_end`; no effect if it is over."""
        on_end = self._on_end
        if on_end is not None:
            self.abandon()
            on_end()

    def abandon(self) -> None:
        """End the wait without calling `on_end`; used directly when the client has disconnected."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.partition.unwatch(watch)
