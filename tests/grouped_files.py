"""Files of tests that one process of a parallel run runs, because they share what takes long."""

from __future__ import annotations

from typing import Final

_ARCHITECTURE: Final = "tests/architecture/"
"""Its files share the syntax trees of all modules."""

_WITH_ONE_KAFKA: Final = frozenset(
    f"tests/conformance/test_{name}.py"
    for name in (
        "classic_walks",
        "damaged_log",
        "fencing",
        "group_differences",
        "group_rules",
        "known_differences",
        "later_versions",
        "migration_records",
        "quorum",
        "releases",
        "scenarios",
        "settings_while_running",
        "telemetry",
        "transactions",
    )
)
"""Files that use the fixture `real_kafka`, the real Kafka of a process."""


def group_of(file: str) -> str:
    """Return the name of the group of a file, whose tests one process runs."""
    if file.startswith(_ARCHITECTURE):
        return _ARCHITECTURE
    return "real_kafka" if file in _WITH_ONE_KAFKA else file
