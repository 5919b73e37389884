"""Quotas: how much each user or client has used, and for how long it must be throttled.

The rates are those of Kafka's metrics (SampledStat, Rate, TokenBucket), and the selection of the
quota of a client is that of Kafka's ClientQuotaManager.
"""

from __future__ import annotations

from math import floor, inf, isnan
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kafkalite.security.client_addresses import canonical_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, USER, IP)
"""In the order of the hash maps in which Kafka collects them."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity = frozenset[tuple[str, str | None]]
"""Pairs of entity type and name; the name None stands for the default entity of the type."""

_MS_PER_S: Final = 1000.0
_MIN_LONG: Final = -(2.0**63)
_MAX_LONG: Final = 2.0**63 - 1024
"""The largest float within 64 bits."""

_MAX_METERS: Final = 100_000
"""Maximum number of clients of one node whose use of a quota is measured."""

_INACTIVE_MS: Final = 3_600_000
"""A client's rate is forgotten after this time without a request, as in Kafka."""

UNLIMITED_CONNECTIONS: Final = (1 << 31) - 1
"""The number that stands for no limit of connections, or of connections per second."""

_MIN_CONNECTION_LIMIT: Final = 1e-9
"""Connections per second; in place of 0, which Kafka accepts in a properties file."""

_ANY_NAME: Final = ""
"""In an index and in the key of a meter: the quota does not depend on this name."""

Client = tuple[str, str]
"""A user and a client id."""

K = TypeVar("K")


