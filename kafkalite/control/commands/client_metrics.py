"""Commands that return the metrics that clients have pushed, as JSON and for Prometheus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isinf, isnan
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.config.typed_json import About, to_json
from kafkalite.control.command_table import CommandError, Family, Row, Words, running_cluster
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import iso_of
from kafkalite.telemetry.metrics import ClientMetrics, Distribution, Metric
from kafkalite.telemetry.prometheus_text import CONTENT_TYPE, prometheus_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.server.broker import Broker

_INFINITY = float("inf")
_METRICS_PER_PIECE = 100
_END = "]}"


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """One time series of a client, with its latest value."""

    name: Annotated[
        str,
        About(
            "Name in OpenTelemetry, such as `org.apache.kafka.producer.connection.creation.total`."
        ),
    ]
    type: Annotated[str, About("`gauge`, `counter`, `updowncounter`, `histogram` or `summary`.")]
    unit: Annotated[str, About("Unit; empty if the client sends none.")]
    description: Annotated[str, About("Description; empty if the client sends none.")]
    labels: Annotated[dict[str, str], About("Attributes of the series.")]
    value: Annotated[
        object,
        About(
            "Latest value; that of a counter is the total since the first push. A number that JSON "
            "does not have is text: `NaN`, `Infinity` or `-Infinity`. A histogram and a summary "
            "have an object: `count` and `sum` of the values, `buckets` with upper bound (null for "
            "the last one) and number of values in the bucket, and `quantiles` with quantile, such "
            "as 0.99, and value.",
            schema={
                "type": ["number", "string", "object"],
                "required": ["count", "sum", "buckets", "quantiles"],
            },
        ),
    ]
    time_ms: Annotated[
        int,
        About("Time of the value by the client's clock, in milliseconds since the Unix epoch."),
    ]


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """The metrics that one client instance has pushed."""

    client_id: Annotated[str | None, About("Client id of the requests.")]
    client_instance_id: Annotated[str, About("Id of the instance, which the broker has generated.")]
    software_name: Annotated[
        str, About("Name of the client's library; `unknown` if the client did not send it.")
    ]
    software_version: Annotated[str, About("Version of the client's library.")]
    address: Annotated[str, About("Address of the client.")]
    port: Annotated[
        str | None, About("Port of the connection on which the instance was first seen.")
    ]
    principal: Annotated[str, About("Principal of the last push.")]
    node: Annotated[int, About("Node that received the last push.")]
    push_interval_ms: Annotated[int, About("Interval of pushes.")]
    pushes: Annotated[int, About("Number of accepted pushes, including those without metrics.")]
    first_push_ms: Annotated[
        int, About("Time of the first push, in milliseconds since the Unix epoch.")
    ]
    last_push_ms: Annotated[
        int, About("Time of the last push, in milliseconds since the Unix epoch.")
    ]
    last_push_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    terminated: Annotated[
        bool, About("Whether the client has announced that it sends no further push.")
    ]
    omitted_series: Annotated[
        int,
        About(
            "Number of values that exceeded the memory of a client, 4 MiB, and were not stored. A "
            "series that is not stored counts once in each push."
        ),
    ]
    metrics: Annotated[tuple[MetricAnswer, ...], About("Metrics by name and labels.")]


@dataclass(frozen=True, slots=True)
class ClientMetricsAnswer:
    """The metrics of clients."""

    now_ms: Annotated[int, About("The broker's time in milliseconds since the Unix epoch.")]
    iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    problem: Annotated[
        str | None,
        About("Why metrics are missing, and what to install; null if none are missing."),
    ]
    clients: Annotated[
        tuple[ClientAnswer, ...], About("Clients; the one that pushed last is at the end.")
    ]


class ClientMetricsStatus(NamedTuple):
    """The metrics of clients, the client that pushed last at the end."""

    now_ms: int
    problem: str | None
    clients: Sequence[ClientMetrics]


@dataclass(frozen=True, slots=True)
class _MetricsCommand:
    """What the commands about the metrics of clients have in common."""

    client_id: Annotated[
        str | None, About("only clients with this client id [all]", metavar="ID")
    ] = None

    def status(self, broker: Broker) -> ClientMetricsStatus:
        """Return the metrics; raises CommandError if clients are not offered to push any."""
        from kafkalite.telemetry.otlp import reason_not_decoded  # noqa: PLC0415 - rarely used

        cluster = running_cluster(broker)
        if not cluster.config.bool(CLIENT_TELEMETRY):
            raise CommandError(
                f"clients push no metrics without the setting {CLIENT_TELEMETRY}=true"
            )
        clients = cluster.pushed_metrics.clients(self.client_id)
        return ClientMetricsStatus(broker.clock.now_ms(), reason_not_decoded(), clients)


@dataclass(frozen=True, slots=True)
class ShowClientMetrics(_MetricsCommand):
    """Return the metrics that clients have pushed.

    The HTTP status is 400 without the setting `kafkalite.client.telemetry`.
    """

    async def perform(self, broker: Broker) -> ClientMetricsAnswer:
        """Return the metrics; raises CommandError if clients are not offered to push any."""
        return metrics_answer(self.status(broker))


@dataclass(frozen=True, slots=True)
class ShowPrometheusText(_MetricsCommand):
    """Return the same metrics for Prometheus, with labels that identify the client."""

    async def perform(self, broker: Broker) -> str:
        """Return the text; raises CommandError if clients are not offered to push metrics."""
        return "".join(_text_pieces(self.status(broker)))


def metrics_answer(status: ClientMetricsStatus) -> ClientMetricsAnswer:
    """Return the answer with the metrics of all clients."""
    clients = tuple(map(_client_answer, status.clients))
    return ClientMetricsAnswer(status.now_ms, iso_of(status.now_ms), status.problem, clients)


def json_pieces(status: ClientMetricsStatus) -> Iterator[str]:
    """Yield the JSON text of `metrics_answer` in pieces, each built within milliseconds.

    The metrics of all clients may have tens of megabytes.
    """
    yield _opened(metrics_answer(status._replace(clients=())))
    for number, client in enumerate(status.clients):
        without_metrics = _opened(_client_answer(client._replace(metrics=())))
        yield f",{without_metrics}" if number else without_metrics
        for start in range(0, len(client.metrics), _METRICS_PER_PIECE):
            metrics = client.metrics[start : start + _METRICS_PER_PIECE]
            piece = _dumps(to_json([_metric_answer(each) for each in metrics]))[1:-1]
            yield f",{piece}" if start else piece
        yield _END
    yield _END


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _opened(value: ClientMetricsAnswer | ClientAnswer) -> str:
    """Return the text of an object up to the elements of its last value, an empty list."""
    return _dumps(to_json(value)).removesuffix(_END)


def _client_answer(metrics: ClientMetrics) -> ClientAnswer:
    client = metrics.client
    return ClientAnswer(
        client_id=client.client_id,
        client_instance_id=client.client_instance_id,
        software_name=client.client_software_name,
        software_version=client.client_software_version,
        address=client.client_source_address,
        port=client.client_source_port,
        principal=metrics.principal,
        node=metrics.node,
        push_interval_ms=metrics.push_interval_ms,
        pushes=metrics.pushes,
        first_push_ms=metrics.first_push_ms,
        last_push_ms=metrics.last_push_ms,
        last_push_iso=iso_of(metrics.last_push_ms),
        terminated=metrics.is_terminated,
        omitted_series=metrics.omitted_series,
        metrics=tuple(map(_metric_answer, metrics.metrics)),
    )


def _metric_answer(metric: Metric) -> MetricAnswer:
    fields = metric._asdict()
    fields |= {"labels": dict(metric.labels), "value": _value(metric.value)}
    return MetricAnswer(**fields)


def _value(value: float | Distribution) -> object:
    if not isinstance(value, Distribution):
        return _number(value)
    return {
        "count": value.count,
        "sum": _number(value.sum),
        "buckets": [
            (None if bound == _INFINITY else _number(bound), count)
            for bound, count in value.buckets
        ],
        "quantiles": [(_number(quantile), _number(at)) for quantile, at in value.quantiles],
    }


def _number(value: float) -> float | str:
    """Return a number; text for a number that JSON does not have."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _text_pieces(status: ClientMetricsStatus) -> Iterable[str]:
    """Return the text for Prometheus; raises CommandError if the package is not installed."""
    from kafkalite.telemetry.otlp import MissingPackageError  # noqa: PLC0415 - rarely used

    try:
        return prometheus_pieces(status.clients)
    except MissingPackageError as missing:
        raise CommandError(str(missing)) from missing


