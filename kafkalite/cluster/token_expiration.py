"""TokenExpiration: the periodic removal of expired delegation tokens, as the controller does it.

Kafka's controller has a periodic task. Here a timer runs only while there are tokens. It is due
when Kafka's task would be: a multiple of `delegation.token.expiry.check.interval.ms` after the
start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock, Timer

MAX_REMOVALS = 1_000
"""Maximum number of tokens in one change; the next change follows after CONTINUE_DELAY_MS."""
CONTINUE_DELAY_MS = 10


class TokenExpiration:
    """The removal of expired tokens in one cluster."""

    __slots__ = ("_clock", "_config", "_metadata", "_start_ms", "_timer")

    def __init__(self, clock: Clock, config: BrokerConfig, metadata: MetadataController) -> None:
        self._clock = clock
        self._metadata = metadata
        self._config = config
        self._start_ms = clock.now_ms()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin with the tokens that exist."""
        self._schedule(self._metadata.image)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Set the timer when there is a token."""
        del delta
        self._schedule(image)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, image: MetadataImage) -> None:
        if self._timer is None and image.delegation_tokens:
            controller = self._config.of_controller(image.active_brokers)
            interval_ms = controller.int("delegation.token.expiry.check.interval.ms")
            intervals = (self._clock.now_ms() - self._start_ms) // interval_ms + 1
            self._call_at(self._start_ms + intervals * interval_ms)

    def _call_at(self, deadline_ms: int) -> None:
        self._timer = self._clock.call_at(
            self._clock.periodic_deadline_ms(deadline_ms), self._remove_expired
        )

    def _remove_expired(self) -> None:
        try:
            may_be_more = self._metadata.remove_expired_delegation_tokens(MAX_REMOVALS)
        except KafkaError:
            # The disk has failed, which is reported elsewhere. The next round tries again.
            may_be_more = False
        self._timer = None
        if may_be_more:
            self._call_at(self._clock.now_ms() + CONTINUE_DELAY_MS)
        else:
            self._schedule(self._metadata.image)
