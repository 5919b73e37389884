"""The command lines of which the image's tools do not print what Kafka's tools print."""

from __future__ import annotations

from typing import Final

from tests.kafka_tools.differences import DIFFERENCES

UNSUPPORTED_TOOLS: Final = frozenset(
    (
        "connect-internal-topics",
        "kafka-metadata-shell",
        "trogdor",
        "kafka-console-share-consumer",
        "kafka-dump-log",
        "kafka-e2e-latency",
        "kafka-reassign-partitions",
        "kafka-replica-verification",
        "kafka-share-consumer-perf-test",
        "kafka-share-groups",
        "kafka-streams-application-reset",
        "kafka-streams-groups",
        "kafka-verifiable-share-consumer",
    )
)
"""Tools that are not in the image."""

OPEN: Final[frozenset[str]] = frozenset((
    "kafka-console-consumer --topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",  # noqa: E501
    "kafka-console-consumer --topic __transaction_state --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",  # noqa: E501
    "kafka-groups --list --share",
    "kafka-groups --list --streams",
    "kafka-metadata-quorum remove-controller --controller-id 7 --controller-directory-id {id}",
    "kafka-metadata-quorum remove-controller --controller-id 7 --controller-directory-id {id} --dry-run",  # noqa: E501
    "kafka-storage format --config {files}/new.properties --cluster-id {id} --standalone",
    "kafka-topics --describe --topic worker-.*",
    "kafka-transactions describe-producers --topic paid --partition 0",
    "kafka-transactions describe-producers --topic paid --partition 0 --broker-id 1",
))  # fmt: skip
"""Command lines whose output differs."""


def is_compared(tool: str, title: str) -> bool:
    """Return whether a command line of a tool must be equal."""
    return tool not in UNSUPPORTED_TOOLS and title not in {*DIFFERENCES, *OPEN}
