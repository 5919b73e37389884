"""`kafka-run-class`: run the tool of a Java class, also by its names in earlier releases."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkalite.docker.programs import TOOLS
from kafkalite.docker.tools.arguments import FAILED_STATUS
from kafkalite.docker.tools.running import write_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOOLS: Final = "org.apache.kafka.tools."
_TROGDOR: Final = "org.apache.kafka.trogdor."
_GROUPS: Final = f"{_TOOLS}consumer.group."

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "connect-internal-topics": (f"{_TOOLS}ConnectInternalTopics",),
    "kafka-acls": (f"{_TOOLS}AclCommand", "kafka.admin.AclCommand"),
    "kafka-broker-api-versions": (
        f"{_TOOLS}BrokerApiVersionsCommand",
        "kafka.admin.BrokerApiVersionsCommand",
    ),
    "kafka-client-metrics": (f"{_TOOLS}ClientMetricsCommand",),
    "kafka-cluster": (f"{_TOOLS}ClusterTool", "kafka.tools.ClusterTool"),
    "kafka-configs": (f"{_TOOLS}ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-console-consumer": (f"{_TOOLS}consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
    "kafka-console-producer": (f"{_TOOLS}ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-console-share-consumer": (f"{_TOOLS}consumer.ConsoleShareConsumer",),
    "kafka-consumer-groups": (
        f"{_GROUPS}ConsumerGroupCommand",
        "kafka.admin.ConsumerGroupCommand",
    ),
    "kafka-consumer-perf-test": (f"{_TOOLS}ConsumerPerformance", "kafka.tools.ConsumerPerformance"),
    "kafka-delegation-tokens": (
        f"{_TOOLS}DelegationTokenCommand",
        "kafka.admin.DelegationTokenCommand",
    ),
    "kafka-delete-records": (f"{_TOOLS}DeleteRecordsCommand", "kafka.admin.DeleteRecordsCommand"),
    "kafka-dump-log": (f"{_TOOLS}DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-e2e-latency": (f"{_TOOLS}EndToEndLatency", "kafka.tools.EndToEndLatency"),
    "kafka-features": (f"{_TOOLS}FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-get-offsets": (f"{_TOOLS}GetOffsetShell", "kafka.tools.GetOffsetShell"),
    "kafka-groups": (f"{_TOOLS}GroupsCommand",),
    "kafka-leader-election": (
        f"{_TOOLS}LeaderElectionCommand",
        "kafka.admin.LeaderElectionCommand",
    ),
    "kafka-log-dirs": (f"{_TOOLS}LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "kafka-metadata-quorum": (
        f"{_TOOLS}MetadataQuorumCommand",
        "kafka.admin.MetadataQuorumCommand",
    ),
    "kafka-metadata-shell": ("org.apache.kafka.shell.MetadataShell",),
    "kafka-producer-perf-test": (f"{_TOOLS}ProducerPerformance",),
    "kafka-reassign-partitions": (
        f"{_TOOLS}reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-replica-verification": (
        f"{_TOOLS}ReplicaVerificationTool",
        "kafka.tools.ReplicaVerificationTool",
    ),
    "kafka-server-start": ("kafka.Kafka",),
    "kafka-share-consumer-perf-test": (f"{_TOOLS}ShareConsumerPerformance",),
    "kafka-share-groups": (f"{_GROUPS}ShareGroupCommand",),
    "kafka-storage": ("kafka.tools.StorageTool",),
    "kafka-streams-application-reset": (f"{_TOOLS}StreamsResetter", "kafka.tools.StreamsResetter"),
    "kafka-streams-groups": (f"{_TOOLS}streams.StreamsGroupCommand",),
    "kafka-topics": (f"{_TOOLS}TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-transactions": (f"{_TOOLS}TransactionsCommand", "kafka.admin.TransactionsCommand"),
    "kafka-verifiable-consumer": (f"{_TOOLS}VerifiableConsumer",),
    "kafka-verifiable-producer": (f"{_TOOLS}VerifiableProducer",),
    "kafka-verifiable-share-consumer": (f"{_TOOLS}VerifiableShareConsumer",),
    "trogdor": (
        f"{_TROGDOR}coordinator.Coordinator",
        f"{_TROGDOR}agent.Agent",
        f"{_TROGDOR}agent.AgentClient",
        f"{_TROGDOR}coordinator.CoordinatorClient",
    ),
}
"""Tool → its Java classes: that of Kafka 4.4, and those of earlier releases."""

_FLAGS: Final = ("-daemon", "-loggc")
_VALUES: Final = ("-name",)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool of the class in the first argument; return its exit status."""
    rest = list(arguments)
    while rest and rest[0] in (*_FLAGS, *_VALUES):
        del rest[: 2 if rest[0] in _VALUES else 1]
    if not rest:
        write_error(f"USAGE: {name} [-daemon] [-name servicename] [-loggc] classname [opts]")
        return FAILED_STATUS
    for tool, classes in CLASSES.items():
        if rest[0] in classes and tool in TOOLS:
            module = import_module(f"kafkalite.docker.tools.{TOOLS[tool]}")
            status: int = module.main(tool, rest[1:], environment)
            return status
    write_error(f"Error: Could not find or load main class {rest[0]}")
    write_error(f"Caused by: java.lang.ClassNotFoundException: {rest[0]}")
    return FAILED_STATUS
