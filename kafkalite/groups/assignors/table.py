"""The server-side assignors of consumer groups, by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.groups.assignors.range import assign_range
from kafkalite.groups.assignors.uniform import assign_uniform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.assignors.contract import Assignor

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)

_CLASSES = MappingProxyType(
    {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    }
)
"""Kafka's configuration may name an assignor by its Java class; clients cannot."""


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """Return the assignors that `group.consumer.assignors` configures, the default first.

    Java classes other than Kafka's own cannot run here and are skipped. If none remains, all
    available assignors are returned.
    """
    names = (_CLASSES.get(name, name) for name in configured)
    available = dict.fromkeys(name for name in names if name in ASSIGNORS)
    return tuple(available or ASSIGNORS)
