"""The cells of scoreboards in which kafkalite differs from Kafka, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Difference(NamedTuple):
    """The parts of an answer that differ."""

    paths: tuple[str, ...]
    """Paths inside the answer; an empty path is the whole answer."""
    reason: str
    since: str
    """The release of Kafka since which the answers differ."""


_JAVA: Final = {
    "controller: describeFeatures": Difference(
        (".nodeApiVersions",),
        "the APIs between controllers and brokers are not served",
        "3.7",
    ),
}

DIFFERENCES: Final[Mapping[str, Mapping[str, Difference]]] = {
    "java": _JAVA,
    "confluent-kafka": {},
    "kafka-python": {},
    "franz-go": {},
}
"""Client → cell → difference."""

EXCLUDED: Final[Mapping[str, Mapping[str, str]]] = {
    "java": {},
    "confluent-kafka": {
        "poll": "it serves callbacks of the client and sends no request",
        "set_sasl_credentials": "it changes the client and sends no request",
    },
    "kafka-python": {},
    "franz-go": {},
}
"""Client → method without a cell → reason."""
