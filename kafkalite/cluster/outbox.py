"""Outbox: carries out intents, the work for other nodes that a coordinator's decision causes.

An intent is carried out at least once. It is passed to the outbox when its decision is in the log,
and is tried immediately. If that fails, it is retried with increasing delays. Intents are not
stored: after a restart, `on_loaded` of a state machine returns those that were not completed, so
none is lost and one may be carried out twice. The number of intents is limited by the state
machines; the number of timers is limited here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.waiting import Waiting

INITIAL_RETRY_BACKOFF_MS = 500
MAX_RETRY_BACKOFF_MS = 30_000
MAX_TIMERS = 10_000
"""Intents with a timer of their own; further ones are queued until a timer is free."""

IntentT = TypeVar("IntentT")


class Outbox:
    """Passes each intent to the handler of its type."""

    __slots__ = (
        "_clock",
        "_handlers",
        "_in_progress",
        "_is_draining",
        "_is_open",
        "_overflow",
        "_queue",
        "_timers",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._handlers: dict[type, Callable[[Any], Waiting[None] | None]] = {}
        self._in_progress = 0
        """The number of intents whose handler waits for other nodes."""
        self._queue: deque[tuple[Hashable, int]] = deque()
        self._timers: dict[Hashable, Timer] = {}
        self._overflow: dict[Hashable, int] = {}
        """Intents that wait for a free timer, with their delays in milliseconds."""
        self._is_open = False
        self._is_draining = False

    def assign(
        self, intent_type: type[IntentT], handler: Callable[[IntentT], Waiting[None] | None]
    ) -> None:
        """Carry out intents of this type by `handler`, which may return a Waiting for completion.

        The intent is retried after a KafkaError, raised or as the result of the Waiting.
        """
        self._handlers[intent_type] = handler

    def open(self) -> None:
        """Carry out intents from now on, including those added while coordinators were loaded."""
        self._is_open = True
        self._drain()

    def close(self) -> None:
        """Drop the intents that are not completed; the next start returns them again."""
        self._is_open = False
        self._queue.clear()
        self._overflow.clear()
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()

    def carry_out(self, intent: object) -> None:
        """Carry out an intent, immediately if possible."""
        self._queue.append((intent, INITIAL_RETRY_BACKOFF_MS))
        if self._is_open and not self._is_draining:
            self._drain()

    def carry_out_later(self, intent: Hashable, delay_ms: int) -> None:
        """Carry out an intent after `delay_ms`. Even with 0, other requests are served first."""
        self._schedule_retry(intent, delay_ms)

    def __len__(self) -> int:
        """Return the number of intents that are not completed."""
        return len(self._queue) + len(self._timers) + len(self._overflow) + self._in_progress

    def _drain(self) -> None:
        self._is_draining = True
        try:
            while self._queue:
                intent, retry_ms = self._queue.popleft()
                try:
                    completion = self._handlers[type(intent)](intent)
                except KafkaError:
                    self._schedule_retry(intent, retry_ms)
                else:
                    if completion is not None:
                        self._watch_completion(completion, intent, retry_ms)
        finally:
            self._is_draining = False

    def _watch_completion(self, completion: Waiting[None], intent: Hashable, retry_ms: int) -> None:
        self._in_progress += 1

        def on_completion(result: Exception | None) -> None:
            self._in_progress -= 1
            if isinstance(result, KafkaError):
                self._schedule_retry(intent, retry_ms)
            elif result is not None:
                raise result

        completion.then(on_completion)

    def _schedule_retry(self, intent: Hashable, retry_ms: int) -> None:
        if not self._is_open:
            return
        if intent in self._timers or intent in self._overflow:
            return
        if len(self._timers) < MAX_TIMERS:
            self._set_timer(intent, retry_ms)
        else:
            self._overflow[intent] = retry_ms

    def _set_timer(self, intent: Hashable, retry_ms: int) -> None:
        self._timers[intent] = self._clock.call_at(
            self._clock.now_ms() + retry_ms, lambda: self._retry(intent, retry_ms)
        )

    def _retry(self, intent: Hashable, retry_ms: int) -> None:
        del self._timers[intent]
        if self._overflow:
            # An intent that fails again is queued behind all others, so that none is starved.
            next_intent = next(iter(self._overflow))
            self._set_timer(next_intent, self._overflow.pop(next_intent))
        self._queue.append(
            (intent, min(max(INITIAL_RETRY_BACKOFF_MS, 2 * retry_ms), MAX_RETRY_BACKOFF_MS))
        )
        if not self._is_draining:
            self._drain()
