"""Configured assignors by name."""

from __future__ import annotations

import pytest

from kafkalite.groups.assignors.table import assignor_names

PACKAGE = "org.apache.kafka.coordinator.group.assignor"


@pytest.mark.parametrize(
    ("configured", "offered"),
    [
        (("uniform", "range"), ("uniform", "range")),
        (("range",), ("range",)),
        ((f"{PACKAGE}.RangeAssignor", "range", f"{PACKAGE}.UniformAssignor"), ("range", "uniform")),
        (("com.example.Mine", "range"), ("range",)),
        (("com.example.Mine",), ("uniform", "range")),
    ],
)
def test_assignors_are_configured_by_name_or_java_class(
    configured: tuple[str, ...], offered: tuple[str, ...]
) -> None:
    assert assignor_names(configured) == offered
