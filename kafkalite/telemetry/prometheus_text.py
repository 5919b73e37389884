"""Pushed metrics in Prometheus's text format, written by the package prometheus-client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.telemetry.metrics import Distribution
from kafkalite.telemetry.otlp import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client import Metric as Family

    from kafkalite.telemetry.metrics import ClientMetrics, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTER_SUFFIX = "_total"
_INVALID_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_TYPES = {"updowncounter": "gauge"}
"""Type of a metric → its type in Prometheus, if that differs."""
_MIXED_TYPE = "unknown"
_RESERVED = "__"


def prometheus_text(clients: Iterable[ClientMetrics]) -> str:
    """Return the metrics of all clients, with labels that identify the client.

    Raises MissingPackageError if the package is not installed.
    """
    try:
        from prometheus_client import generate_latest  # noqa: PLC0415 - extra
    except ImportError as error:
        raise MissingPackageError(
            "the text for Prometheus needs the extra telemetry: pip install 'kafkalite[telemetry]'"
        ) from error
    return generate_latest(_Families(clients)).decode()


class _Families:
    """The metrics as prometheus-client collects them: one family for each name."""

    def __init__(self, clients: Iterable[ClientMetrics]) -> None:
        self._clients = clients

    def collect(self) -> Sequence[Family]:
        """Return all families, in order of their names."""
        from prometheus_client import Metric as Family  # noqa: PLC0415 - extra

        families: dict[str, Family] = {}
        for client in self._clients:
            identity = _identity_of(client)
            for metric in client.metrics:
                name = _name_of(metric)
                kind = _TYPES.get(metric.type, metric.type)
                family = families.get(name)
                if family is None:
                    family = families[name] = Family(
                        _family_name(name, kind), metric.description, kind
                    )
                elif family.type != kind:
                    # Two clients disagree about the type.
                    family.type, family.name = _MIXED_TYPE, name
                labels = {_label_of(key): text for key, text in metric.labels}
                _add_samples(family, name, metric, labels | identity)
        return [families[name] for name in sorted(families)]


def _identity_of(client: ClientMetrics) -> dict[str, str]:
    attributes = client.client
    return {
        "client_id": attributes.client_id or "",
        "client_instance_id": attributes.client_instance_id,
        "client_software_name": attributes.client_software_name,
        "client_software_version": attributes.client_software_version,
    }


def _name_of(metric: Metric) -> str:
    """Return the name of the samples of a metric; that of a counter has its suffix."""
    name = _INVALID_IN_NAMES.sub("_", metric.name)
    name = name if name and not name[0].isdigit() else f"_{name}"
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


def _add_samples(family: Family, name: str, metric: Metric, labels: Mapping[str, str]) -> None:
    value = metric.value
    if not isinstance(value, Distribution):
        family.add_sample(name, dict(labels), value)
        return
    for quantile, at in value.quantiles:
        family.add_sample(name, {**labels, "quantile": _number_text(quantile)}, at)
    count = 0
    for bound, in_bucket in value.buckets:
        count += in_bucket
        family.add_sample(f"{name}_bucket", {**labels, "le": _number_text(bound)}, count)
    family.add_sample(f"{name}_count", dict(labels), value.count)
    family.add_sample(f"{name}_sum", dict(labels), value.sum)


def _number_text(number: float) -> str:
    """Return the text of a label; it has all digits, because it identifies a bucket."""
    return "+Inf" if number == float("inf") else f"{number:.15g}"
