"""The command lines that run with kafkalite and with a real Kafka, in this order."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from tests.conformance.scenarios.configs import OWN_KEYS, PLACES
from tests.kafka_tools.case import Case

if TYPE_CHECKING:
    from collections.abc import Mapping

_JAAS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _offsets_plan(topic: str, offset: int) -> str:
    partition = {"topic": topic, "partition": 0, "offset": offset}
    return json.dumps({"version": 1, "partitions": [partition]})


def _moves(topic: str, replicas: list[int]) -> str:
    partition = {"topic": topic, "partition": 0, "replicas": replicas}
    return json.dumps({"version": 1, "partitions": [partition]})


def _workload(name: str, **fields: object) -> str:
    """Return the specification of a task of Trogdor."""
    specification = {
        "class": f"org.apache.kafka.trogdor.workload.{name}",
        "durationMs": 600_000,
        "bootstrapServers": "{bootstrap}",
        **fields,
    }
    return json.dumps(specification)


_BENCH_RECORDS: Final = 400
_NODE: Final = {"clientNode": "node0"}
_RATE: Final = {"targetMessagesPerSec": 10_000}
_TWO_PARTITIONS: Final = {"numPartitions": 2, "replicationFactor": 1}

FILES: Final[Mapping[str, str]] = {
    "alice.properties": (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_JAAS} required username="alice" password="alice-secret";\n'
    ),
    "server.properties": (
        "process.roles=broker,controller\nnode.id=1\nlog.dirs={data}\n"
        "controller.quorum.bootstrap.servers=localhost:1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:1\n"
    ),
    "new.properties": (
        "process.roles=broker,controller\nnode.id=1\nlog.dirs={files}/new\n"
        "controller.quorum.bootstrap.servers=localhost:1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:1\n"
    ),
    "worker.properties": (
        "bootstrap.servers={bootstrap}\ngroup.id=workers\n"
        "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "config.storage.topic=worker-configs\nconfig.storage.replication.factor=1\n"
        "offset.storage.topic=worker-offsets\noffset.storage.replication.factor=1\n"
        "offset.storage.partitions=2\n"
        "status.storage.topic=worker-status\nstatus.storage.replication.factor=1\n"
        "status.storage.partitions=2\n"
    ),
    "settings.properties": "retention.ms=7000\nsegment.bytes=1048576\n",
    "delete.json": _offsets_plan("measured", 2),
    "delete-too-much.json": _offsets_plan("measured", 99),
    "election.json": json.dumps({"partitions": [{"topic": "measured", "partition": 0}]}),
    "topics.json": json.dumps({"version": 1, "topics": [{"topic": "moved"}]}),
    "moves.json": _moves("moved", [1]),
    "moves-to-unknown.json": _moves("moved", [7]),
    "moves-of-unknown.json": _moves("no-such-topic", [1]),
    "reset.csv": "rewound,0,1\n",
    "trogdor.json": json.dumps(
        {
            "platform": "org.apache.kafka.trogdor.basic.BasicPlatform",
            "nodes": {
                "node0": {
                    "hostname": "localhost",
                    "trogdor.agent.port": 0,
                }
            },
        }
    ),
    "produce.json": _workload(
        "ProduceBenchSpec",
        producerNode="node0",
        maxMessages=_BENCH_RECORDS,
        activeTopics={"bench[1-2]": _TWO_PARTITIONS},
        inactiveTopics={"idle": {"numPartitions": 1, "replicationFactor": 1}},
        **_RATE,
    ),
    "produce-in-transactions.json": _workload(
        "ProduceBenchSpec",
        producerNode="node0",
        maxMessages=200,
        transactionGenerator={"type": "uniform", "messagesPerTransaction": 50},
        activeTopics={"bench-paid": _TWO_PARTITIONS},
        **_RATE,
    ),
    "consume.json": _workload(
        "ConsumeBenchSpec",
        consumerNode="node0",
        consumerGroup="bench-readers",
        maxMessages=_BENCH_RECORDS,
        activeTopics=["bench[1-2]"],
        consumerConf={"auto.offset.reset": "earliest", "isolation.level": "read_committed"},
        **_RATE,
    ),
    "consume-partitions.json": _workload(
        "ConsumeBenchSpec",
        consumerNode="node0",
        consumerGroup="bench-assigned",
        maxMessages=_BENCH_RECORDS,
        activeTopics=["bench[1-2]:[0-1]"],
        consumerConf={"group.protocol": "consumer"},
        **_RATE,
    ),
    "share.json": _workload(
        "ShareConsumeBenchSpec",
        consumerNode="node0",
        shareGroup="bench-sharers",
        maxMessages=_BENCH_RECORDS,
        activeTopics=["bench[1-2]"],
        **_RATE,
    ),
    "round-trip.json": _workload(
        "RoundTripWorkloadSpec",
        maxMessages=100,
        activeTopics={"round-trip": _TWO_PARTITIONS},
        **_NODE,
        **_RATE,
    ),
    "connections.json": _workload(
        "ConnectionStressSpec",
        durationMs=1_000,
        targetConnectionsPerSec=50,
        numThreads=1,
        action="FETCH_METADATA",
        **_NODE,
    ),
    "invalid-topic.json": _workload(
        "ProduceBenchSpec",
        producerNode="node0",
        maxMessages=1,
        activeTopics={"no/name": _TWO_PARTITIONS},
        **_RATE,
    ),
}
"""The files that tools read, in `{files}`."""

_OWN_SETTINGS: Final = "^(" + "|".join(re.escape(key) for key in sorted(OWN_KEYS | PLACES)) + ")="
_NOT_A_CHANGE: Final = (
    '"resourceType":4|^(?!.*"(TOPIC|REMOVE_TOPIC|CONFIG|CLIENT_QUOTA|ACCESS_CONTROL_ENTRY)_RECORD")'
)
_LISTENERS: Final = (
    r"^(listener\.name\..*|inter\.broker\.listener\.name|sasl\.enabled\.mechanisms)="
)


def _hidden(tool: str, command: str, text: str = "", *, until: str = "", stops: str = "") -> Case:
    """Return a case that prepares others."""
    return Case(tool, command, text, until=until, stops=stops, is_shown=False)


def _started(name: str, tool: str, command: str, until: str = "") -> Case:
    """Start a tool that runs until the case that stops this name."""
    return Case(tool, command, background=name, until=until, is_shown=False)


def _records(topic: str, partitions: int = 1, count: int = 5) -> list[Case]:
    """Prepare a topic with records."""
    lines = "".join(f"key-{number}:value-{number}\n" for number in range(count))
    return [
        _hidden("kafka-topics", f"--create --topic {topic} --partitions {partitions}"),
        _hidden(
            "kafka-console-producer",
            f"--topic {topic} --reader-property parse.key=true --reader-property key.separator=:",
            lines,
        ),
    ]


TOPICS: Final = [
    Case("kafka-topics", "--create --topic made --partitions 3 --config retention.ms=1000"),
    Case("kafka-topics", "--create --topic made"),
    Case("kafka-topics", "--create --topic made --if-not-exists"),
    Case("kafka-topics", "--create --topic placed --replica-assignment 1,1"),
    Case("kafka-topics", "--create --topic too-many --replication-factor 3"),
    Case("kafka-topics", "--create --topic unplaced --replica-assignment 9"),
    Case("kafka-topics", "--create --topic no/name"),
    Case("kafka-topics", "--create --topic ... --if-not-exists"),
    Case("kafka-topics", "--create --topic bad --config retention.ms=soon"),
    Case("kafka-topics", "--create --topic bad --config no.such.setting=1"),
    Case("kafka-topics", "--create --topic bad --partitions 0"),
    Case("kafka-topics", "--create --topic with.dots"),
    Case("kafka-topics", "--create --topic with_dots"),
    Case("kafka-topics", "--list"),
    Case("kafka-topics", "--list --exclude-internal"),
    Case("kafka-topics", "--list --topic ma.*"),
    Case("kafka-topics", "--describe --topic made"),
    Case("kafka-topics", "--describe --topic made --partition-size-limit-per-response 1"),
    Case("kafka-topics", "--describe --topics-with-overrides --exclude-internal", unordered=True),
    Case("kafka-topics", "--describe --unavailable-partitions"),
    Case("kafka-topics", "--describe --under-replicated-partitions"),
    Case("kafka-topics", "--describe --under-min-isr-partitions"),
    Case("kafka-topics", "--describe --at-min-isr-partitions --topic made"),
    Case("kafka-topics", "--describe --topic no-such-topic"),
    Case("kafka-topics", "--describe --topic no-such-topic --if-exists"),
    Case("kafka-topics", "--describe --topic-id {id}"),
    Case("kafka-topics", "--alter --topic made --partitions 5"),
    Case("kafka-topics", "--alter --topic made --partitions 4"),
    Case("kafka-topics", "--alter --topic made --partitions 6 --replica-assignment 1,1,1,1,1,9"),
    Case("kafka-topics", "--alter --topic no-such-topic --partitions 4"),
    Case("kafka-topics", "--alter --topic no-such-topic --partitions 4 --if-exists"),
    Case("kafka-topics", "--delete --topic made"),
    Case("kafka-topics", "--delete --topic no-such-topic"),
    Case("kafka-topics", "--delete --topic no-such-topic --if-exists"),
    Case("kafka-topics", "--version"),
    Case("connect-internal-topics", "create --worker-config {files}/worker.properties"),
    Case("kafka-topics", "--describe --topic worker-.*"),
]

CONFIGS: Final = [
    _hidden("kafka-topics", "--create --topic tuned --partitions 1"),
    Case(
        "kafka-configs",
        "--alter --topic tuned --add-config retention.ms=5000,cleanup.policy=[compact,delete]",
    ),
    Case("kafka-configs", "--describe --topic tuned"),
    Case("kafka-configs", "--describe --topic tuned --all"),
    Case("kafka-configs", "--alter --topic tuned --delete-config retention.ms"),
    Case("kafka-configs", "--alter --topic tuned --delete-config no.such.setting"),
    Case("kafka-configs", "--alter --topic tuned --add-config no.such.setting=1"),
    Case("kafka-configs", "--alter --topic tuned --add-config retention.ms=soon"),
    Case("kafka-configs", "--alter --topic no-such-topic --add-config retention.ms=1"),
    Case("kafka-configs", "--alter --topic tuned --add-config-file {files}/settings.properties"),
    Case("kafka-configs", "--describe --entity-type topics --entity-name tuned"),
    Case("kafka-configs", "--describe --topic no-such-topic"),
    Case("kafka-configs", "--describe --broker 1"),
    Case("kafka-configs", "--describe --broker 1 --all", without=f"{_OWN_SETTINGS}|{_LISTENERS}"),
    Case("kafka-configs", "--describe --broker 7"),
    Case("kafka-configs", "--alter --broker 1 --add-config log.cleaner.backoff.ms=20000"),
    Case("kafka-configs", "--alter --broker 1 --add-config num.partitions=2"),
    Case("kafka-configs", "--alter --broker 1 --add-config node.id=2"),
    Case("kafka-configs", "--alter --broker-defaults --add-config log.retention.ms=900000"),
    Case("kafka-configs", "--describe --broker-defaults"),
    Case("kafka-configs", "--describe --broker 1"),
    Case("kafka-configs", "--alter --broker 1 --delete-config log.cleaner.backoff.ms"),
    Case("kafka-configs", "--alter --broker-defaults --delete-config log.retention.ms"),
    Case("kafka-configs", "--describe --broker-defaults"),
    Case("kafka-configs", "--describe --broker-logger 1"),
    Case("kafka-configs", "--alter --broker-logger 1 --add-config kafka.no.Such=DEBUG"),
    Case("kafka-configs", "--alter --broker-logger 1 --add-config root=LOUD"),
    Case("kafka-configs", "--alter --user ann --add-config producer_byte_rate=1024"),
    Case("kafka-configs", "--alter --user ann --client app --add-config request_percentage=50"),
    Case("kafka-configs", "--alter --user-defaults --add-config consumer_byte_rate=2048"),
    Case("kafka-configs", "--alter --client-defaults --add-config consumer_byte_rate=4096"),
    Case("kafka-configs", "--alter --ip 127.0.0.9 --add-config connection_creation_rate=10"),
    Case("kafka-configs", "--alter --ip-defaults --add-config connection_creation_rate=99"),
    Case("kafka-configs", "--alter --ip no.such.host --add-config connection_creation_rate=10"),
    Case("kafka-configs", "--alter --user ann --add-config producer_byte_rate=-5"),
    Case("kafka-configs", "--alter --user ann --add-config no_such_rate=5"),
    Case("kafka-configs", "--alter --user ann --add-config SCRAM-SHA-256=[password=secret]"),
    Case(
        "kafka-configs",
        "--alter --user ann --add-config SCRAM-SHA-512=[iterations=4096,password=secret]",
    ),
    Case(
        "kafka-configs", "--alter --user ann --add-config SCRAM-SHA-256=[iterations=1,password=s]"
    ),
    Case("kafka-configs", "--alter --user ann --delete-config SCRAM-SHA-512"),
    Case("kafka-configs", "--describe --user ann"),
    Case("kafka-configs", "--describe --entity-type users", unordered=True),
    Case("kafka-configs", "--describe --entity-type users --entity-type clients", unordered=True),
    Case("kafka-configs", "--describe --client-defaults"),
    Case("kafka-configs", "--describe --entity-type ips", unordered=True),
    Case("kafka-configs", "--describe --ip 127.0.0.9"),
    Case("kafka-configs", "--alter --user ann --delete-config producer_byte_rate"),
    Case("kafka-configs", "--alter --user ann --delete-config SCRAM-SHA-256"),
    Case("kafka-configs", "--alter --user ann --delete-config SCRAM-SHA-256,SCRAM-SHA-512"),
    Case("kafka-configs", "--describe --user ann"),
    Case("kafka-configs", "--alter --user ann --client app --delete-config request_percentage"),
    Case("kafka-configs", "--alter --user-defaults --delete-config consumer_byte_rate"),
    Case("kafka-configs", "--alter --client-defaults --delete-config consumer_byte_rate"),
    Case("kafka-configs", "--alter --ip-defaults --delete-config connection_creation_rate"),
    Case("kafka-configs", "--alter --group team --add-config consumer.session.timeout.ms=46000"),
    Case("kafka-configs", "--alter --group team --add-config consumer.session.timeout.ms=1"),
    Case("kafka-configs", "--describe --group team"),
    Case("kafka-configs", "--describe --group team --all"),
    Case("kafka-configs", "--describe --entity-type groups"),
    Case("kafka-configs", "--alter --group team --delete-config consumer.session.timeout.ms"),
    Case("kafka-configs", "--alter --client-metrics all --add-config interval.ms=30000"),
    Case("kafka-configs", "--alter --client-metrics all --add-config match=[no_such_key=1]"),
    Case("kafka-configs", "--describe --client-metrics all"),
    Case("kafka-configs", "--alter --client-metrics all --delete-config interval.ms"),
    Case("kafka-configs", "--bootstrap-controller {controller} --describe --broker-defaults"),
]

ACLS: Final = [
    Case("kafka-acls", "--add --allow-principal User:ann --operation Read --topic made"),
    Case(
        "kafka-acls",
        "--add --deny-principal User:bob --deny-host 10.0.0.1 --operation Write --topic made",
    ),
    Case(
        "kafka-acls",
        "--add --allow-principal User:cem --producer --topic made --idempotent",
        unordered=True,
    ),
    Case(
        "kafka-acls",
        "--add --allow-principal User:cem --consumer --topic made --group readers",
        unordered=True,
    ),
    Case(
        "kafka-acls",
        "--add --allow-principal User:dan --operation Describe --group my-"
        " --resource-pattern-type prefixed",
    ),
    Case("kafka-acls", "--add --allow-principal User:dan --operation Alter --cluster"),
    Case("kafka-acls", "--add --allow-principal User:dan --operation All --transactional-id tx"),
    Case(
        "kafka-acls",
        "--add --allow-principal User:dan --operation TwoPhaseCommit --transactional-id tx",
    ),
    Case(
        "kafka-acls",
        "--add --allow-principal User:dan --operation CreateTokens --user-principal User:ann",
    ),
    Case("kafka-acls", "--add --allow-principal User:dan --operation Read --cluster"),
    Case("kafka-acls", "--add --allow-principal User:ann --operation Read"),
    Case("kafka-acls", "--list", unordered=True),
    Case("kafka-acls", "--list --topic made", unordered=True),
    Case("kafka-acls", "--list --principal User:dan", unordered=True),
    Case("kafka-acls", "--list --group my-own --resource-pattern-type match", unordered=True),
    Case("kafka-acls", "--remove --force --allow-principal User:ann --operation Read --topic made"),
    Case("kafka-acls", "--remove --force --topic made"),
    Case("kafka-acls", "--remove --force --cluster", unordered=True),
    Case("kafka-acls", "--list --topic made", unordered=True),
    Case(
        "kafka-acls", "--list --bootstrap-controller {controller} --group readers", unordered=True
    ),
]

TOKENS: Final = [
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties"
        " --create --max-life-time-period -1 --renewer-principal User:bob",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties"
        " --create --max-life-time-period -1 --owner-principal User:bob",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties --describe",
        until="TOKENID",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties"
        " --describe --owner-principal User:zoe",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties"
        " --renew --renew-time-period -1 --hmac AAAA",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {sasl} --command-config {files}/alice.properties"
        " --expire --expiry-time-period -1 --hmac AAAA",
    ),
    Case(
        "kafka-delegation-tokens",
        "--bootstrap-server {bootstrap} --command-config {files}/settings.properties"
        " --create --max-life-time-period -1",
    ),
]

_NOT_EXACT: Final = r'Ms" : |totalConnections|connectsPerSec|glassfish|^WARNING:'
_CONSUMED: Final = rf'{_NOT_EXACT}|"subscription" : '  # a set
_CONSUMING: Final = ("consume", "consume-partitions", "share")


def _task(name: str) -> Case:
    """Return a case of an agent of Trogdor that carries out one task."""
    command = f"agent -c {{files}}/trogdor.json -n node0 --exec {{files}}/{name}.json"
    return Case("trogdor", command, without=_NOT_EXACT)


STARTED_TASKS: Final = [
    _task("produce"),
    _hidden(
        "kafka-configs",
        "--alter --group bench-sharers --add-config share.auto.offset.reset=earliest",
    ),
    # A task that consumes needs a minute: Trogdor looks at its consumers once a minute.
    *(_task(name)._replace(background=name, is_shown=False) for name in _CONSUMING),
    _task("round-trip"),
    _task("connections"),
    _task("invalid-topic"),
]
ENDED_TASKS: Final = [
    _task("produce-in-transactions"),
    *(
        _task(name)._replace(stops=name, until="Task (succeeded|failed)", without=_CONSUMED)
        for name in _CONSUMING
    ),
]

RECORDS: Final = [
    *_records("measured", 2),
    Case(
        "kafka-console-producer",
        "--topic measured --reader-property parse.key=true --reader-property parse.headers=true"
        " --compression-codec gzip --sync",
        "h:1\tkey\tvalue\n",
    ),
    Case("kafka-console-producer", "--topic no/name", "a\n"),
    Case(
        "kafka-console-producer",
        "--topic measured --command-property acks=0 --batch-size 100",
        "a\nb\n",
    ),
    *_records("read"),
    Case(
        "kafka-console-consumer",
        "--topic read --from-beginning --max-messages 3 --formatter-property print.key=true"
        " --formatter-property print.offset=true --formatter-property print.partition=true"
        " --formatter-property print.timestamp=true --formatter-property print.headers=true"
        " --formatter-property print.epoch=true",
    ),
    Case(
        "kafka-console-consumer",
        "--topic read --partition 0 --offset 2 --max-messages 2 --isolation-level read_committed",
    ),
    Case("kafka-console-consumer", "--topic read --partition 0 --offset latest --timeout-ms 300"),
    Case("kafka-console-consumer", "--topic read --partition 9 --offset 0 --timeout-ms 500"),
    Case("kafka-console-consumer", "--include re.d --from-beginning --max-messages 5"),
    Case(
        "kafka-console-consumer",
        "--topic read --group classic-readers --from-beginning --max-messages 2",
    ),
    Case(
        "kafka-console-consumer",
        "--topic read --group readers --from-beginning --max-messages 2"
        " --command-property group.protocol=consumer",
    ),
    Case(
        "kafka-console-consumer",
        "--topic read --group readers --max-messages 1"
        " --command-property group.protocol=consumer --enable-systest-events",
        figures=True,
    ),
    Case(
        "kafka-console-consumer",
        "--topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500"
        " --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        unordered=True,
        without="^Processed",
    ),
    Case(
        "kafka-console-consumer",
        "--topic __consumer_offsets --group peeking --from-beginning --timeout-ms 1500"
        " --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
        unordered=True,
        without="^Processed",
    ),
    *_records("single", count=1),
    Case("kafka-get-offsets", "--topic measured", figures=True),
    Case("kafka-get-offsets", "--topic read"),
    Case("kafka-get-offsets", "--topic read --time earliest"),
    Case("kafka-get-offsets", "--topic single --time max-timestamp"),
    Case("kafka-get-offsets", "--topic read --time earliest-local"),
    Case("kafka-get-offsets", "--topic read --time latest-tiered"),
    Case("kafka-get-offsets", "--topic read --time earliest-pending-upload"),
    Case("kafka-get-offsets", "--topic read --time 0"),
    Case("kafka-get-offsets", "--topic-partitions read:0,measured:0-1 --time earliest"),
    Case("kafka-get-offsets", "--topic read --partitions 0"),
    Case("kafka-get-offsets", "--topic no-such-topic"),
    Case("kafka-get-offsets", "--exclude-internal-topics --topic re.*"),
    Case("kafka-log-dirs", "--describe --topic-list read"),
    Case("kafka-log-dirs", "--describe --topic-list read --broker-list 1"),
    Case("kafka-log-dirs", "--describe --topic-list no-such-topic"),
    Case("kafka-log-dirs", "--describe --broker-list 7"),
    Case("kafka-delete-records", "--offset-json-file {files}/delete.json", figures=True),
    Case("kafka-delete-records", "--offset-json-file {files}/delete-too-much.json"),
    Case("kafka-get-offsets", "--topic measured --time earliest", figures=True),
    Case("kafka-leader-election", "--election-type preferred --topic read --partition 0"),
    Case("kafka-leader-election", "--election-type unclean --topic read --partition 0"),
    Case("kafka-leader-election", "--election-type preferred --topic read --partition 9"),
    Case("kafka-leader-election", "--election-type preferred --topic no-such-topic --partition 0"),
    Case(
        "kafka-leader-election",
        "--election-type preferred --path-to-json-file {files}/election.json",
    ),
    Case(
        "kafka-leader-election", "--election-type preferred --all-topic-partitions", unordered=True
    ),
    *_records("moved"),
    Case(
        "kafka-reassign-partitions",
        "--generate --topics-to-move-json-file {files}/topics.json --broker-list 1",
    ),
    Case("kafka-reassign-partitions", "--execute --reassignment-json-file {files}/moves.json"),
    Case("kafka-reassign-partitions", "--verify --reassignment-json-file {files}/moves.json"),
    Case("kafka-reassign-partitions", "--list"),
    Case("kafka-reassign-partitions", "--cancel --reassignment-json-file {files}/moves.json"),
    Case(
        "kafka-reassign-partitions",
        "--execute --reassignment-json-file {files}/moves-to-unknown.json",
    ),
    Case(
        "kafka-reassign-partitions",
        "--execute --reassignment-json-file {files}/moves-of-unknown.json",
    ),
    Case(
        "kafka-reassign-partitions",
        "--execute --throttle 100000 --reassignment-json-file {files}/moves.json",
    ),
    Case(
        "kafka-reassign-partitions",
        "--verify --reassignment-json-file {files}/moves.json --bootstrap-controller {controller}",
    ),
]


def _active(protocol: str) -> str:
    return (
        f"--topic read --group active-{protocol} --from-beginning"
        f" --command-property group.protocol={protocol} --command-property client.id=reader"
        " --command-property auto.commit.interval.ms=200"
    )


GROUPS: Final = [
    Case("kafka-consumer-groups", "--list", unordered=True),
    Case("kafka-consumer-groups", "--list --state", unordered=True),
    Case("kafka-consumer-groups", "--list --type consumer", unordered=True),
    Case("kafka-consumer-groups", "--list --state Stable --type classic"),
    Case("kafka-groups", "--list", unordered=True),
    Case("kafka-groups", "--list --group-type classic", unordered=True),
    Case("kafka-groups", "--list --consumer", unordered=True),
    Case("kafka-groups", "--list --protocol consumer", unordered=True),
    Case("kafka-consumer-groups", "--describe --group readers"),
    Case("kafka-consumer-groups", "--describe --group readers --state"),
    Case("kafka-consumer-groups", "--describe --group readers --state --verbose"),
    Case("kafka-consumer-groups", "--describe --group readers --members"),
    Case("kafka-consumer-groups", "--describe --group classic-readers --offsets --verbose"),
    Case("kafka-consumer-groups", "--describe --group classic-readers --state"),
    Case("kafka-consumer-groups", "--describe --group no-such-group"),
    Case("kafka-consumer-groups", "--describe --group no-such-group --members"),
    Case(
        "kafka-consumer-groups",
        "--describe --all-groups",
        unordered=True,
        without="^(peeking|GROUP|console-group)|^$",
    ),
    *(
        case
        for protocol in ("classic", "consumer")
        for case in (
            _started(protocol, "kafka-console-consumer", _active(protocol), "value-4"),
            Case(
                "kafka-consumer-groups",
                f"--describe --group active-{protocol} --members --verbose",
                until="reader.* 1 ",
            ),
            Case(
                "kafka-consumer-groups",
                f"--describe --group active-{protocol} --state --verbose",
                until="Stable",
            ),
            Case(
                "kafka-consumer-groups",
                f"--describe --group active-{protocol} --verbose",
                until=r" read .* 5 +5 +0 .* reader",
            ),
            Case("kafka-consumer-groups", f"--delete --group active-{protocol}"),
            Case(
                "kafka-consumer-groups", f"--delete-offsets --group active-{protocol} --topic read"
            ),
            Case(
                "kafka-consumer-groups",
                f"--reset-offsets --group active-{protocol} --topic read --to-earliest --execute",
            ),
            Case("kafka-console-consumer", _active(protocol), stops=protocol),
        )
    ),
    *_records("rewound"),
    _hidden(
        "kafka-console-consumer",
        "--topic rewound --group rewinders --from-beginning --max-messages 5",
    ),
    *(
        Case(
            "kafka-consumer-groups",
            f"--reset-offsets --group rewinders --topic rewound {target}",
        )
        for target in (
            "--to-earliest --dry-run",
            "--shift-by -2 --execute",
            "--shift-by -99 --execute",
            "--to-offset 4 --execute",
            "--to-offset 99 --execute",
            "--to-latest --execute",
            "--to-current --export",
            "--to-datetime 2020-01-01T00:00:00.000 --execute",
            "--by-duration PT0S --dry-run",
            "--from-file {files}/reset.csv --execute",
        )
    ),
    Case("kafka-consumer-groups", "--reset-offsets --group rewinders --all-topics --to-earliest"),
    Case(
        "kafka-consumer-groups",
        "--reset-offsets --group new-one --topic rewound:0 --to-latest --execute",
    ),
    Case(
        "kafka-consumer-groups",
        "--reset-offsets --group rewinders --topic no-such-topic --to-latest --execute",
    ),
    Case("kafka-consumer-groups", "--delete-offsets --group rewinders --topic rewound:0"),
    Case("kafka-consumer-groups", "--delete-offsets --group rewinders --topic no-such-topic"),
    Case("kafka-consumer-groups", "--delete-offsets --group no-such-group --topic rewound"),
    Case("kafka-consumer-groups", "--delete --group rewinders --group new-one", unordered=True),
    Case("kafka-consumer-groups", "--delete --group rewinders"),
    Case("kafka-consumer-groups", "--validate-regex read.*"),
]

_SHARER: Final = "--topic shared --group sharers --command-property client.id=sharer"

SHARES: Final = [
    *_records("shared"),
    Case("kafka-configs", "--alter --group sharers --add-config share.auto.offset.reset=earliest"),
    Case(
        "kafka-console-share-consumer",
        "--topic shared --group sharers --max-messages 3 --formatter-property print.delivery=true"
        " --formatter-property print.offset=true",
    ),
    Case(
        "kafka-console-share-consumer", "--topic shared --group sharers --max-messages 1 --release"
    ),
    Case(
        "kafka-console-share-consumer", "--topic shared --group sharers --max-messages 1 --reject"
    ),
    Case("kafka-console-share-consumer", "--topic shared --group unstarted --timeout-ms 500"),
    Case("kafka-share-groups", "--list", unordered=True),
    Case("kafka-share-groups", "--list --state Empty", unordered=True),
    Case("kafka-groups", "--list --share", unordered=True),
    Case("kafka-share-groups", "--describe --group sharers"),
    Case("kafka-share-groups", "--describe --group sharers --offsets --verbose"),
    Case("kafka-share-groups", "--describe --group sharers --state --verbose"),
    Case("kafka-share-groups", "--describe --group sharers --members"),
    Case("kafka-share-groups", "--describe --group no-such-group"),
    # Each group has a header.
    Case("kafka-share-groups", "--describe --all-groups --state", unordered=True, repeats=True),
    _started("sharer", "kafka-console-share-consumer", _SHARER),
    Case(
        "kafka-share-groups",
        "--describe --group sharers --members --verbose",
        until="sharer.*shared",
    ),
    Case("kafka-share-groups", "--describe --group sharers --state", until="Stable"),
    Case("kafka-share-groups", "--delete --group sharers"),
    Case(
        "kafka-share-groups",
        "--reset-offsets --group sharers --topic shared --to-earliest --execute",
    ),
    Case("kafka-console-share-consumer", _SHARER, stops="sharer"),
    _hidden("kafka-share-groups", "--describe --group sharers --state", until="Empty"),
    *(
        Case("kafka-share-groups", f"--reset-offsets --group sharers {target}")
        for target in (
            "--topic shared --to-earliest --dry-run",
            "--topic shared --to-latest --execute",
            "--topic shared --to-datetime 2020-01-01T00:00:00.000 --execute",
            "--all-topics --to-earliest --execute",
            "--topic no-such-topic --to-earliest --execute",
        )
    ),
    Case("kafka-share-groups", "--describe --group sharers --offsets"),
    Case("kafka-share-groups", "--delete-offsets --group sharers --topic shared"),
    Case("kafka-share-groups", "--delete-offsets --group sharers --topic no-such-topic"),
    Case("kafka-share-groups", "--delete --group sharers"),
    Case("kafka-share-groups", "--delete --group no-such-group"),
]

STREAMS: Final = [
    *_records("words"),
    _hidden("kafka-topics", "--create --topic counts --partitions 1"),
    _started(
        "counter",
        "StreamsApplication",
        "{bootstrap} counter words counts {files}/state",
        "state RUNNING",
    ),
    _hidden("kafka-console-consumer", "--topic counts --from-beginning --max-messages 5"),
    Case("kafka-streams-groups", "--list"),
    Case("kafka-streams-groups", "--list --state Stable", until="counter"),
    Case("kafka-groups", "--list --streams"),
    Case("kafka-streams-groups", "--describe --group counter --state --verbose", until="Stable"),
    Case("kafka-streams-groups", "--describe --group counter --members", until="counter.*counter"),
    Case("kafka-streams-groups", "--describe --group counter --members --verbose"),
    Case("kafka-streams-groups", "--describe --group counter", until=r"words +0 +0? *5? *"),
    Case("kafka-streams-groups", "--describe --group counter --topology"),
    Case("kafka-streams-groups", "--delete --group counter"),
    _hidden("StreamsApplication", "", stops="counter"),
    _hidden("kafka-streams-groups", "--describe --group counter --state", until="Empty"),
    Case("kafka-streams-groups", "--list --state"),
    Case("kafka-streams-groups", "--describe --group counter --offsets --verbose"),
    Case("kafka-streams-groups", "--describe --group no-such-group"),
    *(
        Case("kafka-streams-groups", f"--reset-offsets --group counter {target}")
        for target in (
            "--input-topic words --to-earliest --dry-run",
            "--input-topic words --shift-by -2 --execute",
            "--all-input-topics --to-latest --execute",
            "--input-topic no-such-topic --to-earliest --execute",
        )
    ),
    Case("kafka-streams-groups", "--delete-offsets --group counter --input-topic words"),
    Case(
        "kafka-streams-application-reset", "--application-id counter --input-topics words --dry-run"
    ),
    Case(
        "kafka-streams-application-reset",
        "--application-id counter --input-topics words --to-earliest",
    ),
    Case(
        "kafka-streams-application-reset", "--application-id counter --input-topics no-such-topic"
    ),
    Case("kafka-streams-application-reset", "--application-id nothing --dry-run"),
    Case("kafka-streams-groups", "--delete --group counter --delete-all-internal-topics"),
    Case("kafka-streams-groups", "--delete --group no-such-group"),
]

TRANSACTIONS: Final = [
    _hidden("kafka-topics", "--create --topic paid --partitions 1"),
    Case(
        "kafka-producer-perf-test",
        "--topic paid --num-records 20 --throughput -1 --record-size 10 --transactional-id payer"
        " --transaction-duration-ms 100000",
        figures=True,
    ),
    Case("kafka-transactions", "list", until="CompleteCommit", figures=True),
    Case("kafka-transactions", "list --transactional-id-pattern no.*"),
    Case("kafka-transactions", "describe --transactional-id payer", figures=True),
    Case("kafka-transactions", "describe --transactional-id no-such-id"),
    Case("kafka-transactions", "describe-producers --topic paid --partition 0", figures=True),
    Case("kafka-transactions", "find-hanging --broker-id 1"),
    Case("kafka-transactions", "find-hanging --topic paid --partition 0"),
    _started("open", "OpenTransaction", "{bootstrap} open paid", "open"),
    Case(
        "kafka-transactions",
        "list --duration-filter 0",
        until="Ongoing",
        figures=True,
        unordered=True,
    ),
    Case("kafka-transactions", "describe --transactional-id open", until="paid-0", figures=True),
    Case(
        "kafka-transactions",
        "describe-producers --topic paid --partition 0 --broker-id 1",
        figures=True,
    ),
    Case("kafka-transactions", "abort --topic paid --partition 0 --start-offset 999"),
    Case("kafka-transactions", "forceTerminateTransaction --transactionalId open"),
    Case("kafka-transactions", "forceTerminateTransaction --transactionalId no-such-id"),
    _hidden("OpenTransaction", "", stops="open"),
    Case(
        "kafka-transactions",
        "describe --transactional-id open",
        until=r"\sopen\s.*\sEmpty",
        figures=True,
    ),
    Case(
        "kafka-console-consumer",
        "--topic __transaction_state --group peeking --from-beginning --timeout-ms 1500"
        " --formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        unordered=True,
        figures=True,
    ),
]

CLUSTER: Final = [
    Case("kafka-broker-api-versions", ""),
    Case("kafka-cluster", "cluster-id"),
    Case("kafka-cluster", "cluster-id --bootstrap-controller {controller}"),
    Case("kafka-cluster", "list-endpoints"),
    Case("kafka-cluster", "list-endpoints --include-fenced-brokers"),
    Case("kafka-cluster", "list-endpoints --bootstrap-controller {controller}"),
    Case("kafka-cluster", "unregister --id 7"),
    Case("kafka-features", "describe"),
    Case("kafka-features", "version-mapping"),
    Case("kafka-features", "version-mapping --release-version 4.3-IV0"),
    Case("kafka-features", "feature-dependencies --feature transaction.version=2"),
    Case("kafka-features", "upgrade --release-version 4.4-IV0 --dry-run"),
    Case("kafka-features", "upgrade --feature transaction.version=9"),
    Case("kafka-features", "upgrade --feature no.such.feature=1"),
    Case("kafka-features", "downgrade --feature group.version=1 --dry-run"),
    Case("kafka-features", "downgrade --metadata 4.3-IV0 --dry-run"),
    Case("kafka-features", "disable --feature share.version --dry-run"),
    Case("kafka-metadata-quorum", "describe --status", figures=True),
    Case("kafka-metadata-quorum", "describe --replication", figures=True),
    Case("kafka-metadata-quorum", "describe --replication --human-readable", figures=True),
    Case(
        "kafka-metadata-quorum",
        "remove-controller --controller-id 7 --controller-directory-id {id}",
    ),
    Case(
        "kafka-metadata-quorum",
        "remove-controller --controller-id 7 --controller-directory-id {id} --dry-run",
    ),
    Case(
        "kafka-metadata-quorum",
        "--bootstrap-controller {controller} describe --status",
        figures=True,
    ),
    Case(
        "kafka-client-metrics",
        "--alter --name app --metrics org.apache.kafka. --interval 30000 --match client_id=app.*",
    ),
    Case("kafka-client-metrics", "--alter --generate-name --interval 60000"),
    Case("kafka-client-metrics", "--alter --name app --interval 5"),
    Case("kafka-client-metrics", "--alter --name app --match no_such_key=1"),
    Case("kafka-client-metrics", "--describe --name app", unordered=True),
    Case("kafka-client-metrics", "--describe", unordered=True),
    Case("kafka-client-metrics", "--list", unordered=True),
    Case("kafka-client-metrics", "--delete --name app"),
    Case("kafka-client-metrics", "--describe --name app"),
]

_VERIFIED: Final = "--topics-include verified --report-interval-ms 500"

PERFORMANCE: Final = [
    _hidden("kafka-topics", "--create --topic fast --partitions 1"),
    Case(
        "kafka-producer-perf-test",
        "--topic fast --num-records 2000 --throughput -1 --record-size 100",
        figures=True,
    ),
    Case(
        "kafka-consumer-perf-test",
        "--topic fast --num-records 2000 --group measurers",
        figures=True,
    ),
    _hidden(
        "kafka-configs",
        "--alter --group share-measurers --add-config share.auto.offset.reset=earliest",
    ),
    Case(
        "kafka-share-consumer-perf-test",
        "--topic fast --num-records 2000 --group share-measurers",
        figures=True,
    ),
    Case("kafka-e2e-latency", "{bootstrap} fast 20 all 10", figures=True),
    _hidden("kafka-topics", "--create --topic verified --partitions 1"),
    Case(
        "kafka-verifiable-producer",
        "--topic verified --max-messages 5 --throughput -1",
        figures=True,
    ),
    Case(
        "kafka-verifiable-producer",
        "--topic verified --max-messages 3 --value-prefix 7 --acks 1 --repeating-keys 2",
        figures=True,
    ),
    Case(
        "kafka-verifiable-consumer",
        "--topic verified --group-id verifiers --max-messages 8 --verbose --reset-policy earliest",
    ),
    Case(
        "kafka-verifiable-consumer",
        "--topic verified --group-id consumer-verifiers --max-messages 8"
        " --group-protocol consumer --reset-policy earliest",
        without='_assigned","partitions":\\[\\]',  # before it knows the topic
    ),
    Case(
        "kafka-verifiable-share-consumer",
        "--topic verified --group-id share-verifiers --max-messages 8 --verbose"
        " --offset-reset-strategy earliest",
    ),
    _started("verification", "kafka-replica-verification", _VERIFIED, "max lag"),
    Case(
        "kafka-replica-verification",
        _VERIFIED,
        stops="verification",
        figures=True,
        repeats=True,
    ),
]

FILES_OF_BROKERS: Final = [
    Case("kafka-storage", "random-uuid"),
    Case("kafka-storage", "info --config {files}/server.properties"),
    Case(
        "kafka-storage",
        "format --config {files}/server.properties --cluster-id {id} --standalone",
    ),
    Case(
        "kafka-storage",
        "format --config {files}/server.properties --cluster-id {id} --standalone"
        " --ignore-formatted",
    ),
    Case("kafka-storage", "info --config {files}/new.properties"),
    Case(
        "kafka-storage",
        "format --config {files}/new.properties --cluster-id {id} --standalone",
    ),
    Case("kafka-storage", "version-mapping"),
    Case("kafka-storage", "feature-dependencies --feature transaction.version=2"),
    Case("kafka-dump-log", "--files {data}/read-0/00000000000000000000.log", figures=True),
    Case(
        "kafka-dump-log",
        "--files {data}/read-0/00000000000000000000.log --print-data-log --deep-iteration",
    ),
    Case(
        "kafka-dump-log",
        "--files {data}/read-0/00000000000000000000.log --print-data-log --skip-record-metadata",
    ),
    Case("kafka-dump-log", "--files {data}/read-0/00000000000000000000.index --index-sanity-check"),
    Case("kafka-dump-log", "--files {data}/read-0/00000000000000000000.timeindex"),
    Case(
        "kafka-dump-log",
        "--files {data}/paid-0/00000000000000000000.log",
        figures=True,
        repeats=True,  # the number of batches depends on the time
    ),
    Case(
        "kafka-dump-log",
        "--cluster-metadata-decoder --skip-record-metadata"
        " --files {data}/__cluster_metadata-0/00000000000000000000.log",
        without=_NOT_A_CHANGE,
        unordered=True,
    ),
]

_METADATA_LOG: Final = "__cluster_metadata-0/00000000000000000000.log"
METADATA_COPY: Final = f"{{files}}/copied/{_METADATA_LOG}"


def _shell(command: str, until: str, *, unordered: bool = False) -> Case:
    """Return a case of the shell for metadata.

    Sometimes the shell runs a command before it has read all metadata, so the case is repeated.
    """
    command = f"--snapshot {METADATA_COPY} {command}"
    return Case("kafka-metadata-shell", command, until=until, unordered=unordered)


METADATA: Final = [
    _hidden(
        "kafka-configs",
        "--alter --user mia --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    ),
    _hidden("kafka-configs", "--alter --user mia --client app --add-config producer_byte_rate=9"),
    _hidden("kafka-configs", "--alter --client-defaults --add-config consumer_byte_rate=8"),
    _hidden("CopyFile", f"{{data}}/{_METADATA_LOG} {METADATA_COPY}"),
    Case("kafka-metadata-shell", f"--snapshot {{data}}/{_METADATA_LOG} ls /"),
    _shell("ls / /image /local", "topics"),
    _shell("ls /image/topics/byName/re*", "name"),
    _shell("ls /no/such/node", ""),
    _shell("cat /local/version", "4"),
    _shell("cat /image", ""),
    _shell("cat /image/features/metadataVersion", "4"),
    _shell("tree /image/features", "4"),
    _shell("tree /image/cluster", "BrokerRegistration"),
    _shell("tree /image/acls", "StandardAcl", unordered=True),
    _shell("tree /image/clientQuotas", "mia"),
    _shell("tree /image/configs", "TOPIC", unordered=True),
    _shell("tree /image/delegationToken", "alice"),
    _shell("tree /image/producerIds", "000"),
    _shell("tree /image/scram", "mia"),
    _shell("tree /image/topics/byName", "read", unordered=True),
    _shell("find /image/topics/byName", "read"),
    _shell("find /image/topics/byId", "name", unordered=True),
    _shell("find /image/features /image/scram /image/no-such-node", "finalized"),
    _shell("no-such-command", ""),
]

CASES: Final[tuple[Case, ...]] = (
    *TOPICS,
    *CONFIGS,
    *ACLS,
    *TOKENS,
    *STARTED_TASKS,
    *RECORDS,
    *GROUPS,
    *SHARES,
    *STREAMS,
    *TRANSACTIONS,
    *CLUSTER,
    *PERFORMANCE,
    *FILES_OF_BROKERS,
    *METADATA,
    *ENDED_TASKS,
)
