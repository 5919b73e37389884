"""Settings of topics, brokers and groups: described, altered, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.config.definitions import KeyTable
from kafkalite.config.tables import kafkalite
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_config_resources import ListConfigResourcesRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.setup import create_topic

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

# Settings of the broker's location, which differ for each broker.
PLACES = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "listener.security.protocol.map",
    "listeners",
    "log.cleaner.dedupe.buffer.size",
    "log.dirs",
    "process.roles",
    "node.id",
    "broker.id",
}

OWN_KEYS = frozenset(KeyTable(kafkalite.KEYS))
"""Settings that Kafka does not have."""


def describe(
    kind: int, name: str, keys: list[str] | None = None, *, fully: bool = True
) -> DescribeConfigsRequest:
    """Ask for the settings of one resource."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=fully, include_documentation=fully
    )


def alter(
    kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Ask to change settings of one resource."""
    config = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            config(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def _value(response: Any, key: str) -> str | None:  # noqa: ANN401 - any response class
    for row in response.results[0].configs:
        if row.name == key:
            value: str | None = row.value
            return value
    return None


def settled(
    cluster: ScenarioCluster, key: str, value: str, kind: int = TOPIC, name: str | None = None
) -> None:
    """Wait until a setting has a value, and put its description into the transcript."""
    request = describe(kind, cluster.name if name is None else name, [key])
    cluster.call_until(request, 4, lambda found: _value(found, key) == value)


def topic_configs_are_described_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(
        cluster, cluster.name, configs={"retention.ms": "1000", "cleanup.policy": "compact"}
    )
    for version in range(1, 5):
        cluster.ask(describe(TOPIC, cluster.name), version)
    cluster.ask(describe(TOPIC, cluster.name, fully=False), 4)


def topic_configs_are_described_by_key(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.ask(describe(TOPIC, cluster.name, ["retention.ms", "segment.bytes"]), 4)
    cluster.ask(describe(TOPIC, cluster.name, ["no.such.key"]), 4)
    cluster.ask(describe(TOPIC, cluster.name, []), 4)


def broker_configs_are_described(cluster: ScenarioCluster) -> None:
    for version in (1, 4):
        response = cluster.connection("main").call(describe(BROKER, "1"), version)
        (result,) = response.results
        rows = sorted(result.configs, key=lambda row: str(row.name))
        cluster.record(f"v{version} names", [str(row.name) for row in rows])
        for row in rows:
            fields: list[str | int | bool | None] = [
                row.config_type,
                row.read_only,
                row.is_sensitive,
            ]
            if row.name not in PLACES:
                fields += [row.value, row.config_source, row.documentation is not None]
                fields += [f"{seen.source} {seen.name}={seen.value}" for seen in row.synonyms]
            cluster.record(f"v{version} {row.name}", [*fields])


def cluster_defaults_and_unknown_resources_are_described(cluster: ScenarioCluster) -> None:
    cluster.ask(describe(BROKER, "", ["log.retention.ms"]), 4)
    for name in ("99", "abc", "-1"):
        cluster.ask(describe(BROKER, name), 4)
    cluster.ask(describe(TOPIC, f"{cluster.name}-missing"), 4)
    for name in ("in valid", ""):
        cluster.ask(describe(TOPIC, name), 4)
    for kind in (0, 1, 3, 99):
        cluster.ask(describe(kind, cluster.name), 4)
    mixed = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
            )
            for kind, name in ((TOPIC, f"{cluster.name}-mixed"), (64, "q"))
        ]
    )
    create_topic(cluster, f"{cluster.name}-mixed")
    cluster.ask(mixed, 4)


def group_configs_are_described_and_altered(cluster: ScenarioCluster) -> None:
    cluster.ask(describe(GROUP, cluster.name), 4)
    cluster.ask(alter(GROUP, cluster.name, ("consumer.session.timeout.ms", SET, "46000")), 1)
    settled(cluster, "consumer.session.timeout.ms", "46000", kind=GROUP)
    cluster.ask(alter(GROUP, cluster.name, ("consumer.session.timeout.ms", SET, "1")), 1)
    cluster.ask(alter(GROUP, cluster.name, ("no.such.key", SET, "1")), 1)
    cluster.ask(alter(GROUP, "", ("consumer.session.timeout.ms", SET, "46000")), 1)
    cluster.ask(describe(GROUP, ""), 4)


def configs_are_set_appended_subtracted_and_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    key = "cleanup.policy"
    for version, operation, given, value in (
        (0, APPEND, "compact", "delete,compact"),
        (1, SUBTRACT, "delete", "compact"),
        (1, SUBTRACT, "delete", "compact"),
        (1, APPEND, "compact", "compact"),
        (1, DELETE, None, "delete"),
        (1, SET, "compact,delete", "compact,delete"),
    ):
        cluster.ask(alter(TOPIC, cluster.name, (key, operation, given)), version)
        settled(cluster, key, value)
    cluster.ask(alter(TOPIC, cluster.name, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")), 1)
    settled(cluster, "segment.ms", "6")
    settled(cluster, "retention.ms", "5")


def config_changes_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for operation in (
        ("no.such.key", SET, "1"),
        ("retention.ms", SET, "soon"),
        ("segment.bytes", SET, "1"),
        ("retention.ms", APPEND, "1"),
        ("retention.ms", SUBTRACT, "1"),
        ("retention.ms", SET, None),
        ("cleanup.policy", APPEND, None),
        ("", SET, "1"),
    ):
        cluster.ask(alter(TOPIC, cluster.name, operation), 1)
    twice = ("retention.ms", SET, "1")
    cluster.ask(alter(TOPIC, cluster.name, twice, twice), 1)
    both = alter(TOPIC, cluster.name, twice)
    both.resources = [*both.resources, *both.resources]
    cluster.ask(both, 1)
    for name in (f"{cluster.name}-missing", "in valid", ""):
        cluster.ask(alter(TOPIC, name, twice), 1)
    for kind in (0, 1, 99):
        cluster.ask(alter(kind, cluster.name, twice), 1)


def config_changes_can_be_validated_only(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    good = ("retention.ms", SET, "1000")
    cluster.ask(alter(TOPIC, cluster.name, good, validate_only=True), 1)
    cluster.ask(alter(TOPIC, cluster.name, ("no.such", SET, "1"), validate_only=True), 1)
    cluster.ask(describe(TOPIC, cluster.name, ["retention.ms"]), 4)


def broker_configs_are_altered(cluster: ScenarioCluster) -> None:
    key = "log.cleaner.backoff.ms"
    cluster.ask(alter(BROKER, "1", (key, SET, "14000")), 1)
    settled(cluster, key, "14000", kind=BROKER, name="1")
    cluster.ask(alter(BROKER, "", (key, SET, "13000")), 1)
    settled(cluster, key, "13000", kind=BROKER, name="")
    cluster.ask(describe(BROKER, "1", [key]), 4)
    cluster.ask(alter(BROKER, "1", (key, DELETE, None)), 1)
    settled(cluster, key, "13000", kind=BROKER, name="1")
    cluster.ask(alter(BROKER, "", (key, DELETE, None)), 1)
    settled(cluster, key, "15000", kind=BROKER, name="1")


def broker_config_changes_are_refused(cluster: ScenarioCluster) -> None:
    for operation in (
        ("node.id", SET, "7"),
        ("num.partitions", SET, "7"),
        ("no.such.key", SET, "7"),
        ("log.cleaner.backoff.ms", SET, "never"),
        ("log.cleaner.threads", SET, "0"),
    ):
        cluster.ask(alter(BROKER, "1", operation), 1)
        cluster.ask(alter(BROKER, "", operation), 1)
    for name in ("99", "abc"):
        cluster.ask(alter(BROKER, name, ("log.cleaner.backoff.ms", SET, "1")), 1)
    # Brokers accept an unknown key, and other scenarios would find it.
    for name in ("", "1"):
        cluster.probe(alter(BROKER, name, ("no.such.key", DELETE, None)), 1)
        unset = describe(BROKER, name, ["no.such.key"])
        cluster.call_until(unset, 4, lambda found: not found.results[0].configs)


def _replace(
    name: str, *values: tuple[str, str | None], validate_only: bool = False
) -> AlterConfigsRequest:
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in values
        ],
    )
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


_MEBIBYTE = 1 << 20

CHANGED_TOGETHER: list[dict[str, str]] = [
    *(
        {
            "log.cleaner.threads": str(threads),
            "log.cleaner.dedupe.buffer.size": str(threads * _MEBIBYTE + extra),
        }
        for threads in (1, 2, 3)
        for extra in (0, 1, 3)
    ),
    {"log.cleaner.threads": "0"},
    {"log.cleaner.threads": "-1"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-5"},
    {"log.roll.ms": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.bytes": "5", "log.local.retention.bytes": "6"},
    {"log.retention.bytes": "5", "log.local.retention.bytes": "-2"},
    {"log.retention.ms": "5", "log.local.retention.ms": "-1"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "h:1"},
    {"max.connections.per.ip.overrides": "h"},
    {"max.connections.per.ip.overrides": "a b:1"},
    {"max.connection.creation.rate": "0"},
    *(
        {f"listener.name.plaintext.{key}": value}
        for key in ("max.connection.creation.rate", "max.connections")
        for value in ("0", "5", "x")
    ),
    {"cordoned.log.dirs": "/nowhere"},
    {"group.consumer.assignment.interval.ms": "15001"},
    {"group.share.assignment.interval.ms": "15000"},
    {"producer.id.expiration.ms": "0"},
    {"remote.log.reader.threads": "21"},
    {"remote.log.reader.threads": "20"},
    {"share.coordinator.append.linger.ms": "-2"},
]


def broker_settings_that_must_fit_each_other_are_validated(cluster: ScenarioCluster) -> None:
    for changes in CHANGED_TOGETHER:
        for broker in ("1", ""):
            operations = [(key, SET, value) for key, value in changes.items()]
            request = alter(BROKER, broker, *operations, validate_only=True)
            answer = cluster.connection("main").call(request, 1)
            cluster.record(f"{broker!r} {changes}", [row.error_code for row in answer.responses])
            legacy = AlterConfigsRequest(
                resources=[
                    AlterConfigsRequest.AlterConfigsResource(
                        resource_type=BROKER,
                        resource_name=broker,
                        configs=[
                            AlterConfigsRequest.AlterableConfig(name=key, value=value)
                            for key, value in changes.items()
                        ],
                    )
                ],
                validate_only=True,
            )
            answer = cluster.connection("main").call(legacy, 2)
            cluster.record(
                f"{broker!r} all {changes}", [row.error_code for row in answer.responses]
            )


def deletions_of_broker_settings_are_validated_too(cluster: ScenarioCluster) -> None:
    key = "num.io.threads"
    for count in ("16", "32"):
        cluster.ask(alter(BROKER, "1", (key, SET, count)), 1)
        settled(cluster, key, count, BROKER, "1")
    # The deletion would restore 8, less than half of the current value.
    cluster.ask(alter(BROKER, "1", (key, DELETE, None)), 1)
    cluster.ask(alter(BROKER, "1", (key, SET, "16")), 1)
    settled(cluster, key, "16", BROKER, "1")
    cluster.ask(alter(BROKER, "1", (key, DELETE, None)), 1)
    settled(cluster, key, "8", BROKER, "1")


def legacy_changes_replace_everything(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"retention.ms": "1000"})
    for version in (0, 1, 2):
        cluster.ask(_replace(cluster.name, ("segment.ms", str(7 + version))), version)
        settled(cluster, "segment.ms", str(7 + version))
        settled(cluster, "retention.ms", "604800000")
    cluster.ask(_replace(cluster.name, ("no.such.key", "1")), 2)
    cluster.ask(_replace(cluster.name, ("segment.ms", "soon")), 2)
    cluster.ask(_replace(cluster.name, ("segment.ms", None)), 2)
    cluster.ask(_replace(cluster.name, ("retention.ms", "1"), validate_only=True), 2)
    cluster.ask(_replace(f"{cluster.name}-missing", ("retention.ms", "1")), 2)
    cluster.ask(_replace(cluster.name), 2)
    settled(cluster, "segment.ms", "604800000")


def resources_with_configs_are_listed(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"retention.ms": "1000"})
    group = f"{cluster.name}-group"
    altered = alter(GROUP, group, ("consumer.session.timeout.ms", SET, "46000"))
    cluster.probe(altered, 1)
    key = "consumer.session.timeout.ms"
    cluster.call_until(
        describe(GROUP, group, [key]),
        4,
        lambda found: _value(found, key) == "46000",
        is_recorded=False,
    )
    cluster.probe(alter(BROKER, "1", ("background.threads", SET, "12")), 1)
    settled(cluster, "background.threads", "12", BROKER, "1")
    for version, kinds in ((0, []), (1, []), (1, [TOPIC]), (1, [GROUP, TOPIC]), (1, [BROKER])):
        request = ListConfigResourcesRequest(resource_types=kinds)
        response = cluster.connection("main").call(request, version)
        found = sorted(
            f"{row.resource_type} {row.resource_name}"
            for row in response.config_resources
            if row.resource_name.startswith(cluster.name) or row.resource_name == "1"
        )
        cluster.record(f"v{version} {kinds}", [ErrorCode(response.error_code).name, *found])
    cluster.ask(ListConfigResourcesRequest(resource_types=[99]), 1)
    cluster.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]), 1)
    cluster.probe(alter(BROKER, "1", ("background.threads", DELETE, None)), 1)
    settled(cluster, "background.threads", "10", BROKER, "1")


SCENARIOS = (
    topic_configs_are_described_in_every_version,
    topic_configs_are_described_by_key,
    broker_configs_are_described,
    cluster_defaults_and_unknown_resources_are_described,
    group_configs_are_described_and_altered,
    configs_are_set_appended_subtracted_and_deleted,
    config_changes_are_refused,
    config_changes_can_be_validated_only,
    broker_configs_are_altered,
    broker_config_changes_are_refused,
    broker_settings_that_must_fit_each_other_are_validated,
    deletions_of_broker_settings_are_validated_too,
    legacy_changes_replace_everything,
    resources_with_configs_are_listed,
)
