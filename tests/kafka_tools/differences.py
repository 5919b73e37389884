"""The command lines whose output differs from that of Kafka, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.kafka_tools.cases import METADATA_COPY

if TYPE_CHECKING:
    from collections.abc import Mapping


class Difference(NamedTuple):
    """Why the output differs, and the first emulated release of Kafka whose output differs."""

    reason: str
    since: str


_INDEX: Final = Difference(
    "The index files of the last segment are written when the broker stops.", "3.3"
)
_SHELL: Final = f"kafka-metadata-shell --snapshot {METADATA_COPY}"
_READ: Final = "{data}/read-0/00000000000000000000"

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "kafka-configs --describe --broker-logger 1": Difference(
        "The loggers are those of Python.", "3.3"
    ),
    "kafka-broker-api-versions": Difference(
        "Without `--as-version`, some earlier versions of APIs are served, too.", "4.0"
    ),
    f"{_SHELL} tree /image/cluster": Difference(
        "The log has no ports, which can change with each start: registrations of brokers have no "
        "listeners, and controllers are not registered. Broker epochs are no offsets.",
        "3.3",
    ),
    f"kafka-dump-log --files {_READ}.index --index-sanity-check": _INDEX,
    f"kafka-dump-log --files {_READ}.timeindex": _INDEX,
}
"""Titles of cases → the difference. All other command lines have the output of Kafka."""
