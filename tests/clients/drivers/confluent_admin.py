"""Calls every method of confluent-kafka's AdminClient with every option; prints a sweep."""

from __future__ import annotations

import inspect
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka.admin
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Node,
    Producer,
    TopicCollection,
    TopicPartition,
    Uuid,
)

from tests.clients.drivers.admin_recorder import TIMEOUT_S, Recorder, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

# The library exports these names only to programs without types.
_library: Any = confluent_kafka.admin

TOPIC, GROUP, USER, MISSING = (
    f"librdkafka-{name}" for name in ("topic", "group", "user", "missing")
)
_TIMES = {"request_timeout": TIMEOUT_S}
_BOTH_TIMES = {"request_timeout": TIMEOUT_S, "operation_timeout": TIMEOUT_S}
_PARAMETER = re.compile(r":param ([^:]*):")


def _surface() -> Mapping[str, list[str]]:
    """Return the public methods; options are parameters with defaults and documented keywords."""
    surface = {}
    for name, method in inspect.getmembers(_library.AdminClient, callable):
        if name.startswith("_"):
            continue
        documented = [text.split()[-1] for text in _PARAMETER.findall(inspect.getdoc(method) or "")]
        try:
            parameters = inspect.signature(method).parameters.values()
        except ValueError:
            parameters = {}.values()
        required = {each.name for each in parameters if each.default is inspect.Parameter.empty}
        surface[name] = [option for option in documented if option not in required]
    return surface


def _error_of(failure: BaseException) -> dict[str, Any]:
    error = failure.args[0] if isinstance(failure, KafkaException) else failure
    if isinstance(error, KafkaError):
        return {"error": error.name(), "error_message": error.str()}
    return {"error": type(failure).__name__, "error_message": str(failure)}


def _shown(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, KafkaError):
        return {"error": value.name(), "error_message": value.str()}
    if isinstance(value, TopicPartition):
        error = None if value.error is None else value.error.name()
        return [value.topic, value.partition, value.offset, value.metadata, error]
    if isinstance(value, Uuid):
        return "id"
    if isinstance(value, Node):
        return {"id": value.id, "host": value.host, "port": value.port, "rack": value.rack}
    if isinstance(value, _library.ConfigResource | _library.AclBinding | _library.AclBindingFilter):
        return str(value)
    return None


def _config(kind: Any, name: str, **values: str) -> _library.ConfigResource:  # noqa: ANN401
    entries = [
        _library.ConfigEntry(
            key.replace("_", "."), value, incremental_operation=_library.AlterConfigOpType.SET
        )
        for key, value in values.items()
    ]
    return _library.ConfigResource(kind, name, incremental_configs=entries)


