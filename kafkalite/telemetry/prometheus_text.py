"""Pushed metrics in Prometheus's text format, written by the package prometheus-client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.ports.extras import install_command
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.telemetry.metrics import Distribution
from kafkalite.telemetry.otlp import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric as Family

    from kafkalite.telemetry.metrics import ClientMetrics, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTER_SUFFIX = "_total"
_INVALID_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_TYPES = {"updowncounter": "gauge"}
"""Type of a metric → its type in Prometheus, if that differs."""
_MIXED_TYPE = "unknown"
_RESERVED = "__"

_SERIES_PER_PIECE: Final = 1_000
_PIECE_CHARACTERS: Final = 65_536
_SAMPLE_CHARACTERS: Final = 200
"""Estimated characters of a sample without the values of its labels."""
_HEADER_LINES: Final = 2


def prometheus_pieces(clients: Sequence[ClientMetrics]) -> Iterator[str]:
    """Return the metrics of all clients as pieces of a text, with labels that identify the client.

    The text may be many times as large as the metrics, because the samples of a histogram repeat
    its labels. So a piece is built when it is taken, within milliseconds; some pieces are empty.
    Raises MissingPackageError if the package is not installed.
    """
    try:
        import prometheus_client  # noqa: F401, PLC0415 - extra
    except ImportError as error:
        raise MissingPackageError(
            f"the text for Prometheus needs the extra telemetry: {install_command('telemetry')}"
        ) from error
    return _pieces(clients)


def _pieces(clients: Sequence[ClientMetrics]) -> Iterator[str]:
    families: dict[str, _Family] = {}
    for client in clients:
        for metrics in _chunks(client.metrics):
            for metric in metrics:
                name = _name_of(metric)
                family = families.get(name)
                if family is None:
                    family = families[name] = _Family(name, metric)
                family.add(client, metric)
            yield ""
    for name in sorted(families):
        yield from families[name].pieces()


def _chunks(metrics: Sequence[Metric]) -> Iterator[Sequence[Metric]]:
    for start in range(0, len(metrics), _SERIES_PER_PIECE):
        yield metrics[start : start + _SERIES_PER_PIECE]


class _Family:
    """The series of all clients with one name."""

    __slots__ = ("_description", "_family_name", "_kind", "_name", "_series")

    def __init__(self, name: str, first: Metric) -> None:
        self._name = name
        self._kind = _kind_of(first)
        self._family_name = _family_name(name, self._kind)
        self._description = first.description
        self._series: list[tuple[ClientMetrics, Metric]] = []

    def add(self, client: ClientMetrics, metric: Metric) -> None:
        """Add the series of a client."""
        if self._kind != _kind_of(metric):
            # Two clients disagree about the type.
            self._kind, self._family_name = _MIXED_TYPE, self._name
        self._series.append((client, metric))

    def pieces(self) -> Iterator[str]:
        """Yield the text of the family in pieces; only the first one has the two header lines."""
        part, size, is_first = self._new_part(), 0, True
        for client, metric in self._series:
            labels = {_label_of(key): text for key, text in metric.labels} | _identity_of(client)
            sample_size = _SAMPLE_CHARACTERS + sum(map(len, labels.values()))
            for name, own_label, value in _samples(self._name, metric.value):
                part.add_sample(name, labels | own_label, value)
                size += sample_size
                if size >= _PIECE_CHARACTERS:
                    yield _text(part, with_header=is_first)
                    part, size, is_first = self._new_part(), 0, False
        if part.samples:
            yield _text(part, with_header=is_first)

    def _new_part(self) -> Family:
        from prometheus_client import Metric as Family  # noqa: PLC0415 - extra

        return Family(self._family_name, self._description, self._kind)


class _OneFamily(NamedTuple):
    """A registry, as prometheus-client reads it, that has one family."""

    family: Family

    def collect(self) -> Sequence[Family]:
        """Return the family."""
        return [self.family]


def _text(part: Family, *, with_header: bool) -> str:
    from prometheus_client import generate_latest  # noqa: PLC0415 - extra

    text = generate_latest(_OneFamily(part)).decode()
    return text if with_header else text.split("\n", _HEADER_LINES)[_HEADER_LINES]


def _identity_of(client: ClientMetrics) -> dict[str, str]:
    attributes = client.client
    return {
        "client_id": attributes.client_id or "",
        "client_instance_id": attributes.client_instance_id,
        "client_software_name": attributes.client_software_name,
        "client_software_version": attributes.client_software_version,
    }


def _kind_of(metric: Metric) -> str:
    """Return the type of a metric in Prometheus."""
    return _TYPES.get(metric.type, metric.type)


def _name_of(metric: Metric) -> str:
    """Return the name of the samples of a metric; that of a counter has its suffix."""
    name = _INVALID_IN_NAMES.sub("_", metric.name)
    if not name or name[0].isdigit() or name == _COUNTER_SUFFIX:
        name = f"_{name}"  # the name of a family is neither empty nor begins with a digit
    if metric.type == "counter" and not name.endswith(_COUNTER_SUFFIX):
        return f"{name}{_COUNTER_SUFFIX}"
    return name


def _family_name(name: str, kind: str) -> str:
    """Return the name of a family: that of a counter does not end with its suffix."""
    return name.removesuffix(_COUNTER_SUFFIX) if kind == "counter" else name


def _label_of(key: str) -> str:
    """Return a valid name of a label; names that begin with two underscores are reserved."""
    name = _INVALID_IN_NAMES.sub("_", key)
    is_valid = name and not name[0].isdigit() and not name.startswith(_RESERVED)
    return name if is_valid else f"label_{name}"


def _samples(name: str, value: float | Distribution) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield the name, the label of its own, and the value of each sample of a series."""
    if not isinstance(value, Distribution):
        yield name, {}, value
        return
    for quantile, at in value.quantiles:
        yield name, {"quantile": _number_text(quantile)}, at
    count = 0
    for bound, in_bucket in value.buckets:
        count += in_bucket
        yield f"{name}_bucket", {"le": _number_text(bound)}, count
    yield f"{name}_count", {}, value.count
    yield f"{name}_sum", {}, value.sum


def _number_text(number: float) -> str:
    """Return the text of a label; it has all digits, because it identifies a bucket."""
    return "+Inf" if number == float("inf") else f"{number:.15g}"
