"""Calls every method of kafka-python's KafkaAdminClient with every option; prints a sweep."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka import (
    IsolationLevel,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import (
    ACL,
    AbortTransactionSpec,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
    OffsetTimestamp,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartitionReplica

from tests.clients.drivers.admin_recorder import Recorder, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC, GROUP, USER, MISSING, SINK = (
    f"kafka-python-{name}" for name in ("topic", "group", "user", "missing", "sink")
)
_TIME_MS = 30_000
_COUNT: Final = 3
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
UNKNOWN = TopicPartition(MISSING, 0)


def _surface() -> Mapping[str, list[str]]:
    """Return the public methods; options are parameters with defaults."""
    return {
        name: [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is not inspect.Parameter.empty
        ]
        for name, method in inspect.getmembers(KafkaAdminClient, inspect.isfunction)
        if not name.startswith("_")
    }


def _error_of(failure: BaseException) -> dict[str, Any]:
    text = "" if isinstance(failure, KafkaError) and "(" in str(failure) else str(failure)
    return {"error": type(failure).__name__, "error_message": text}


def _shown(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, TopicPartition | TopicPartitionReplica):
        return "-".join(map(str, value))
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, ACL | ACLFilter | MemberToRemove):
        return repr(value)
    return None if hasattr(value, "__dict__") else str(value)


class Sweep:
    """The cells, in the order of their calls."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="kafka-python")
        self.admin = Recorder(client, _surface(), _error_of, _shown)

    def run(self) -> None:
        self.topics()
        self.records()
        self.configs()
        self.groups()
        self.transactions()
        self.security()
        self.cluster()
        self.placement()
        self.delete()
        self.admin.print()

    def topics(self) -> None:
        admin = self.admin
        config = {"num_partitions": 2, "configs": {"retention.ms": "3600000"}}
        admin.cell(
            "create_topics validate_only",
            lambda: admin.create_topics({TOPIC: config}, timeout_ms=_TIME_MS, validate_only=True),
        )
        admin.cell(
            "create_topics", lambda: admin.create_topics({TOPIC: config}, wait_for_metadata=True)
        )
        admin.cell("create_topics existing", lambda: admin.create_topics([TOPIC]))
        admin.cell(
            "create_topics refused",
            lambda: admin.create_topics(
                {
                    TOPIC: {},
                    "bad name": {},
                    f"{MISSING}-wide": {"replication_factor": 9},
                    f"{MISSING}-config": {"configs": {"no.such": "1"}},
                },
                raise_errors=False,
            ),
        )
        admin.cell(
            "create_partitions validate_only",
            lambda: admin.create_partitions({TOPIC: 9}, timeout_ms=_TIME_MS, validate_only=True),
        )
        admin.cell("create_partitions", lambda: admin.create_partitions({TOPIC: _COUNT}))
        admin.cell(
            "create_partitions refused",
            lambda: admin.create_partitions({TOPIC: 1, MISSING: 2}, raise_errors=False),
        )
        admin.cell("wait_for_topics", lambda: admin.wait_for_topics([TOPIC], timeout_ms=_TIME_MS))
        admin.cell(
            "wait_for_topics unknown", lambda: admin.wait_for_topics([MISSING], timeout_ms=300)
        )
        wait_until(lambda: len(admin.describe_topics([TOPIC])[0]["partitions"]) == _COUNT)
        admin.cell("list_topics", lambda: TOPIC in admin.list_topics())
        admin.cell("describe_topics", lambda: admin.describe_topics([TOPIC]))
        admin.cell("describe_topics unknown", lambda: admin.describe_topics(topics=[MISSING]))
        admin.cell("describe_topic_partitions", lambda: admin.describe_topic_partitions([TOPIC]))
        admin.cell(
            "describe_topic_partitions response_partition_limit, cursor",
            lambda: admin.describe_topic_partitions(
                [TOPIC],
                response_partition_limit=1,
                cursor={"topic_name": TOPIC, "partition_index": 1},
            ),
        )

    def records(self) -> None:
        admin = self.admin
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        for number in range(6):
            producer.send(
                TOPIC, b"value", b"key", partition=number % 3, timestamp_ms=1_700_000_000_000
            )
        producer.flush()
        producer.close()
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP):
            admin.cell(
                f"list_partition_offsets {spec.name}",
                partial(admin.list_partition_offsets, {FIRST: spec, SECOND: spec}),
            )
        admin.cell(
            "list_partition_offsets isolation_level",
            lambda: admin.list_partition_offsets(
                {FIRST: OffsetTimestamp(1_600_000_000_000)},
                isolation_level=IsolationLevel.READ_COMMITTED,
                timeout_ms=_TIME_MS,
            ),
        )
        admin.cell(
            "list_partition_offsets unknown",
            lambda: admin.list_partition_offsets({UNKNOWN: OffsetSpec.LATEST}, timeout_ms=1000),
        )
        admin.cell("delete_records", lambda: admin.delete_records({FIRST: 1}))
        admin.cell(
            "delete_records refused",
            lambda: admin.delete_records({SECOND: 99}, timeout_ms=_TIME_MS, partition_leader_id=1),
        )

    def configs(self) -> None:
        admin = self.admin
        topic, kinds = ConfigResource(ConfigResourceType.TOPIC, TOPIC), ConfigResourceType
        unknown = ConfigResource(kinds.TOPIC, MISSING)
        admin.cell("describe_configs", lambda: admin.describe_configs([topic]))
        admin.cell(
            "describe_configs include_synonyms, config_filter",
            lambda: admin.describe_configs([topic], include_synonyms=True, config_filter="all"),
        )
        admin.cell("describe_configs unknown", lambda: admin.describe_configs([unknown]))

        def altered(**values: Any) -> ConfigResource:  # noqa: ANN401
            configs = {key.replace("_", "."): value for key, value in values.items()}
            return ConfigResource(kinds.TOPIC, TOPIC, configs=configs)

        admin.cell("alter_configs", lambda: admin.alter_configs([altered(segment_ms="60000")]))
        admin.cell(
            "alter_configs append",
            lambda: admin.alter_configs([altered(cleanup_policy=("APPEND", "compact"))]),
        )
        admin.cell(
            "alter_configs validate_only",
            lambda: admin.alter_configs(
                [altered(segment_ms="1")],
                validate_only=True,
                raise_on_unknown=False,
                incremental=True,
            ),
        )
        admin.cell(
            "alter_configs refused", lambda: admin.alter_configs([altered(segment_ms="never")])
        )
        admin.cell("alter_configs unknown", lambda: admin.alter_configs([altered(no_such="1")]))
        admin.cell(
            "alter_configs not incremental",
            lambda: admin.alter_configs([altered(retention_ms="1000000")], incremental=False),
        )
        admin.cell(
            "reset_configs validate_only",
            lambda: admin.reset_configs(
                [altered(retention_ms=None)],
                validate_only=True,
                raise_on_unknown=False,
                incremental=True,
            ),
        )
        admin.cell("reset_configs", lambda: admin.reset_configs([altered(retention_ms=None)]))
        admin.cell(
            "list_config_resources resource_types",
            lambda: TOPIC in admin.list_config_resources(resource_types=["TOPIC"])["topic"],
        )
        admin.cell("list_config_resources", lambda: sorted(admin.list_config_resources()))

    def groups(self) -> None:
        admin = self.admin
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            client_id="kafka-python-client",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        wait_until(lambda: consumer.poll(100) or consumer.assignment())
        consumer.commit({FIRST: OffsetAndMetadata(1, "note", -1)})
        admin.cell("list_groups", lambda: _ours(admin.list_groups()))
        admin.cell(
            "list_groups options",
            lambda: _ours(
                admin.list_groups(
                    broker_ids=[1], states_filter=["Stable"], types_filter=["classic"]
                )
            ),
        )
        admin.cell("describe_groups", lambda: _without_bytes(admin.describe_groups([GROUP])))
        admin.cell(
            "describe_groups options",
            lambda: _without_bytes(
                admin.describe_groups(
                    [MISSING], group_coordinator_id=1, include_authorized_operations=True
                )
            ),
        )
        admin.cell("delete_groups with members", lambda: admin.delete_groups([GROUP]))
        admin.cell(
            "alter_group_offsets with members",
            lambda: admin.alter_group_offsets(GROUP, {FIRST: OffsetAndMetadata(0, "", -1)}),
        )
        admin.cell(
            "delete_group_offsets with members", lambda: admin.delete_group_offsets(GROUP, [FIRST])
        )
        admin.cell(
            "remove_group_members unknown",
            lambda: admin.remove_group_members(
                GROUP, [MemberToRemove(group_instance_id="static-9")], group_coordinator_id=1
            ),
        )
        member = next(iter(admin.describe_groups([GROUP])[GROUP]["members"]))["member_id"]
        admin.cell(
            "remove_group_members",
            lambda: list(
                admin.remove_group_members(GROUP, [MemberToRemove(member_id=member)]).values()
            ),
        )
        consumer.close(autocommit=False)
        self.offsets()

    def offsets(self) -> None:
        admin, note = self.admin, OffsetAndMetadata(2, "note", -1)
        wait_until(lambda: not admin.describe_groups([GROUP])[GROUP]["members"])
        admin.cell("alter_group_offsets", lambda: admin.alter_group_offsets(GROUP, {FIRST: note}))
        admin.cell(
            "alter_group_offsets unknown topic",
            lambda: admin.alter_group_offsets(GROUP, {UNKNOWN: note}, group_coordinator_id=1),
        )
        admin.cell("list_group_offsets", lambda: admin.list_group_offsets({GROUP: None}))
        admin.cell("list_group_offsets unknown", lambda: admin.list_group_offsets(MISSING))
        admin.cell(
            "reset_group_offsets",
            lambda: admin.reset_group_offsets(GROUP, {FIRST: OffsetSpec.EARLIEST}),
        )
        admin.cell(
            "reset_group_offsets group_coordinator_id",
            lambda: admin.reset_group_offsets(GROUP, {SECOND: 99}, group_coordinator_id=1),
        )
        admin.cell("delete_group_offsets", lambda: admin.delete_group_offsets(GROUP, [FIRST]))
        admin.cell(
            "delete_group_offsets unknown",
            lambda: admin.delete_group_offsets(MISSING, [FIRST], group_coordinator_id=1),
        )
        admin.cell("delete_groups", lambda: admin.delete_groups([GROUP, MISSING]))
        admin.cell(
            "delete_groups group_coordinator_id",
            lambda: admin.delete_groups([MISSING], group_coordinator_id=1),
        )

    def transactions(self) -> None:
        admin, name = self.admin, "kafka-python-open"
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"value", b"key", partition=0).get(30)
        admin.cell("list_transactions", lambda: _of(name, admin.list_transactions()))
        admin.cell(
            "list_transactions options",
            lambda: _of(
                name,
                admin.list_transactions(
                    broker_ids=[1],
                    producer_id_filters=[987_654_321],
                    state_filters=["Ongoing"],
                    duration_filter_ms=3_600_000,
                    transactional_id_pattern="kafka-python-.*",
                ),
            ),
        )
        admin.cell("describe_transactions", lambda: admin.describe_transactions([name]))
        admin.cell("describe_transactions unknown", lambda: admin.describe_transactions([MISSING]))
        admin.cell("describe_producers", lambda: admin.describe_producers([FIRST]))
        admin.cell(
            "describe_producers unknown",
            lambda: admin.describe_producers([TopicPartition(TOPIC, 7)], broker_id=1),
        )
        admin.cell("find_hanging_transactions", admin.find_hanging_transactions)
        admin.cell(
            "find_hanging_transactions options",
            lambda: admin.find_hanging_transactions(
                broker_ids=[1], max_transaction_timeout_ms=3_600_000
            ),
        )
        found = _of(name, admin.list_transactions())[0]
        admin.cell(
            "abort_transaction",
            lambda: admin.abort_transaction(AbortTransactionSpec(FIRST, found.producer_id, 0)),
        )
        admin.cell(
            "abort_transaction refused",
            lambda: admin.abort_transaction(AbortTransactionSpec(UNKNOWN, 1, 0)),
        )
        producer.close(timeout=0)

    def security(self) -> None:
        admin = self.admin
        pattern = ResourcePattern(ResourceType.TOPIC, TOPIC)
        acl = ACL(f"User:{USER}", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
        ours = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)
        admin.cell("create_acls", lambda: admin.create_acls([acl]))
        wait_until(lambda: admin.describe_acls(ours)[0])
        admin.cell("describe_acls", lambda: admin.describe_acls(ours))
        admin.cell("delete_acls", lambda: admin.delete_acls([ours]))
        mechanism = ScramMechanism.SCRAM_SHA_256
        admin.cell(
            "alter_user_scram_credentials",
            lambda: admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(USER, mechanism, "secret", iterations=4096)]
            ),
        )
        wait_until(lambda: admin.describe_user_scram_credentials([USER]))
        admin.cell("describe_user_scram_credentials", admin.describe_user_scram_credentials)
        admin.cell(
            "describe_user_scram_credentials users",
            lambda: admin.describe_user_scram_credentials(users=[USER, MISSING]),
        )
        admin.cell(
            "alter_user_scram_credentials deletion",
            lambda: admin.alter_user_scram_credentials(
                [
                    UserScramCredentialDeletion(USER, mechanism),
                    UserScramCredentialDeletion(MISSING, mechanism),
                ]
            ),
        )

    def cluster(self) -> None:
        admin = self.admin
        admin.cell("describe_cluster", admin.describe_cluster)
        admin.cell("api_versions", admin.api_versions)
        admin.cell(
            "get_broker_version_data",
            lambda: str(admin.get_broker_version_data(1).broker_version),
        )
        admin.cell("describe_features", admin.describe_features)
        admin.cell(
            "describe_features send_request_to_controller",
            lambda: admin.describe_features(send_request_to_controller=True),
        )
        admin.cell("update_features", lambda: admin.update_features({"group.version": 1}))
        admin.cell(
            "update_features validate_only",
            lambda: admin.update_features(
                {"no.such.version": 1}, validate_only=True, timeout_ms=_TIME_MS
            ),
        )
        admin.cell("describe_metadata_quorum", admin.describe_metadata_quorum)

    def placement(self) -> None:
        admin = self.admin
        admin.cell("elect_leaders", lambda: admin.elect_leaders(0, timeout_ms=_TIME_MS))
        admin.cell(
            "elect_leaders refused",
            lambda: admin.elect_leaders(
                1, topic_partitions={TOPIC: [0], MISSING: [0]}, raise_errors=False
            ),
        )
        admin.cell(
            "alter_partition_reassignments",
            lambda: admin.alter_partition_reassignments({FIRST: [1], UNKNOWN: [1], SECOND: None}),
        )
        admin.cell(
            "alter_partition_reassignments timeout_ms",
            lambda: admin.alter_partition_reassignments({FIRST: [9]}, timeout_ms=_TIME_MS),
        )
        admin.cell("list_partition_reassignments", admin.list_partition_reassignments)
        admin.cell(
            "list_partition_reassignments options",
            lambda: admin.list_partition_reassignments(
                topic_partitions=[FIRST], timeout_ms=_TIME_MS
            ),
        )
        directory = admin.describe_log_dirs()[0]["log_dirs"][0]["log_dir"]
        admin.cell("describe_log_dirs", lambda: len(admin.describe_log_dirs()))
        admin.cell(
            "describe_log_dirs options",
            lambda: admin.describe_log_dirs(topic_partitions={TOPIC: [0]}, brokers=[1]),
        )
        admin.cell(
            "alter_replica_log_dirs",
            lambda: admin.alter_replica_log_dirs(
                {
                    TopicPartitionReplica(TOPIC, 0, 1): directory,
                    TopicPartitionReplica(TOPIC, 1, 1): "/no/such/directory",
                    TopicPartitionReplica(MISSING, 0, 1): directory,
                }
            ),
        )

    def delete(self) -> None:
        admin = self.admin
        admin.cell("delete_topics unknown", lambda: admin.delete_topics([MISSING]))
        admin.cell(
            "delete_topics",
            lambda: admin.delete_topics([TOPIC, MISSING], timeout_ms=_TIME_MS, raise_errors=False),
        )
        admin.cell("close", admin.close)


def _ours(groups: Any) -> list[Any]:  # noqa: ANN401
    return [group for group in groups if group["group_id"] == GROUP]


def _of(name: str, listed: Any) -> list[Any]:  # noqa: ANN401
    rows = [row for rows in listed.values() for row in rows]
    return [row for row in rows if row.transactional_id == name]


def _without_bytes(groups: dict[str, Any]) -> dict[str, Any]:
    """Return groups without the ids of their members' protocols."""
    for group in groups.values():
        for member in group["members"]:
            for field in ("member_metadata", "member_assignment"):
                member[field] = member[field] is not None
    return groups


if __name__ == "__main__":
    Sweep(sys.argv[1]).run()
