"""Outbox: work that a decision of one coordinator leaves for another, carried out at least once.

An intent is handed over when its decision is in the log, and is carried out at once. What cannot
be done now is tried again, later and later. Nothing is written down here: a machine names again in
`on_loaded` what was left undone, so a restart loses no intent, and one may be carried out twice.
There are never more of them than what the machines themselves keep; the timers are limited.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kafkalite.ports.clock import Clock, Timer

FIRST_RETRY_MS = 500
LAST_RETRY_MS = 30_000
MOST_WAITING = 10_000
"""Intents with a timer of their own; those beyond it have their turns after these."""

I = TypeVar("I")  # noqa: E741 - an intent


class Outbox:
    """Hands intents to those who carry them out, by the intents' types."""

    __slots__ = ("_behind", "_carriers", "_clock", "_is_busy", "_is_open", "_queue", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._carriers: dict[type, Callable[[Any], None]] = {}
        self._queue: deque[tuple[Hashable, int]] = deque()
        self._waiting: dict[Hashable, Timer] = {}
        self._behind: dict[Hashable, int] = {}
        """Those without a timer, and how long each is to wait once it has one."""
        self._is_open = False
        self._is_busy = False

    def assign(self, kind: type[I], carry: Callable[[I], None]) -> None:
        """Let `carry` do intents of this type; a KafkaError from it means: not now, try again."""
        self._carriers[kind] = carry

    def open(self) -> None:
        """Begin, with what was handed over while the coordinators were still being put together."""
        self._is_open = True
        self._drain()

    def close(self) -> None:
        """Give up what was not done; it is named again after the next start."""
        self._is_open = False
        self._queue.clear()
        self._behind.clear()
        waiting, self._waiting = self._waiting, {}
        for timer in waiting.values():
            timer.cancel()

    def carry_out(self, intent: object) -> None:
        """Have an intent carried out: before this returns, if that is possible now."""
        self._queue.append((intent, FIRST_RETRY_MS))
        if self._is_open and not self._is_busy:
            self._drain()

    def carry_out_later(self, intent: Hashable, delay_ms: int) -> None:
        """Have an intent carried out after a while, at the earliest when others had their turn."""
        self._put_off(intent, delay_ms)

    def __len__(self) -> int:
        """Count the intents that are not done."""
        return len(self._queue) + len(self._waiting) + len(self._behind)

    def _drain(self) -> None:
        self._is_busy = True
        try:
            while self._queue:
                intent, retry_ms = self._queue.popleft()
                try:
                    self._carriers[type(intent)](intent)
                except KafkaError:
                    self._put_off(intent, retry_ms)
        finally:
            self._is_busy = False

    def _put_off(self, intent: Hashable, retry_ms: int) -> None:
        if intent in self._waiting or intent in self._behind:
            return
        if len(self._waiting) < MOST_WAITING:
            self._wait(intent, retry_ms)
        else:
            self._behind[intent] = retry_ms

    def _wait(self, intent: Hashable, retry_ms: int) -> None:
        self._waiting[intent] = self._clock.call_at(
            self._clock.now_ms() + retry_ms, lambda: self._try_again(intent, retry_ms)
        )

    def _try_again(self, intent: Hashable, retry_ms: int) -> None:
        del self._waiting[intent]
        if self._behind:
            # What fails again goes behind all others, so that each has its turn.
            following = next(iter(self._behind))
            self._wait(following, self._behind.pop(following))
        self._queue.append((intent, min(max(FIRST_RETRY_MS, 2 * retry_ms), LAST_RETRY_MS)))
        if not self._is_busy:
            self._drain()
