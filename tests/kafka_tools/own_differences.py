"""The command lines of which the image's tools do not print what Kafka's tools print."""

from __future__ import annotations

from typing import Final

from kafkalite.docker.tools.absent import REASONS
from tests.kafka_tools.differences import DIFFERENCES
from tests.kafka_tools.scripts import SCRIPTS

UNSUPPORTED_TOOLS: Final = frozenset(REASONS) & SCRIPTS.keys()
"""Tools that are not in the image."""

OPEN: Final[frozenset[str]] = frozenset((
    "kafka-console-consumer --topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",  # noqa: E501
    "kafka-console-consumer --topic __transaction_state --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",  # noqa: E501
    "kafka-dump-log --cluster-metadata-decoder --skip-record-metadata --files {data}/__cluster_metadata-0/00000000000000000000.log",  # noqa: E501
    "kafka-dump-log --files {data}/paid-0/00000000000000000000.log",
    "kafka-dump-log --files {data}/read-0/00000000000000000000.log",
    "kafka-dump-log --files {data}/read-0/00000000000000000000.log --print-data-log --deep-iteration",  # noqa: E501
    "kafka-dump-log --files {data}/read-0/00000000000000000000.log --print-data-log --skip-record-metadata",  # noqa: E501
    "kafka-share-groups --describe --all-groups --state",
    "kafka-storage format --config {files}/new.properties --cluster-id {id} --standalone",
    "kafka-topics --describe --topic worker-.*",
    "kafka-transactions describe-producers --topic paid --partition 0",
    "kafka-transactions describe-producers --topic paid --partition 0 --broker-id 1",
))  # fmt: skip
"""Command lines whose output differs.

Most depend on the producer or the consumer that wrote what they show: that of this project is not
idempotent, uses transactions of version 1, and has shorter timeouts. Others need applications in
Java, or topics and groups that a tool outside of the image has created or deleted.
"""


def is_compared(tool: str, title: str) -> bool:
    """Return whether a command line of a tool must be equal."""
    return tool not in UNSUPPORTED_TOOLS and title not in {*DIFFERENCES, *OPEN}