def _lines(found: ClientMetricsAnswer, given: Mapping[str, object]) -> Iterator[str]:
    if found.problem is not None:
        yield found.problem
    for client in found.clients:
        yield from _client_lines(client)
    if not found.clients:
        selected = f" with the id {given['client_id']!r}" if "client_id" in given else ""
        yield (
            f"no client{selected} has pushed metrics; a client pushes if a subscription selects it"
        )


def _client_lines(client: ClientAnswer) -> Iterator[str]:
    """Yield one line for a client, and one for each of its metrics."""
    pushes = "1 push" if client.pushes == 1 else f"{client.pushes} pushes, the last"
    yield (
        f"{client.client_id or '-'} ({client.software_name} {client.software_version}, "
        f"{client.address}, instance {client.client_instance_id}): {pushes} at "
        f"{client.last_push_iso}{', terminated' if client.terminated else ''}"
    )
    for metric in client.metrics:
        labels = ",".join(f"{name}={label}" for name, label in metric.labels.items())
        value = metric.value
        text = _number_text(value)
        if isinstance(value, dict):
            text = f"count={value['count']} sum={_number_text(value['sum'])}"
        yield f"  {metric.name}{{{labels}}} {text}"


def _number_text(number: object) -> str:
    return f"{number:.12g}" if isinstance(number, int | float) else f"{number}"


_WORD = "client-metrics"

COMMANDS = Family(
    (
        Row(
            ShowClientMetrics,
            ClientMetricsAnswer,
            "GET",
            "/v1/client-metrics",
            (Words(_WORD),),
            _lines,
            pieces=lambda command, broker: json_pieces(command.status(broker)),
        ),
        Row(
            ShowPrometheusText,
            str,
            "GET",
            "/v1/client-metrics/prometheus",
            (Words(_WORD, "print the metrics in Prometheus's text format", flag="prometheus"),),
            pieces=lambda command, broker: _text_pieces(command.status(broker)),
            media_type=CONTENT_TYPE,
        ),
    ),
    {_WORD: "Print the metrics that clients have pushed to a running broker."},
)
