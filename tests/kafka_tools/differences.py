"""The command lines whose output differs from that of Kafka, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Difference(NamedTuple):
    """Why the output differs, and the first emulated release of Kafka whose output differs."""

    reason: str
    since: str


_CONTROLLER: Final = Difference("Nodes have no listener for controllers.", "3.7")
_QUORUM: Final = Difference("The APIs of the metadata quorum are not served.", "3.3")
_SETTINGS: Final = Difference("The settings that Kafka 4.4 added are missing.", "4.4")
_STREAMS: Final = Difference("The streams APIs have the versions of Kafka 4.3.", "4.4")
_EPOCH: Final = Difference(
    "Kafka 4.4 also raises the epoch of the target assignment when the last member leaves.", "4.4"
)
_INDEX: Final = Difference(
    "Logs have no index files. Kafka builds them when it opens a data directory.", "3.3"
)
_READ: Final = "{data}/read-0/00000000000000000000"

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "kafka-configs --describe --topic tuned --all": _SETTINGS,
    "kafka-configs --describe --broker 1 --all": _SETTINGS,
    "kafka-configs --describe --group team --all": _SETTINGS,
    "kafka-configs --describe --broker-logger 1": Difference(
        "The loggers are those of Python.", "3.3"
    ),
    "kafka-configs --alter --group team --add-config consumer.session.timeout.ms=1": Difference(
        "The text is that of Kafka 4.3.", "4.4"
    ),
    "kafka-configs --bootstrap-controller {controller} --describe --broker-defaults": _CONTROLLER,
    "kafka-acls --list --bootstrap-controller {controller} --group readers": _CONTROLLER,
    "kafka-consumer-groups --describe --group readers --state --verbose": _EPOCH,
    "kafka-share-groups --describe --group sharers --state --verbose": _EPOCH,
    "kafka-streams-groups --describe --group counter --state --verbose": _STREAMS,
    "kafka-streams-groups --describe --group counter --topology": _STREAMS,
    "kafka-broker-api-versions": Difference(
        "Some APIs of Kafka 4.4 are missing, or have the versions of Kafka 4.3.", "4.4"
    ),
    "kafka-cluster cluster-id --bootstrap-controller {controller}": _CONTROLLER,
    "kafka-cluster list-endpoints --bootstrap-controller {controller}": _CONTROLLER,
    "kafka-features describe": Difference(
        "There is no `kraft.version`, and `share.version` has the level of Kafka 4.3.", "3.9"
    ),
    "kafka-metadata-quorum describe --status": _QUORUM,
    "kafka-metadata-quorum describe --replication": _QUORUM,
    "kafka-metadata-quorum describe --replication --human-readable": _QUORUM,
    "kafka-metadata-quorum remove-controller --controller-id 7"
    " --controller-directory-id {id}": _QUORUM,
    "kafka-metadata-quorum --bootstrap-controller {controller} describe --status": _CONTROLLER,
    f"kafka-dump-log --files {_READ}.index --index-sanity-check": _INDEX,
    f"kafka-dump-log --files {_READ}.timeindex": _INDEX,
}
"""Titles of cases → the difference. All other command lines have the output of Kafka."""
