"""Metrics that clients have pushed, with a limit for their memory.

A client with delta temporality pushes the change since its last push. The changes are added up, so
that a counter here is the total since the first push.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.telemetry.instances import ClientAttributes

MAX_BYTES = 64 << 20
"""Estimated memory of all metrics; the client that pushed least recently is forgotten first."""

MAX_CLIENT_BYTES = 4 << 20
"""Estimated memory of the metrics of one client; values beyond it are only counted."""

_CLIENT_BYTES = 2_000
_SERIES_BYTES = 600
_PART_BYTES = 150
"""Estimated memory of a client, of a series without its texts, and of a bucket or quantile."""


class Distribution(NamedTuple):
    """The value of a histogram or a summary."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    sum: float
    buckets: tuple[tuple[float, int], ...] = ()
    """Upper bound of a bucket, and the number of values in it alone; for a histogram."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """Quantile, such as 0.99, and its value; for a summary."""

    def plus(self, other: Distribution) -> Distribution:
        """Return the sum of two histograms; `other` alone if its buckets are not the same."""
        if [bound for bound, _ in self.buckets] != [bound for bound, _ in other.buckets]:
            return other
        counts = zip(self.buckets, other.buckets, strict=True)
        return Distribution(
            self.count + other.count,
            self.sum + other.sum,
            tuple((bound, first + second) for (bound, first), (_, second) in counts),
        )


class Metric(NamedTuple):
    """One time series of a client, with its latest value."""

    name: str
    """The name in OpenTelemetry, such as "org.apache.kafka.producer.connection.creation.total"."""
    type: str
    """`gauge`, `counter`, `updowncounter`, `histogram` or `summary`."""
    unit: str
    description: str
    labels: tuple[tuple[str, str], ...]
    """Attributes of the series, by name."""
    value: float | Distribution
    time_ms: int
    """Time of the value by the client's clock, in milliseconds since the Unix epoch."""


class DecodedMetric(NamedTuple):
    """A metric of one push; `is_delta` says whether its value is the change since the last push."""

    metric: Metric
    is_delta: bool


class ClientMetrics(NamedTuple):
    """The metrics that one client instance has pushed."""

    client: ClientAttributes
    node: int
    """The node that received the last push."""
    principal: str
    push_interval_ms: int
    pushes: int
    """Number of accepted pushes, including those without metrics."""
    first_push_ms: int
    last_push_ms: int
    is_terminated: bool
    """Whether the client has announced that it sends no further push."""
    omitted_series: int
    """Number of values that exceeded the memory of a client, 4 MiB, and were not stored. A series
    that is not stored counts once in each push."""
    metrics: tuple[Metric, ...]

    def find(self, name: str, **labels: str) -> tuple[Metric, ...]:
        """Return the metrics with this name that have at least these labels."""
        return tuple(
            each
            for each in self.metrics
            if each.name == name and labels.items() <= dict(each.labels).items()
        )


class AcceptedPush(NamedTuple):
    """The circumstances of a push that a node has accepted."""

    client: ClientAttributes
    node: int
    principal: str
    push_interval_ms: int
    is_terminating: bool
    now_ms: int


class _Client:
    """The mutable state of one client instance."""

    __slots__ = ("first_push_ms", "last", "omitted", "pushes", "series", "size")

    def __init__(self, push: AcceptedPush) -> None:
        self.last = push
        self.first_push_ms = push.now_ms
        self.pushes = self.omitted = 0
        self.size = _CLIENT_BYTES
        self.series: dict[tuple[str, tuple[tuple[str, str], ...]], Metric] = {}


class PushedMetrics:
    """The metrics of all clients of a cluster, by client instance id."""

    __slots__ = ("_clients", "_size")

    def __init__(self) -> None:
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._size = 0

    def add(self, push: AcceptedPush, decoded: Iterable[DecodedMetric]) -> None:
        """Add an accepted push with its metrics."""
        instance_id = push.client.client_instance_id
        client = self._clients.get(instance_id)
        if client is None:
            client = self._clients[instance_id] = _Client(push)
            self._size += client.size
        self._clients.move_to_end(instance_id)
        client.last = push
        client.pushes += 1
        before = client.size
        for each in decoded:
            _merge(client, each)
        self._size += client.size - before
        while self._size > MAX_BYTES and len(self._clients) > 1:
            _, forgotten = self._clients.popitem(last=False)
            self._size -= forgotten.size

    def clients(self, client_id: str | None = None) -> Sequence[ClientMetrics]:
        """Return the metrics of all clients, or of those with this client id; last push last."""
        return [
            ClientMetrics(
                client=each.last.client,
                node=each.last.node,
                principal=each.last.principal,
                push_interval_ms=each.last.push_interval_ms,
                pushes=each.pushes,
                first_push_ms=each.first_push_ms,
                last_push_ms=each.last.now_ms,
                is_terminated=each.last.is_terminating,
                omitted_series=each.omitted,
                metrics=tuple(each.series[key] for key in sorted(each.series)),
            )
            for each in self._clients.values()
            if client_id is None or each.last.client.client_id == client_id
        ]


def _merge(client: _Client, decoded: DecodedMetric) -> None:
    """Add one value to its series."""
    metric = decoded.metric
    key = (metric.name, metric.labels)
    before = client.series.get(key)
    growth = _size_of(metric) - (0 if before is None else _size_of(before))
    if growth > 0 and client.size + growth > MAX_CLIENT_BYTES:
        client.omitted += 1
        return
    client.size += growth
    if before is not None and decoded.is_delta:
        metric = metric._replace(value=_sum(before.value, metric.value))
    client.series[key] = metric


def _size_of(metric: Metric) -> int:
    """Return the estimated memory of a series."""
    size = _SERIES_BYTES + len(metric.name) + len(metric.unit) + len(metric.description)
    size += sum(len(name) + len(value) for name, value in metric.labels)
    if isinstance(metric.value, Distribution):
        size += _PART_BYTES * (len(metric.value.buckets) + len(metric.value.quantiles))
    return size


def _sum(total: float | Distribution, change: float | Distribution) -> float | Distribution:
    """Return the new total of a series; the change alone if its type is not that of the total."""
    if isinstance(total, Distribution):
        return total.plus(change) if isinstance(change, Distribution) else change
    return change if isinstance(change, Distribution) else total + change