class Sweep:
    """The cells, in the order of their calls."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        client = _library.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.admin = Recorder(client, _surface(), _error_of, _shown)

    def run(self) -> None:
        self.topics()
        self.records()
        self.configs()
        self.groups()
        self.security()
        self.cluster()
        self.delete()
        self.admin.print()

    def topics(self) -> None:
        admin = self.admin
        topic = _library.NewTopic(TOPIC, 2, 1, config={"retention.ms": "3600000"})
        admin.cell(
            "create_topics validate_only",
            lambda: admin.create_topics([topic], validate_only=True, **_BOTH_TIMES),
        )
        admin.cell("create_topics", lambda: admin.create_topics([topic]))
        admin.cell(
            "create_topics refused",
            lambda: admin.create_topics(
                [
                    topic,
                    _library.NewTopic("bad name", 1, 1),
                    _library.NewTopic(f"{MISSING}-wide", 1, 9),
                    _library.NewTopic(f"{MISSING}-config", 1, 1, config={"no.such": "1"}),
                ]
            ),
        )
        admin.cell(
            "create_partitions validate_only",
            lambda: admin.create_partitions(
                [_library.NewPartitions(TOPIC, 9)], validate_only=True, **_BOTH_TIMES
            ),
        )
        admin.cell(
            "create_partitions",
            lambda: admin.create_partitions(
                [_library.NewPartitions(TOPIC, 3), _library.NewPartitions(MISSING, 3)]
            ),
        )
        wait_until(lambda: len(admin.list_topics(TOPIC).topics[TOPIC].partitions) == 3)
        admin.cell("list_topics topic", lambda: admin.list_topics(topic=TOPIC).topics[TOPIC])
        admin.cell("list_topics timeout", lambda: TOPIC in admin.list_topics(timeout=20).topics)
        # A valid name would create the topic, and the answer would depend on the time.
        admin.cell("list_topics unknown", lambda: admin.list_topics(topic="bad name").topics)
        admin.cell(
            "describe_topics",
            lambda: admin.describe_topics(
                TopicCollection([TOPIC]), include_authorized_operations=True, **_TIMES
            ),
        )
        admin.cell(
            "describe_topics unknown",
            lambda: admin.describe_topics(TopicCollection([MISSING, "bad name"])),
        )

    def records(self) -> None:
        admin = self.admin
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(6):
            producer.produce(
                TOPIC, f"value {number}", "key", number % 3, timestamp=1_700_000_000_000
            )
        assert producer.flush(TIMEOUT_S) == 0
        first = TopicPartition(TOPIC, 0)
        for name, spec in (
            ("earliest", _library.OffsetSpec.earliest()),
            ("latest", _library.OffsetSpec.latest()),
            ("max_timestamp", _library.OffsetSpec.max_timestamp()),
            ("for_timestamp", _library.OffsetSpec.for_timestamp(1_600_000_000_000)),
        ):
            admin.cell(f"list_offsets {name}", partial(admin.list_offsets, {first: spec}))
        admin.cell(
            "list_offsets isolation_level",
            lambda: admin.list_offsets(
                {
                    first: _library.OffsetSpec.latest(),
                    TopicPartition(MISSING, 0): _library.OffsetSpec.latest(),
                },
                isolation_level=IsolationLevel.READ_COMMITTED,
                **_TIMES,
            ),
        )
        admin.cell("delete_records", lambda: admin.delete_records([TopicPartition(TOPIC, 0, 1)]))
        admin.cell(
            "delete_records refused",
            lambda: admin.delete_records([TopicPartition(TOPIC, 1, 99)], **_BOTH_TIMES),
        )

    def configs(self) -> None:
        admin = self.admin
        kinds = _library.ConfigResource.Type
        admin.cell(
            "describe_configs topic",
            lambda: admin.describe_configs([_library.ConfigResource(kinds.TOPIC, TOPIC)]),
        )
        admin.cell(
            "describe_configs unknown",
            lambda: admin.describe_configs(
                [_library.ConfigResource(kinds.TOPIC, MISSING)], **_TIMES
            ),
        )
        admin.cell(
            "incremental_alter_configs",
            lambda: admin.incremental_alter_configs(
                [_config(kinds.TOPIC, TOPIC, segment_ms="60000")]
            ),
        )
        admin.cell(
            "incremental_alter_configs validate_only",
            lambda: admin.incremental_alter_configs(
                [_config(kinds.TOPIC, TOPIC, segment_ms="1")],
                validate_only=True,
                broker=1,
                **_TIMES,
            ),
        )
        admin.cell(
            "incremental_alter_configs refused",
            lambda: admin.incremental_alter_configs(
                [
                    _config(kinds.TOPIC, TOPIC, segment_ms="never"),
                    _config(kinds.TOPIC, MISSING, segment_ms="60000"),
                ]
            ),
        )
        admin.cell(
            "alter_configs validate_only",
            lambda: admin.alter_configs(
                [_library.ConfigResource(kinds.TOPIC, TOPIC, set_config={"no.such": "1"})],
                validate_only=True,
                **_TIMES,
            ),
        )
        admin.cell(
            "alter_configs",
            lambda: admin.alter_configs(
                [
                    _library.ConfigResource(
                        kinds.TOPIC, TOPIC, set_config={"retention.ms": "7200000"}
                    )
                ]
            ),
        )

    def groups(self) -> None:
        admin = self.admin
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "client.id": "librdkafka-client",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(0.1) and consumer.assignment())
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        self.stable_group()
        consumer.close()
        wait_until(
            lambda: not admin.describe_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S).members
        )
        self.offsets()
        admin.cell(
            "delete_consumer_groups",
            lambda: admin.delete_consumer_groups([GROUP, MISSING], **_TIMES),
        )

    def stable_group(self) -> None:
        admin = self.admin
        admin.cell("list_groups group", lambda: _members(admin.list_groups(group=GROUP)))
        admin.cell(
            "list_groups timeout",
            lambda: GROUP in [group.id for group in admin.list_groups(timeout=20)],
        )
        admin.cell(
            "list_consumer_groups",
            lambda: _ours(admin.list_consumer_groups().result(TIMEOUT_S)),
        )
        admin.cell(
            "list_consumer_groups states, types",
            lambda: _ours(
                admin.list_consumer_groups(
                    states={ConsumerGroupState.STABLE},
                    types={ConsumerGroupType.CLASSIC},
                    **_TIMES,
                ).result(TIMEOUT_S)
            ),
        )
        admin.cell(
            "describe_consumer_groups",
            lambda: admin.describe_consumer_groups(
                [GROUP], include_authorized_operations=True, **_TIMES
            ),
        )
        admin.cell(
            "describe_consumer_groups unknown", lambda: admin.describe_consumer_groups([MISSING])
        )
        admin.cell(
            "delete_consumer_groups with members", lambda: admin.delete_consumer_groups([GROUP])
        )

    def offsets(self) -> None:
        admin = self.admin
        first = TopicPartition(TOPIC, 0, 2, "note")
        admin.cell(
            "alter_consumer_group_offsets",
            lambda: admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(GROUP, [first])], **_TIMES
            ),
        )
        admin.cell(
            "alter_consumer_group_offsets unknown topic",
            lambda: admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(MISSING, 0, 1)])]
            ),
        )
        admin.cell(
            "list_consumer_group_offsets",
            lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]),
        )
        admin.cell(
            "list_consumer_group_offsets require_stable",
            lambda: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(MISSING)], require_stable=True, **_TIMES
            ),
        )

    def security(self) -> None:
        admin = self.admin
        binding = _library.AclBinding(
            _library.ResourceType.TOPIC, TOPIC, _library.ResourcePatternType.LITERAL,
            f"User:{USER}", "*",
            _library.AclOperation.READ, _library.AclPermissionType.ALLOW,
        )  # fmt: skip
        ours = _library.AclBindingFilter(
            _library.ResourceType.TOPIC, TOPIC, _library.ResourcePatternType.LITERAL, None, None,
            _library.AclOperation.ANY, _library.AclPermissionType.ANY,
        )  # fmt: skip
        admin.cell("create_acls", lambda: admin.create_acls([binding], **_TIMES))
        wait_until(lambda: admin.describe_acls(ours).result(TIMEOUT_S))
        admin.cell("describe_acls", lambda: admin.describe_acls(ours, **_TIMES))
        admin.cell("delete_acls", lambda: admin.delete_acls([ours], **_TIMES))
        mechanism = _library.ScramMechanism.SCRAM_SHA_256
        info = _library.ScramCredentialInfo(mechanism, 4096)
        admin.cell(
            "alter_user_scram_credentials",
            lambda: admin.alter_user_scram_credentials(
                [_library.UserScramCredentialUpsertion(USER, info, b"secret")], **_TIMES
            ),
        )
        wait_until(lambda: admin.describe_user_scram_credentials([USER])[USER].result(TIMEOUT_S))
        admin.cell(
            "describe_user_scram_credentials users",
            lambda: admin.describe_user_scram_credentials([USER, MISSING], **_TIMES),
        )
        admin.cell(
            "describe_user_scram_credentials",
            lambda: sorted(admin.describe_user_scram_credentials().result(TIMEOUT_S)),
        )
        admin.cell(
            "alter_user_scram_credentials deletion",
            lambda: admin.alter_user_scram_credentials(
                [
                    _library.UserScramCredentialDeletion(USER, mechanism),
                    _library.UserScramCredentialDeletion(MISSING, mechanism),
                ]
            ),
        )

    def cluster(self) -> None:
        admin = self.admin
        admin.cell(
            "describe_cluster",
            lambda: admin.describe_cluster(include_authorized_operations=True, **_TIMES),
        )
        admin.cell("cluster_id", lambda: len(admin.cluster_id(timeout=20)))
        admin.cell(
            "elect_leaders",
            lambda: admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]),
        )
        admin.cell(
            "elect_leaders refused",
            lambda: admin.elect_leaders(
                ElectionType.UNCLEAN, partitions=[TopicPartition(MISSING, 0)], **_BOTH_TIMES
            ),
        )

    def delete(self) -> None:
        admin = self.admin
        admin.cell("delete_topics", lambda: admin.delete_topics([TOPIC, MISSING], **_BOTH_TIMES))


def _members(groups: list[Any]) -> list[Any]:
    """Return groups without the bytes of the protocol, which have ids of the client."""
    return [
        [group.id, group.state, group.protocol_type, group.protocol, len(group.members)]
        for group in groups
    ]


def _ours(listed: Any) -> list[Any]:  # noqa: ANN401
    return [*(group for group in listed.valid if group.group_id == GROUP), *listed.errors]


if __name__ == "__main__":
    Sweep(sys.argv[1]).run()