def _java_round(value: float) -> int:
    """Return the nearest integer within 64 bits, as Java's Math.round does; 0 for NaN."""
    if isnan(value):
        return 0
    return floor(min(max(value, _MIN_LONG), _MAX_LONG) + 0.5)


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """An amount per second, over the last `sample_count` windows of `window_ms` each."""

    __slots__ = ("_current", "_sample_count", "_samples", "_window_ms", "last_ms", "limit")

    def __init__(self, limit: float, sample_count: int, window_ms: int) -> None:
        self.limit = limit
        self.last_ms = 0
        """The time of the last record."""
        self._sample_count = sample_count
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> int:
        """Add an amount, and return the milliseconds until the rate is at its limit again.

        The result is 0 if the limit is not exceeded.
        """
        self.add(amount, now_ms)
        rate, window_ms = self._measure(now_ms)
        if rate <= self.limit:
            return 0
        return _java_round((rate - self.limit) / self.limit * window_ms)

    def add(self, amount: float, now_ms: int) -> None:
        """Add an amount, which may be negative to take an earlier one back."""
        self.last_ms = now_ms
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            # One more than the count: the oldest sample overlaps the beginning of the period.
            self._current = (self._current + 1) % (self._sample_count + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.reset(now_ms)
        sample.value += amount
        sample.last_ms = now_ms

    def _measure(self, now_ms: int) -> tuple[float, int]:
        """Return the rate per second, and the milliseconds over which it was measured."""
        oldest_ms = now_ms
        total = 0.0
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._sample_count * self._window_ms:
                sample.reset(now_ms)
            oldest_ms = min(oldest_ms, sample.start_ms)
            total += sample.value
        elapsed_ms = self._measured_ms(now_ms - oldest_ms)
        return total / (elapsed_ms / _MS_PER_S), elapsed_ms

    def _measured_ms(self, elapsed_ms: int) -> int:
        """Return the time over which the rate is measured, by the age of the oldest sample."""
        missing_windows = self._sample_count - 1 - elapsed_ms // self._window_ms
        # A new client has used nothing in the windows before its first request.
        return max(elapsed_ms + max(missing_windows, 0) * self._window_ms, 1)


class SimpleRate(WindowedRate):
    """A rate that is measured over the time since the oldest sample, and at least one window."""

    __slots__ = ()

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the rate is above its limit now."""
        rate, _ = self._measure(now_ms)
        return rate > self.limit

    def _measured_ms(self, elapsed_ms: int) -> int:
        return max(elapsed_ms, self._window_ms)


class TokenBucket:
    """Tokens that are refilled at the rate `limit`; the burst is that of all windows (KIP-599)."""

    __slots__ = ("_burst_s", "_tokens", "_updated_ms", "last_ms", "limit")

    def __init__(self, limit: float, sample_count: int, window_ms: int) -> None:
        self.limit = limit
        self.last_ms = 0
        self._burst_s = sample_count * window_ms / _MS_PER_S
        self._tokens = 0.0
        self._updated_ms = 0

    def record(self, amount: float, now_ms: int) -> int:
        """Take tokens even if there are too few; return the milliseconds until the balance is 0."""
        self._refill(now_ms)
        self._tokens = min(self._burst_s * self.limit, self._tokens - amount)
        return self._throttle_ms()

    def take(self, amount: float, now_ms: int) -> int:
        """Take tokens unless the balance is negative; return the milliseconds until it is 0."""
        self._refill(now_ms)
        if throttle_ms := self._throttle_ms():
            return throttle_ms
        self._tokens -= amount
        return 0

    def _refill(self, now_ms: int) -> None:
        self.last_ms = now_ms
        refilled = self._tokens + self.limit * (now_ms - self._updated_ms) / _MS_PER_S
        self._tokens = min(self._burst_s * self.limit, refilled)
        self._updated_ms = now_ms

    def _throttle_ms(self) -> int:
        return _java_round(-self._tokens / self.limit * _MS_PER_S) if self._tokens < 0 else 0


class QuotaIndex:
    """The quotas of one key, such as `producer_byte_rate`."""

    __slots__ = ("_limits",)

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        # None stands for the default entity.
        self._limits: dict[tuple[str | None, str | None], float] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if key in values and IP not in names:
                pair = names.get(USER, _ANY_NAME), names.get(CLIENT_ID, _ANY_NAME)
                self._limits[pair] = values[key]

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[float, Client] | None:
        """Return the quota of a client, and the clients that share it; None without a quota.

        The first that exists applies: those of the user, of the default user, of the client id.
        """
        limits = self._limits
        pair, of_user, of_client = (user, client_id), (user, _ANY_NAME), (_ANY_NAME, client_id)
        for key, shared_by in (
            ((user, client_id), pair),
            ((user, None), pair),
            ((user, _ANY_NAME), of_user),
            ((None, client_id), pair),
            ((None, None), pair),
            ((None, _ANY_NAME), of_user),
            ((_ANY_NAME, client_id), of_client),
            ((_ANY_NAME, None), of_client),
        ):
            limit = limits.get(key)
            if limit is not None:
                return limit, shared_by
        return None


class _MeterCache(Generic[K]):
    """The rates of the clients that have a quota of one kind; inactive clients are forgotten."""

    __slots__ = ("_kind", "_meters", "_next_removal_ms", "_sample_count", "window_ms")

    def __init__(
        self, kind: type[WindowedRate | TokenBucket], sample_count: int, window_s: int
    ) -> None:
        self._kind = kind
        self._sample_count = sample_count
        self.window_ms = window_s * 1000
        self._meters: dict[K, WindowedRate | TokenBucket] = {}
        self._next_removal_ms = 0

    def _meter(self, client: K, limit: float, now_ms: int) -> WindowedRate | TokenBucket:
        meter = self._meters.get(client)
        if meter is None:
            self._remove_inactive(now_ms)
            meter = self._kind(limit, self._sample_count, self.window_ms)
            self._meters[client] = meter
        meter.limit = limit
        return meter

    def _remove_inactive(self, now_ms: int) -> None:
        """Forget inactive clients, at most once in that time; and the oldest if there are many."""
        if len(self._meters) >= _MAX_METERS:
            del self._meters[next(iter(self._meters))]
        if now_ms < self._next_removal_ms:
            return
        self._next_removal_ms = now_ms + _INACTIVE_MS
        self._meters = {
            client: meter
            for client, meter in self._meters.items()
            if now_ms - meter.last_ms < _INACTIVE_MS
        }


class Meters(_MeterCache[Client]):
    """The rates of all clients that have a quota of one key."""

    __slots__ = ("_index", "_key")

    def __init__(
        self, kind: type[WindowedRate | TokenBucket], key: str, sample_count: int, window_s: int
    ) -> None:
        super().__init__(kind, sample_count, window_s)
        self._key = key
        self._index = QuotaIndex({}, _ANY_NAME)

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use these quotas from now on; measured usage remains."""
        self._index = QuotaIndex(quotas, self._key)

    def find(self, user: str, client_id: str, now_ms: int) -> WindowedRate | TokenBucket | None:
        """Return the meter of a client; None if it has no quota."""
        found = self._index.find(user, client_id)
        return None if found is None else self._meter(found[1], found[0], now_ms)

    def max_amount(self, user: str, client_id: str) -> float:
        """Return the largest amount that is not throttled for certain; infinite without a quota."""
        found = self._index.find(user, client_id)
        if found is None:
            return inf
        return found[0] * (self._sample_count - 1) * self.window_ms / _MS_PER_S


class ConnectionRates(_MeterCache[str]):
    """The new connections of one node per second, by limited name: a listener, or an address.

    As in Kafka's ConnectionQuotas, a throttle time is at most one window.
    """

    __slots__ = ("_limits", "_quotas")

    def __init__(self, sample_count: int, window_s: int) -> None:
        super().__init__(WindowedRate, sample_count, window_s)
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._limits: Mapping[str | None, float] = {}
        """The quotas by address; None stands for all other addresses."""

    def of_limits(self, limits: Iterable[tuple[str, int]], now_ms: int) -> Sequence[WindowedRate]:
        """Return the rates of these names, also those without a limit: they may get one."""
        return tuple(self._rate(name, limit, now_ms) for name, limit in limits)

    def of_address(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float]], host: str, now_ms: int
    ) -> Sequence[WindowedRate]:
        """Return the rate of an address if it has a quota."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._limits = _limits_of_addresses(quotas)
        if not self._limits:
            return ()
        address = canonical_address(host)
        limit = self._limits.get(address, self._limits.get(None))
        return () if limit is None else (self._rate(f"/{address}", limit, now_ms),)

    def _rate(self, name: str, limit: float, now_ms: int) -> WindowedRate:
        rate = self._meter(name, max(limit, _MIN_CONNECTION_LIMIT), now_ms)
        assert isinstance(rate, WindowedRate)
        return rate

    def record(self, rates: Iterable[WindowedRate], now_ms: int) -> int:
        """Count a connection, and return the milliseconds for which it must be throttled."""
        throttle_ms = 0
        for rate in rates:
            if rate.limit == UNLIMITED_CONNECTIONS:
                rate.add(1.0, now_ms)
            else:
                throttle_ms = max(throttle_ms, rate.record(1.0, now_ms))
        return min(throttle_ms, self.window_ms)

    @staticmethod
    def take_back(rates: Iterable[WindowedRate], now_ms: int) -> None:
        """Remove a connection from rates that have counted it."""
        for rate in rates:
            rate.add(-1.0, now_ms)


def _limits_of_addresses(
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
) -> dict[str | None, float]:
    limits: dict[str | None, float] = {}
    for entity, values in quotas.items():
        names = dict(entity)
        if IP in names and CONNECTION_CREATION_RATE in values:
            name = names[IP]
            address = None if name is None else canonical_address(name)
            limits[address] = int(values[CONNECTION_CREATION_RATE])
    return limits
