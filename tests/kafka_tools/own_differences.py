"""The command lines of which the image's tools do not print what Kafka's tools print."""

from __future__ import annotations

from typing import Final

from tests.kafka_tools.differences import DIFFERENCES

UNSUPPORTED_TOOLS: Final = frozenset(
    (
        "connect-internal-topics",
        "kafka-metadata-shell",
        "trogdor",
        "kafka-client-metrics",
        "kafka-console-share-consumer",
        "kafka-consumer-perf-test",
        "kafka-delegation-tokens",
        "kafka-dump-log",
        "kafka-e2e-latency",
        "kafka-features",
        "kafka-producer-perf-test",
        "kafka-reassign-partitions",
        "kafka-replica-verification",
        "kafka-share-consumer-perf-test",
        "kafka-share-groups",
        "kafka-streams-application-reset",
        "kafka-streams-groups",
        "kafka-transactions",
        "kafka-verifiable-consumer",
        "kafka-verifiable-producer",
        "kafka-verifiable-share-consumer",
    )
)
"""Tools that are not in the image."""

OPEN: Final[frozenset[str]] = frozenset((
    "kafka-acls --add --allow-principal User:ann --operation Read",
    "kafka-acls --add --allow-principal User:cem --consumer --topic made --group readers",
    "kafka-acls --add --allow-principal User:cem --producer --topic made --idempotent",
    "kafka-acls --add --allow-principal User:dan --operation CreateTokens --user-principal User:ann",  # noqa: E501
    "kafka-acls --add --allow-principal User:dan --operation Read --cluster",
    "kafka-acls --add --allow-principal User:dan --operation TwoPhaseCommit --transactional-id tx",
    "kafka-acls --list",
    "kafka-acls --list --bootstrap-controller {controller} --group readers",
    "kafka-acls --list --group my-own --resource-pattern-type match",
    "kafka-acls --list --principal User:dan",
    "kafka-acls --list --topic made",
    "kafka-configs --alter --broker 1 --add-config node.id=2",
    "kafka-configs --alter --broker 1 --add-config num.partitions=2",
    "kafka-configs --alter --broker-defaults --add-config log.retention.ms=900000",
    "kafka-configs --alter --broker-defaults --delete-config log.retention.ms",
    "kafka-configs --alter --broker-logger 1 --add-config kafka.no.Such=DEBUG",
    "kafka-configs --alter --broker-logger 1 --add-config root=LOUD",
    "kafka-configs --alter --client-defaults --add-config consumer_byte_rate=4096",
    "kafka-configs --alter --client-defaults --delete-config consumer_byte_rate",
    "kafka-configs --alter --client-metrics all --add-config interval.ms=30000",
    "kafka-configs --alter --client-metrics all --add-config match=[no_such_key=1]",
    "kafka-configs --alter --client-metrics all --delete-config interval.ms",
    "kafka-configs --alter --group sharers --add-config share.auto.offset.reset=earliest",
    "kafka-configs --alter --group team --add-config consumer.session.timeout.ms=1",
    "kafka-configs --alter --group team --add-config consumer.session.timeout.ms=46000",
    "kafka-configs --alter --group team --delete-config consumer.session.timeout.ms",
    "kafka-configs --alter --ip 127.0.0.9 --add-config connection_creation_rate=10",
    "kafka-configs --alter --ip no.such.host --add-config connection_creation_rate=10",
    "kafka-configs --alter --ip-defaults --add-config connection_creation_rate=99",
    "kafka-configs --alter --ip-defaults --delete-config connection_creation_rate",
    "kafka-configs --alter --topic no-such-topic --add-config retention.ms=1",
    "kafka-configs --alter --topic tuned --add-config no.such.setting=1",
    "kafka-configs --alter --topic tuned --add-config retention.ms=soon",
    "kafka-configs --alter --topic tuned --add-config-file {files}/settings.properties",
    "kafka-configs --alter --user ann --add-config SCRAM-SHA-256=[iterations=1,password=s]",
    "kafka-configs --alter --user ann --add-config no_such_rate=5",
    "kafka-configs --alter --user ann --add-config producer_byte_rate=-5",
    "kafka-configs --alter --user ann --add-config producer_byte_rate=1024",
    "kafka-configs --alter --user ann --client app --add-config request_percentage=50",
    "kafka-configs --alter --user ann --client app --delete-config request_percentage",
    "kafka-configs --alter --user ann --delete-config SCRAM-SHA-256",
    "kafka-configs --alter --user ann --delete-config SCRAM-SHA-256,SCRAM-SHA-512",
    "kafka-configs --alter --user ann --delete-config SCRAM-SHA-512",
    "kafka-configs --alter --user ann --delete-config producer_byte_rate",
    "kafka-configs --alter --user-defaults --add-config consumer_byte_rate=2048",
    "kafka-configs --alter --user-defaults --delete-config consumer_byte_rate",
    "kafka-configs --bootstrap-controller {controller} --describe --broker-defaults",
    "kafka-configs --describe --broker 7",
    "kafka-configs --describe --broker-defaults",
    "kafka-configs --describe --client-defaults",
    "kafka-configs --describe --client-metrics all",
    "kafka-configs --describe --entity-type groups",
    "kafka-configs --describe --entity-type ips",
    "kafka-configs --describe --entity-type topics --entity-name tuned",
    "kafka-configs --describe --entity-type users",
    "kafka-configs --describe --entity-type users --entity-type clients",
    "kafka-configs --describe --group team",
    "kafka-configs --describe --group team --all",
    "kafka-configs --describe --ip 127.0.0.9",
    "kafka-configs --describe --topic no-such-topic",
    "kafka-configs --describe --user ann",
    "kafka-console-consumer --topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",  # noqa: E501
    "kafka-console-consumer --topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter",  # noqa: E501
    "kafka-console-consumer --topic __transaction_state --group peeking --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",  # noqa: E501
    "kafka-console-consumer --topic read --group active-classic --from-beginning --command-property group.protocol=classic --command-property client.id=reader --command-property auto.commit.interval.ms=200",  # noqa: E501
    "kafka-consumer-groups --delete-offsets --group active-classic --topic read",
    "kafka-consumer-groups --delete-offsets --group active-consumer --topic read",
    "kafka-consumer-groups --delete-offsets --group no-such-group --topic rewound",
    "kafka-consumer-groups --delete-offsets --group rewinders --topic no-such-topic",
    "kafka-consumer-groups --delete-offsets --group rewinders --topic rewound:0",
    "kafka-consumer-groups --describe --group active-classic --members --verbose",
    "kafka-consumer-groups --describe --group active-classic --state --verbose",
    "kafka-consumer-groups --describe --group active-classic --verbose",
    "kafka-consumer-groups --describe --group active-consumer --members --verbose",
    "kafka-consumer-groups --describe --group active-consumer --state --verbose",
    "kafka-consumer-groups --describe --group active-consumer --verbose",
    "kafka-consumer-groups --describe --group classic-readers --offsets --verbose",
    "kafka-consumer-groups --describe --group no-such-group",
    "kafka-consumer-groups --describe --group no-such-group --members",
    "kafka-consumer-groups --describe --group readers --state --verbose",
    "kafka-consumer-groups --reset-offsets --group rewinders --topic no-such-topic --to-latest --execute",  # noqa: E501
    "kafka-consumer-groups --reset-offsets --group rewinders --topic rewound --by-duration PT1S --dry-run",  # noqa: E501
    "kafka-consumer-groups --reset-offsets --group rewinders --topic rewound --from-file {files}/reset.csv --execute",  # noqa: E501
    "kafka-consumer-groups --validate-regex read.*",
    "kafka-delete-records --offset-json-file {files}/delete-too-much.json",
    "kafka-groups --list --share",
    "kafka-groups --list --streams",
    "kafka-metadata-quorum remove-controller --controller-id 7 --controller-directory-id {id}",
    "kafka-metadata-quorum remove-controller --controller-id 7 --controller-directory-id {id} --dry-run",  # noqa: E501
    "kafka-storage feature-dependencies --feature transaction.version=2",
    "kafka-storage format --config {files}/new.properties --cluster-id {id} --standalone",
    "kafka-storage format --config {files}/server.properties --cluster-id {id} --standalone",
    "kafka-storage format --config {files}/server.properties --cluster-id {id} --standalone --ignore-formatted",  # noqa: E501
    "kafka-storage info --config {files}/new.properties",
    "kafka-storage info --config {files}/server.properties",
    "kafka-storage version-mapping",
    "kafka-topics --alter --topic made --partitions 6 --replica-assignment 1,1,1,1,1,9",
    "kafka-topics --alter --topic no-such-topic --partitions 4",
    "kafka-topics --create --topic ... --if-not-exists",
    "kafka-topics --create --topic bad --partitions 0",
    "kafka-topics --create --topic placed --replica-assignment 1,1",
    "kafka-topics --create --topic unplaced --replica-assignment 9",
    "kafka-topics --create --topic with.dots",
    "kafka-topics --create --topic with_dots",
    "kafka-topics --describe --at-min-isr-partitions --topic made",
    "kafka-topics --describe --topic made",
    "kafka-topics --describe --topic made --partition-size-limit-per-response 1",
    "kafka-topics --describe --topic worker-.*",
    "kafka-topics --describe --topic-id {id}",
    "kafka-topics --describe --topics-with-overrides --exclude-internal",
    "kafka-topics --describe --under-min-isr-partitions",
    "kafka-topics --list",
    "kafka-topics --list --exclude-internal",
    "kafka-topics --version",
))  # fmt: skip
"""Command lines whose output differs."""


def is_compared(tool: str, title: str) -> bool:
    """Return whether a command line of a tool must be equal."""
    return tool not in UNSUPPORTED_TOOLS and title not in {*DIFFERENCES, *OPEN}
