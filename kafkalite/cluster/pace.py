"""Pace: the delays of a real Kafka after its answers, drawn from measured distributions.

With `--pace kafka`, transactions are completed, topics are created automatically, brokers know new
topics, coordinators are found and ready, and handshakes of TLS are answered after these delays. The
distributions are those of Kafka 4.4.0, as `tests/perf/kafka_pace.py` measured them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.entropy import Entropy

POSITIONS: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The shares of the samples that are at most the quantiles of each table."""
AUTO_CREATION_MS: Final = (24.18, 28.47, 30.19, 32.31, 35.23, 41.25, 74.05)
"""From a Metadata request that creates a topic until Metadata has it, as quantiles."""
DISCOVERY_MS: Final[Mapping[str, Sequence[float]]] = {
    OFFSETS_TOPIC: (147.37, 173.48, 234.67, 275.29, 354.57, 565.49, 575.84),
    TRANSACTION_STATE_TOPIC: (40.18, 48.34, 59.54, 67.64, 77.97, 100.51, 140.33),
}
"""From the first FindCoordinator, which creates this topic, until it has an answer."""
READY_MS: Final[Mapping[str, Sequence[float]]] = {
    OFFSETS_TOPIC: (462.25, 671.54, 1078.68, 1304.02, 1374.28, 1797.76, 2377.10),
    TRANSACTION_STATE_TOPIC: (532.10, 596.70, 852.00, 1078.26, 1391.83, 1588.94, 1765.86),
}
"""From the first answer of FindCoordinator, which has a coordinator, until it serves requests."""
PUBLICATION_MS: Final = (0.38, 0.43, 0.52, 0.77, 1.98, 7.46, 71.31)
"""From the answer of CreateTopics until Metadata has the topic, as quantiles."""
TLS_ANSWER_MS: Final = (2.70, 3.63, 5.86, 8.71, 11.05, 16.69, 29.55)
"""From the first message of a TLS handshake until the answer, as quantiles."""
COMPLETION_MS: Final = (0.37, 0.54, 2.03, 2.91, 5.25, 12.51, 61.38)
"""From the answer of EndTxn up to version 4 until the next transaction may begin, as quantiles."""
EPOCH_COMPLETION_MS: Final = (0.41, 1.28, 1.70, 2.01, 3.11, 7.38, 42.05)
"""The same from version 5 on, which increases the epoch (KIP-890)."""

_RESOLUTION: Final = 1_000_000


def quantile_ms(quantiles: Sequence[float], position: float) -> float:
    """Return the quantile at a position in [0, 1), interpolated linearly, in milliseconds."""
    index = bisect_right(POSITIONS, position) - 1
    (low, high), (begin, end) = (list(pairwise(values))[index] for values in (quantiles, POSITIONS))
    return low + (high - low) * (position - begin) / (end - begin)


class Pace:
    """The delays of one cluster, and the topics that it creates after a delay."""

    __slots__ = (
        "_awaited",
        "_clock",
        "_entropy",
        "_publication_count",
        "_publications",
        "_releases",
        "_timers",
    )

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._timers: dict[tuple[str, ...], Timer] = {}
        self._awaited: set[str] = set()
        """The topics that timers create."""
        self._publications: dict[int, Timer] = {}
        self._releases: dict[str, Timer] = {}
        """Internal topic → the timer after which its coordinators are ready."""
        self._publication_count = 0

    def completion_ms(self, transaction_version: int) -> int:
        """Return the delay of the markers of a transaction, in milliseconds."""
        return self._draw_ms(EPOCH_COMPLETION_MS if transaction_version > 1 else COMPLETION_MS)

    def create_later(
        self,
        names: Sequence[str],
        create: Callable[[Sequence[str]], None],
        quantiles: Sequence[float] = AUTO_CREATION_MS,
    ) -> None:
        """Call `create` after a delay, with those of these topics that are not awaited already.

        `close` cancels it.
        """
        new = tuple(name for name in dict.fromkeys(names) if name not in self._awaited)
        if not new:
            return

        def create_now() -> None:
            del self._timers[new]
            self._awaited.difference_update(new)
            create(new)

        deadline_ms = self._clock.now_ms() + self._draw_ms(quantiles)
        self._awaited.update(new)
        self._timers[new] = self._clock.call_at(deadline_ms, create_now)

    def release_later(self, topic: str, release: Callable[[], None]) -> None:
        """Call `release` when the coordinators of a new internal topic are ready.

        `close` cancels it.
        """

        def release_now() -> None:
            del self._releases[topic]
            release()

        deadline_ms = self._clock.now_ms() + self._draw_ms(READY_MS[topic])
        self._releases[topic] = self._clock.call_at(deadline_ms, release_now)

    def publish_later(self, publish: Callable[[], None]) -> None:
        """Call `publish` after the delay with which brokers know a new topic; `close` cancels it.

        A delay of less than half a millisecond is none.
        """
        delay_ms = self._draw_ms(PUBLICATION_MS)
        if not delay_ms:
            publish()
            return
        self._publication_count += 1
        key = self._publication_count

        def publish_now() -> None:
            del self._publications[key]
            publish()

        deadline_ms = self._clock.now_ms() + delay_ms
        self._publications[key] = self._clock.call_at(deadline_ms, publish_now)

    def tls_answer_s(self) -> float:
        """Return the delay of the answer to the first message of a handshake, in seconds."""
        return self._draw_ms(TLS_ANSWER_MS) / 1000

    def close(self) -> None:
        """Cancel the creation of all awaited topics, all publications and releases.

        Clients ask for the topics again.
        """
        timers = (
            *self._timers.values(),
            *self._publications.values(),
            *self._releases.values(),
        )
        self._releases.clear()
        self._timers.clear()
        self._publications.clear()
        self._awaited.clear()
        for timer in timers:
            timer.cancel()

    def _draw_ms(self, quantiles: Sequence[float]) -> int:
        return round(quantile_ms(quantiles, self._entropy.integer(_RESOLUTION) / _RESOLUTION))
