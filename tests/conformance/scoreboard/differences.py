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


_WHOLE: Final = ("",)

_QUORUM: Final = Difference(_WHOLE, "the APIs of the controller quorum are not served", "3.3")

_UNREGISTER_CONTROLLER: Final = Difference(_WHOLE, "UnregisterController is not served", "4.4")

_KRAFT_VERSION: Final = "the feature `kraft.version` of the controller quorum is not served"

_JAVA: Final = {
    **dict.fromkeys(
        (
            "describeMetadataQuorum",
            "describeMetadataQuorum timeoutMs",
            "addRaftVoter of a voter",
            "addRaftVoter setClusterId",
            "removeRaftVoter unknown",
            "removeRaftVoter setClusterId",
        ),
        _QUORUM,
    ),
    **dict.fromkeys(
        (
            "unregisterController unknown",
            "unregisterController timeoutMs",
            "unregisterController of a voter",
        ),
        _UNREGISTER_CONTROLLER,
    ),
    "describeFeatures": Difference(
        (".finalized.kraft.version", ".supported.kraft.version"), _KRAFT_VERSION, "3.9"
    ),
}

_KAFKA_PYTHON: Final = {
    "describe_metadata_quorum": _QUORUM,
    "describe_features": Difference((".kraft.version",), _KRAFT_VERSION, "3.9"),
    "describe_features send_request_to_controller": Difference(
        (".kraft.version",), _KRAFT_VERSION, "3.9"
    ),
}

DIFFERENCES: Final[Mapping[str, Mapping[str, Difference]]] = {
    "java": _JAVA,
    "confluent-kafka": {},
    "kafka-python": _KAFKA_PYTHON,
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
