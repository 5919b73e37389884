"""The scripts in `bin/` of Kafka's distribution, and the classes that they run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOOLS: Final = "org.apache.kafka.tools"
_CONNECT: Final = "org.apache.kafka.connect"
_TROGDOR: Final = "org.apache.kafka.trogdor"

Address: TypeAlias = Literal["last", "first", "none"]
"""The place of `--bootstrap-server` in a command line; tools with subcommands need it first."""


class Script(NamedTuple):
    """A script that runs a tool."""

    main_class: str
    address: Address = "last"
    address_option: str = "--bootstrap-server"
    subcommands: Mapping[str, str] = MappingProxyType({})
    """First word of a command line → the class that it runs, if there are several."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class that the script runs."""
        return (self.main_class, *self.subcommands.values())

    def class_of(self, words: list[str]) -> tuple[str, list[str]]:
        """Return the class that a command line runs, and its arguments."""
        if not self.subcommands:
            return self.main_class, words
        return self.subcommands[words[0]], words[1:]


SCRIPTS: Final[Mapping[str, Script]] = {
    "connect-internal-topics": Script(f"{_TOOLS}.ConnectInternalTopics", "none"),
    "kafka-acls": Script(f"{_TOOLS}.AclCommand"),
    "kafka-broker-api-versions": Script(f"{_TOOLS}.BrokerApiVersionsCommand"),
    "kafka-client-metrics": Script(f"{_TOOLS}.ClientMetricsCommand"),
    "kafka-cluster": Script(f"{_TOOLS}.ClusterTool"),
    "kafka-configs": Script(f"{_TOOLS}.ConfigCommand"),
    "kafka-console-consumer": Script(f"{_TOOLS}.consumer.ConsoleConsumer"),
    "kafka-console-producer": Script(f"{_TOOLS}.ConsoleProducer"),
    "kafka-console-share-consumer": Script(f"{_TOOLS}.consumer.ConsoleShareConsumer"),
    "kafka-consumer-groups": Script(f"{_TOOLS}.consumer.group.ConsumerGroupCommand"),
    "kafka-consumer-perf-test": Script(f"{_TOOLS}.ConsumerPerformance"),
    "kafka-delegation-tokens": Script(f"{_TOOLS}.DelegationTokenCommand", "none"),
    "kafka-delete-records": Script(f"{_TOOLS}.DeleteRecordsCommand"),
    "kafka-dump-log": Script(f"{_TOOLS}.DumpLogSegments", "none"),
    "kafka-e2e-latency": Script(f"{_TOOLS}.EndToEndLatency", "none"),
    "kafka-features": Script(f"{_TOOLS}.FeatureCommand", "first"),
    "kafka-get-offsets": Script(f"{_TOOLS}.GetOffsetShell"),
    "kafka-groups": Script(f"{_TOOLS}.GroupsCommand"),
    "kafka-leader-election": Script(f"{_TOOLS}.LeaderElectionCommand"),
    "kafka-log-dirs": Script(f"{_TOOLS}.LogDirsCommand"),
    "kafka-metadata-quorum": Script(f"{_TOOLS}.MetadataQuorumCommand", "first"),
    "kafka-metadata-shell": Script("org.apache.kafka.shell.MetadataShell", "none"),
    "kafka-producer-perf-test": Script(f"{_TOOLS}.ProducerPerformance"),
    "kafka-reassign-partitions": Script(f"{_TOOLS}.reassign.ReassignPartitionsCommand"),
    "kafka-replica-verification": Script(
        f"{_TOOLS}.ReplicaVerificationTool", address_option="--broker-list"
    ),
    "kafka-share-consumer-perf-test": Script(f"{_TOOLS}.ShareConsumerPerformance"),
    "kafka-share-groups": Script(f"{_TOOLS}.consumer.group.ShareGroupCommand"),
    "kafka-storage": Script("kafka.tools.StorageTool", "none"),
    "kafka-streams-application-reset": Script(f"{_TOOLS}.StreamsResetter"),
    "kafka-streams-groups": Script(f"{_TOOLS}.streams.StreamsGroupCommand"),
    "kafka-topics": Script(f"{_TOOLS}.TopicCommand"),
    "kafka-transactions": Script(f"{_TOOLS}.TransactionsCommand", "first"),
    "kafka-verifiable-consumer": Script(f"{_TOOLS}.VerifiableConsumer"),
    "kafka-verifiable-producer": Script(f"{_TOOLS}.VerifiableProducer"),
    "kafka-verifiable-share-consumer": Script(f"{_TOOLS}.VerifiableShareConsumer"),
    "trogdor": Script(
        f"{_TROGDOR}.coordinator.Coordinator",
        "none",
        subcommands={
            "agent": f"{_TROGDOR}.agent.Agent",
            "agent-client": f"{_TROGDOR}.agent.AgentClient",
            "client": f"{_TROGDOR}.coordinator.CoordinatorClient",
            "coordinator": f"{_TROGDOR}.coordinator.Coordinator",
        },
    ),
}
"""Scripts that run a tool and end, by name without `.sh`."""


class OtherScript(NamedTuple):
    """A script that is not compared."""

    main_class: str | None
    reason: str


_WORKER: Final = (
    "It starts a worker of Kafka Connect. Other tests run workers, also with the connectors of "
    "MirrorMaker."
)

OTHER_SCRIPTS: Final[Mapping[str, OtherScript]] = {
    "connect-distributed": OtherScript(f"{_CONNECT}.cli.ConnectDistributed", _WORKER),
    "connect-mirror-maker": OtherScript(f"{_CONNECT}.mirror.MirrorMaker", _WORKER),
    "connect-plugin-path": OtherScript(
        f"{_TOOLS}.ConnectPluginPath", "It reads the files of plugins; no broker is involved."
    ),
    "connect-standalone": OtherScript(f"{_CONNECT}.cli.ConnectStandalone", _WORKER),
    "kafka-jmx": OtherScript(
        f"{_TOOLS}.JmxTool", "It reads the metrics of a Java virtual machine; kafkalite has none."
    ),
    "kafka-run-class": OtherScript(None, "The other scripts use it to start Java."),
    "kafka-server-start": OtherScript("kafka.Kafka", "It starts a broker of Kafka."),
    "kafka-server-stop": OtherScript(None, "It sends a signal to brokers of Kafka."),
}
"""Scripts that are not compared, with the reasons."""

CLASSES_WITHOUT_SCRIPT: Final[Mapping[str, str]] = {
    f"{_TOOLS}.ClientCompatibilityTest": "compares clients of several releases",
    f"{_TOOLS}.LogCompactionTester": "waits for the compaction of many records",
    f"{_TOOLS}.OAuthCompatibilityTool": "asks an identity provider, and no broker",
    f"{_TOOLS}.TransactionalMessageCopier": "copies records, with random aborts",
    "kafka.tools.TestRaftServer": "serves a log of Raft without brokers",
}
"""Main classes of the tools that no script runs → what they do."""
